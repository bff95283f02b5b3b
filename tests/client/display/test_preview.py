"""Preview, ledger and inspection: what a person can read there, and that it is true."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hubbub.codebook import Metric
from hubbub.errors import CodebookError
from hubbub.mechanisms import registered
from hubbub.trust_anchor import anchor_of
from hubbub_client import Outcome
from hubbub_client.__main__ import main
from hubbub_client._display.preview import PendingValue, _pending
from hubbub_client._display.report_in_words import deniability, input_in_words, probability, report_in_words
from tests.client.world import DAY, START, TOML, World, codebook, opened, signed
from tests.support.codebooks import STRANGER
from tests.support.unwrapped import unwrapped

DESCRIBED = TOML.replace("[metrics.theme]", '[metrics.theme]\ndescription = "Which theme is on"')


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state")
    world.transport.bundle = signed(DESCRIBED)
    return world


def test_a_preview_shows_the_queued_report_exactly_as_it_is_sent(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)

    (report,) = client.preview().queued
    world.time.now += DAY / 2
    assert client.flush(0)

    ((_, plaintext),) = world.opened()
    assert report.says == repr(codebook().metric("theme").label_of(plaintext.payload[0]))
    assert (report.metric, report.period, report.epsilon) == ("theme", "2026-12-13", 2.0)
    assert client.preview().queued == ()


def test_a_preview_shows_what_is_still_to_be_reduced(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", 100)
    client.record("startup_ms", 300)

    (pending,) = client.preview().pending

    assert (pending.metric, pending.reduce, pending.recorded, pending.value) == ("startup_ms", "mean", 2, 200.0)
    assert pending.randomized_at == "2026-12-14 00:00:00Z"


def test_a_preview_describes_what_is_collected(world: World) -> None:
    metrics = {metric.name: metric for metric in world.ready().preview().metrics}
    assert metrics["theme"].description == "Which theme is on"
    assert (metrics["startup_ms"].mechanism, metrics["startup_ms"].epsilon) == ("laplace", 1.0)


def test_the_person_s_value_is_in_no_repr(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", 4321.125)
    preview = client.preview()
    assert "4321.125" in str(preview)
    assert "4321.125" not in repr(preview)
    assert "4321" not in repr(PendingValue("startup_ms", "", "mean", 1, 4321.125, ""))


@pytest.mark.parametrize("value", range(4))
def test_the_sentence_states_the_probabilities_that_run(value: int) -> None:
    """krr of four values at epsilon 2: the truth with 0.711, each lie with 0.096."""
    metric = codebook().metric("theme")
    label = metric.label_of(value)
    sentence = deniability(metric, bytes([value]))
    assert f"with probability 0.096, one whose value is {label!r} with 0.71:" in sentence
    assert f"sends {label!r}" in sentence
    assert "at most 7.39 times" in sentence  # e^2


def test_how_much_likelier_is_rounded_up() -> None:
    toml = TOML + '\n[metrics.dark_mode]\ntype = "boolean"\nepsilon = 0.7\nmin_batch = 100\n'
    assert "at most 2.02 times" in deniability(codebook(toml).metric("dark_mode"), b"\x01")  # e^0.7 is 2.0138


@pytest.mark.parametrize("mechanism", ["laplace", "duchi"])
def test_a_number_s_report_is_said_in_the_metric_s_own_unit(mechanism: str) -> None:
    metric = codebook(TOML.replace("laplace", mechanism)).metric("startup_ms")
    reports = metric.mechanism.outputs()
    said = [float(report_in_words(metric, metric.mechanism.encode(report))) for report in reports]
    assert said == sorted(said)
    assert said[0] <= 0
    assert said[-1] >= 5_000
    for report in reports[:: max(1, len(reports) // 50)]:
        (ratio,) = re.findall(r"at most ([0-9.]+) times", deniability(metric, metric.mechanism.encode(report)))
        assert 1 <= float(ratio) <= math.e + 0.005


@pytest.mark.parametrize("mechanism", ["hybrid", "piecewise", "table"])
def test_a_symbol_is_said_as_the_number_that_it_stands_for(mechanism: str) -> None:
    """So that the mean of what devices say is the estimate, in the metric's own unit."""
    metric = codebook(TOML.replace("laplace", mechanism)).metric("startup_ms")
    reports = metric.mechanism.outputs()
    said = [float(report_in_words(metric, metric.mechanism.encode(report))) for report in reports]
    assert min(said) < 0
    assert max(said) > 5_000
    assert sum(said) / len(said) == pytest.approx(2_500, rel=1e-3)  # mirrored about the middle
    estimate = metric.mechanism.estimate(metric.mechanism.tally(reports[:2]))
    assert estimate.values[0] == pytest.approx((said[0] + said[1]) / 2, rel=1e-3)


