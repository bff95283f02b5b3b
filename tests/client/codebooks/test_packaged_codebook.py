"""A codebook that comes with the app: values are taken before the first bundle, and sent only as the bundle says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.errors import CodebookError, InvalidParameter
from hubbub_client import Outcome
from tests.client.world import DAY, START, TOML, World, no_network, period_of, rows, signed


@pytest.mark.parametrize("form", ["toml", "compiled", "object"])
def test_a_packaged_codebook_takes_values_before_the_first_bundle_and_sends_nothing(
    world: World, tmp_path: Path, form: str
) -> None:
    codebook = Codebook.from_toml(TOML)
    (tmp_path / "metrics.toml").write_text(TOML)
    (tmp_path / "codebook.json").write_bytes(codebook.to_bytes())
    shipped = {"toml": tmp_path / "metrics.toml", "compiled": str(tmp_path / "codebook.json"), "object": codebook}[form]
    client = world.client(codebook=shipped)
    world.transport.script.append(no_network)

    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.record("startup_ms", 3) is Outcome.RECORDED
    assert not client.flush(0, now=True)
    assert rows(world, "outbox") == []
    assert len(rows(world, "reductions")) == 2
    client.close()

    client = world.client(codebook=shipped)  # what was recorded survives a restart, bundle or not
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert {header.period for header, _ in world.opened()} == {period_of(START)}
    assert len(world.transport.reports) == 2


def test_values_of_a_packaged_metric_whose_name_the_bundle_does_not_list_are_dropped(world: World) -> None:
    client = world.client(codebook=Codebook.from_toml(TOML.replace("metrics.theme", "metrics.look")))
    assert client.record("look", "dark") is Outcome.RECORDED
    assert client.flush(0, now=True)
    assert world.transport.reports == rows(world, "reductions") == []
    assert client.stats()["lost:unknown-metric"] == 1


def test_values_of_a_packaged_metric_are_reported_as_the_bundle_has_it_and_never_by_the_packaged_page(
    world: World,
) -> None:
    client = world.client(codebook=Codebook.from_toml(TOML.replace("epsilon = 2", "epsilon = 1")))
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert rows(world, "pins") == rows(world, "ledger") == []
    assert client.flush(0, now=True)
    assert [header.metric for header, _ in world.opened()] == [Codebook.from_toml(TOML).metric("theme").id]
    theme = client.ledger().metric("theme")
    assert theme is not None
    assert theme.spent == 2.0


@pytest.mark.parametrize(
    "edit",
    [
        ('"light", "dark", "sepia", "other"]\nother = "other"', '"light", "sepia"]'),
        ('type = "category"', 'type = "category"\nreduce = "last"'),
    ],
)
def test_values_of_a_packaged_metric_that_do_not_fit_the_one_of_the_bundle_are_dropped(
    world: World, edit: tuple[str, str]
) -> None:
    world.transport.bundle = signed(TOML.replace(*edit))
    client = world.client(codebook=Codebook.from_toml(TOML))
    assert client.record("theme", "dark") is Outcome.RECORDED
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert world.transport.reports == rows(world, "reductions") == []
    assert client.stats()["lost:invalid"] == 1


def test_a_packaged_codebook_is_held_to_the_limits_of_the_device(world: World) -> None:
    client = world.client(codebook=Codebook.from_toml(TOML), max_epsilon=2.5)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET


def test_a_packaged_codebook_that_is_none_is_an_error_at_once(world: World, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="cannot be read"):
        world.client(codebook=tmp_path / "missing.json")
    (tmp_path / "broken.toml").write_text("[collection")
    with pytest.raises(CodebookError):
        world.client(codebook=tmp_path / "broken.toml")


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("shipped", [True, False])
def test_with_a_packaged_codebook_or_none_silence_is_reported_from_the_first_day_too(
    world: World, shipped: bool, recorded: bool
) -> None:
    """Else who recorded something on the day before the first bundle could be told from who did not."""
    toml = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")
    world.transport.bundle = signed(toml)
    client = world.client(codebook=Codebook.from_toml(toml) if shipped else None)
    if recorded:
        assert client.record("startup_ms", 3) is (Outcome.RECORDED if shipped else Outcome.WAITING)
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert [header.period for header, _ in world.opened()] == [period_of(START)]