@pytest.mark.parametrize("mechanism", ["sue", "oue"])
def test_a_report_of_bits_is_said_as_the_values_it_says_yes_to(mechanism: str) -> None:
    values = [f"v{number}" for number in range(12)]
    toml = f'{TOML}[metrics.one]\ntype = "category"\nvalues = {values}\nepsilon = 1\nmechanism = "{mechanism}"\n'
    metric = codebook(toml + "min_batch = 100\n").metric("one")
    assert report_in_words(metric, bytes([0b101, 0])) == "yes to 'v0', 'v2', no to all others"
    assert report_in_words(metric, bytes(2)) == "no to every value"
    assert report_in_words(metric, bytes([0xFF, 0xF])).endswith("'v7' and 4 more, no to all others")


@pytest.mark.parametrize("mechanism", ["olh", "linear-hash", "hadamard"])
def test_a_hashed_report_is_never_said_to_be_a_value(mechanism: str) -> None:
    """Its number is that of a hash and a group, which many values share."""
    toml = f'{TOML}[metrics.one]\ntype = "category"\nvalues = ["a", "b", "c"]\nepsilon = 1\nmechanism = "{mechanism}"\n'
    metric = codebook(toml + "min_batch = 100\n").metric("one")
    for report in metric.mechanism.outputs():
        assert report_in_words(metric, metric.mechanism.encode(report)).startswith("the bytes ")


KINDS = {
    "boolean": 'type = "boolean"',
    "category": 'type = "category"\nvalues = ["a", "b", "c"]',
    "mean": 'type = "mean"\nbounds = [-5, 100]',
    "distribution": 'type = "distribution"\nbounds = [0, 100]\nbins = 4',
}
OWN_MATRIX = '{ name = "matrix", matrix = [[0.75, 0.5], [0.25, 0.5]] }'


def every_mechanism() -> Iterator[Metric]:
    """A metric for each mechanism and each kind of value that it fits."""
    for mechanism in registered():
        written = OWN_MATRIX if mechanism == "matrix" else f'"{mechanism}"'
        for kind in KINDS.values():
            with suppress(CodebookError):
                toml = f"{TOML}[metrics.one]\n{kind}\nepsilon = 1\nmechanism = {written}\nmin_batch = 100\n"
                yield codebook(toml).metric("one")


def test_every_mechanism_is_put_into_words_that_its_own_likelihood_bears_out() -> None:
    seen = set()
    for metric in every_mechanism():
        mechanism = metric.mechanism
        seen.add(mechanism.name)
        reports = mechanism.outputs()
        for report in reports[:: max(1, len(reports) // 20)]:
            laws = {
                input_in_words(metric, value): probability(mechanism.likelihood(report, value))
                for value in mechanism.inputs()
            }
            said = re.fullmatch(
                r"a device whose value is (.+) sends (.+) with probability (.+), one whose value is (.+) with (.+): "
                r"at most (.+) times as likely, whatever the value",
                deniability(metric, mechanism.encode(report)),
            )
            assert said
            least, sent, rarely, most, often, ratio = said.groups()
            assert sent == report_in_words(metric, mechanism.encode(report))
            assert (laws[least], laws[most]) == (rarely, often)
            assert float(rarely) == min(map(float, laws.values()))
            assert float(often) == max(map(float, laws.values()))
            chances = [mechanism.likelihood(report, value) for value in mechanism.inputs()]
            assert max(chances) / min(chances) <= float(ratio) + 1e-6, "never shown better than it is"
            assert 1 <= float(ratio) < math.exp(metric.epsilon) + 0.01
    assert seen == set(registered())


def test_a_boolean_and_a_matrix_are_said_by_their_labels() -> None:
    for mechanism, often in (('"rr"', "0.27"), (OWN_MATRIX, "0.25")):
        toml = (
            TOML + f'\n[metrics.dark_mode]\ntype = "boolean"\nepsilon = 1\nmechanism = {mechanism}\nmin_batch = 100\n'
        )
        metric = codebook(toml).metric("dark_mode")
        assert report_in_words(metric, b"\x01") == "'yes'"
        sentence = f"a device whose value is 'no' sends 'yes' with probability {often}"
        assert sentence in deniability(metric, b"\x01")


def test_the_ledger_says_what_was_spent_and_on_what(world: World) -> None:
    client = world.ready(max_epsilon=8, lifetime_epsilon=20)
    client.record("theme", "dark")
    client.record("startup_ms", 9)
    world.time.now = START + DAY
    assert client.flush(0)

    account = client.ledger()

    assert (account.spent, account.spent_today) == (6.0, 3.0)  # three for each day, recorded or not
    assert (account.max_epsilon, account.lifetime_epsilon, account.complete) == (8.0, 20.0, True)
    theme = account.metric("theme")
    assert theme is not None
    assert (theme.spent, theme.reports) == (4.0, 1)
    assert [(entry.start, entry.decision.value, entry.epsilon) for entry in theme.periods] == [
        (START + DAY, "charged", 2.0),
        (START, "spent", 2.0),
    ]
    assert "Charged today: epsilon 3 of 8. Ever: 6 of 20." in str(account)


def test_without_a_file_there_is_nothing_to_show_and_none_is_made(world: World) -> None:
    client = world.client(consent=False)
    assert client.preview().queued == ()
    assert client.preview().taking_part is False
    assert client.ledger().spent == 0
    assert not world.directory.exists()


def test_without_durable_state_looking_is_no_error(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    client = world.client(state_dir=tmp_path / "file" / "state")
    assert client.record("theme", "dark") is Outcome.NO_DURABLE_STATE
    assert client.preview().queued == ()
    assert client.ledger().spent == 0


def test_a_ledger_that_cannot_be_read_does_not_claim_that_nothing_was_spent(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)
    assert client.ledger().complete
    client.close()
    assert not client.ledger().complete
    assert "More may have been spent" in str(client.ledger())


# -- from outside -------------------------------------------------------------------------------


def test_inspect_shows_the_same_from_the_file(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    client = world.ready()
    client.record("theme", "dark")
    client.record("startup_ms", 812)
    assert client.flush(0)
    preview, account = client.preview(), client.ledger()

    assert main(["inspect", str(world.directory), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)

    assert shown["queued"] == preview.document()["queued"]
    assert shown["pending"] == preview.document()["pending"]
    assert shown["metrics"] == preview.document()["metrics"]
    assert shown["ledger"]["metrics"] == account.document()["metrics"]
    assert (shown["disabled"], shown["damaged_file"]) == (False, False)

    assert main(["inspect", str(world.directory)]) == 0
    text = capsys.readouterr().out
    assert "Which theme is on" in text
    assert preview.queued[0].deniable in unwrapped(text)
    assert "mean of 1 is 812" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_inspect_changes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with world.ready() as client:
        client.record("theme", "dark")
    before = {path.name: path.read_bytes() for path in world.directory.iterdir()}
    assert main(["inspect", str(world.directory)]) == 0
    after = {path.name: path.read_bytes() for path in world.directory.iterdir() if path.stat().st_size}
    assert {name: raw for name, raw in after.items() if not name.endswith("-shm")} == before
    assert capsys.readouterr().err == ""


def test_inspect_works_before_any_bundle_with_the_codebook_of_the_app(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.toml").write_text(DESCRIBED)
    client = world.client(codebook=tmp_path / "metrics.toml")
    assert client.record("startup_ms", 812) is Outcome.RECORDED
    assert main(["inspect", str(world.directory)]) == 0
    text = capsys.readouterr().out
    assert "Which theme is on" in text
    assert "mean of 1 is 812" in text


def test_inspect_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 1
    assert "nothing was ever kept there" in capsys.readouterr().err
    (tmp_path / "hubbub.sqlite3").write_bytes(b"not a database" * 100)
    assert main(["inspect", str(tmp_path)]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert (tmp_path / "hubbub.sqlite3").read_bytes() == b"not a database" * 100


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("inspect", "disable", "enable", "Nothing here uses the network"))


def test_what_a_preview_says_of_a_report_is_what_the_aggregator_opens(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", 2_500)
    world.time.now += DAY
    world.settle(client)  # not a flush: the random delay may be over already, and the report gone
    (report,) = client.preview().queued
    assert client.flush(0, now=True)
    _, plaintext = opened(world.transport.reports[0])
    assert report.says == report_in_words(codebook().metric("startup_ms"), plaintext.payload)


def test_a_value_of_another_period_length_is_shown_as_one_that_will_be_deleted() -> None:
    """Counted in weeks, the index of an hour is beyond the year 9999."""
    weekly = codebook(TOML.replace('period = "1d"', 'period = "1w"')).metric("theme")

    pending = _pending(weekly, 500_000, '{"count": 1, "value": "dark"}', START)

    assert (pending.recorded, pending.randomized_at) == (1, "never: it will be deleted")


def test_before_consent_the_preview_lists_what_would_be_collected(world: World, tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(DESCRIBED)
    client = world.client(consent=False, codebook=tmp_path / "metrics.toml")
    preview = client.preview()
    assert (preview.taking_part, [metric.name for metric in preview.metrics]) == (False, ["theme", "startup_ms"])
    assert "What would be collected with consent; nothing is collected now: 2" in str(preview)
    assert "Which theme is on" in str(preview)
    assert not world.directory.exists()
    assert world.transport.requests == []


def test_before_consent_without_a_codebook_the_preview_says_that_it_knows_none(world: World) -> None:
    assert "What is collected: nothing, as there is no consent" in str(world.client(consent=False).preview())


def test_switched_off_the_preview_still_lists_the_questions(world: World) -> None:
    world.transport.bundle = signed(DESCRIBED)
    client = world.ready()
    assert client.disable()
    later = world.client()
    for preview in (client.preview(), later.preview()):
        assert [metric.name for metric in preview.metrics] == ["startup_ms", "theme"]
        assert "What would be collected with consent" in str(preview)
    assert later.record("theme", "dark") is Outcome.DISABLED
    stranger = world.client(trust=anchor_of(STRANGER))
    assert stranger.preview().metrics == ()  # a bundle that this app does not trust says nothing


def test_a_codebook_that_is_not_used_is_not_shown_as_collected(world: World) -> None:
    preview = world.ready(min_period="1w").preview()
    assert preview.refusal == preview.document()["refusal"] == "short_period"
    assert "What the codebook asks; nothing of it is collected (short_period): 2" in str(preview)


def test_numbers_are_shown_as_people_write_them(world: World) -> None:
    world.transport.bundle = signed(TOML.replace("[metrics.startup_ms]", '[metrics.startup_ms]\nunit = "ms"'))
    client = world.ready()
    for value in (60, 70, 80.12345678, 71, 65.5, 74, 71.70135):
        client.record("startup_ms", value)
    client.record("theme", "dark")
    shown = str(client.preview())
    assert "mean of 7 is 70.3321 ms, randomized" in shown
    assert "first of 1 is 'dark', randomized" in shown


def test_the_ledger_is_in_words(world: World) -> None:
    client = world.ready(lifetime_epsilon=4)
    client.record("theme", "dark")
    world.time.now += DAY
    client.flush(0, now=True)
    lines = [line.strip() for line in str(client.ledger()).splitlines()]
    assert "theme: epsilon 2 charged, 1 report made" in lines
    assert any(line.endswith("reported, epsilon 2") for line in lines)
    assert "not reported, as a limit was reached" in unwrapped(str(client.ledger()))
    assert any(line.endswith("no reports made") for line in lines)
    assert "report(s)" not in str(client.ledger())


def test_inspect_shows_what_would_be_collected_before_anything_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.toml").write_text(DESCRIBED)
    assert main(["inspect", str(tmp_path)]) == 1
    assert "pass --codebook" in capsys.readouterr().err
    for directory in (tmp_path, tmp_path / "not-made-yet"):
        assert main(["inspect", str(directory), "--codebook", str(tmp_path / "metrics.toml")]) == 0
        text = capsys.readouterr().out
        assert "What would be collected with consent" in text
        assert "Which theme is on" in text
    assert main(["inspect", str(tmp_path), "--codebook", str(tmp_path / "none.toml")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "metrics.toml"]
