"""The testing kit, used as the developer of an app would use it; and what it must not do to production."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import registered
from hubbub_client import Client, Outcome
from hubbub_client.testing import Device, FakeClock, Fleet, MemoryTransport
from tests.repository.test_imports import loaded_by
from tests.support.codebooks import dark_mode, photo_app, startup_ms, theme
from tests.support.patience import PATIENCE

pytest_plugins = ["hubbub_client.pytest_plugin"]

METRICS = photo_app(dark_mode(1, min_batch=100), theme(2, other="other", min_batch=100), startup_ms(1, min_batch=100))
WAIT_MS = """
[metrics.wait_ms]
type = "distribution"
bounds = [0, 1000]
bins = 8
epsilon = 1
min_batch = 100
"""


@pytest.fixture
def hubbub_codebook() -> str:
    return METRICS


class PhotoApp:
    """What an app does with the SDK."""

    def __init__(self, telemetry: Client) -> None:
        self._telemetry = telemetry

    def start(self, milliseconds: int) -> None:
        self._telemetry.record("startup_ms", milliseconds)

    def switch_to(self, theme: str) -> None:
        self._telemetry.record("dark_mode", theme == "dark")
        self._telemetry.record("theme", theme)


# -- as an app's tests would --------------------------------------------------------------------


def test_one_report_of_dark_mode_was_sent(hubbub: Device) -> None:
    PhotoApp(hubbub.client).switch_to("dark")
    (report,) = hubbub.reports_sent("dark_mode")
    assert (report.metric, report.period) == ("dark_mode", "2026-01-05")
    assert report.value in (True, False)


def test_what_the_app_recorded_is_known_without_noise(hubbub: Device) -> None:
    app = PhotoApp(hubbub.client)
    app.switch_to("dark")
    app.start(812)
    assert hubbub.recorded == [
        ("dark_mode", True, Outcome.RECORDED),
        ("theme", "dark", Outcome.RECORDED),
        ("startup_ms", 812, Outcome.RECORDED),
    ]


def test_a_mean_is_sent_when_its_period_is_over(hubbub: Device) -> None:
    app = PhotoApp(hubbub.client)
    for milliseconds in (800, 900, 1_000):
        app.start(milliseconds)
    assert hubbub.reports_sent() == []
    hubbub.next_period()
    assert [(report.metric, report.period) for report in hubbub.reports_sent()] == [("startup_ms", "2026-01-05")]


def test_one_report_per_period_however_often_the_theme_is_switched(hubbub: Device) -> None:
    app = PhotoApp(hubbub.client)
    for _ in range(3):
        for chosen in ("dark", "light"):
            app.switch_to(chosen)
        hubbub.next_period()
    assert [report.period for report in hubbub.reports_sent("theme")] == ["2026-01-05", "2026-01-06", "2026-01-07"]
    assert {report.value for report in hubbub.reports_sent("theme")} <= {"light", "dark", "sepia", "other"}


def test_a_device_that_was_off_for_too_long_drops_what_waited(hubbub: Device) -> None:
    PhotoApp(hubbub.client).switch_to("dark")
    hubbub.clock.advance(days=10)
    assert hubbub.reports_sent() == []


def test_a_misspelt_metric_fails_the_test(hubbub: Device) -> None:
    with pytest.raises(LookupError, match="dark_mode"):
        hubbub.client.record("dark_mod", True)
    with pytest.raises(TypeError):
        hubbub.client.record("dark_mode", "yes")


def test_nothing_is_sent_without_consent(hubbub: Device) -> None:
    app = PhotoApp(hubbub.client)
    hubbub.consent = False
    app.switch_to("dark")
    assert hubbub.reports_sent() == []
    assert {record.outcome for record in hubbub.recorded} == {Outcome.DISABLED}


def test_a_lost_network_delays_a_report_and_nothing_else(hubbub: Device) -> None:
    hubbub.transport.offline = True
    PhotoApp(hubbub.client).switch_to("dark")
    assert hubbub.reports_sent() == []
    hubbub.transport.offline = False
    assert len(hubbub.reports_sent()) == 2


def test_a_restart_reports_nothing_twice(hubbub: Device) -> None:
    PhotoApp(hubbub.client).switch_to("dark")
    first = hubbub.reports_sent()
    PhotoApp(hubbub.restart()).switch_to("light")
    assert hubbub.reports_sent() == first
    assert len(hubbub.recorded) == 4


def test_a_new_codebook_reaches_the_device(hubbub: Device) -> None:
    off = METRICS.replace("[metrics.dark_mode]", "[metrics.dark_mode]\nenabled = false")
    hubbub.transport.publish(off)
    hubbub.next_period()
    hubbub.client.flush(0)
    PhotoApp(hubbub.client).switch_to("dark")
    assert [report.metric for report in hubbub.reports_sent()] == ["theme"]


def test_a_device_lives_as_long_as_a_test_wants(hubbub: Device) -> None:
    """Bundles expire; the shuffler in memory renews its own, as a real one does."""
    for _ in range(12):
        hubbub.clock.advance(days=10)
        PhotoApp(hubbub.client).switch_to("dark")
        assert hubbub.recorded[-1].outcome is Outcome.RECORDED
        hubbub.reports_sent()
    assert len(hubbub.reports_sent()) == 24


def test_the_fixture_is_no_thread_and_no_file_of_the_app(hubbub: Device, tmp_path: Path) -> None:
    before = threading.active_count()
    PhotoApp(hubbub.client).switch_to("dark")
    hubbub.reports_sent()
    assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


class TestWithOptions:
    """`hubbub_options` are arguments of the client's."""

    @pytest.fixture
    def hubbub_options(self) -> dict[str, Any]:
        return {"lifetime_epsilon": 6.0}

    def test_the_device_has_a_limit(self, hubbub: Device) -> None:
        app = PhotoApp(hubbub.client)
        app.switch_to("dark")
        hubbub.next_period()
        hubbub.client.flush(0)  # four were charged for the first day, and two are left
        app.switch_to("dark")
        outcomes = [record.outcome for record in hubbub.recorded]
        assert outcomes == [Outcome.RECORDED, Outcome.RECORDED, Outcome.RECORDED, Outcome.OVER_BUDGET]


# -- in a project of its own --------------------------------------------------------------------

SAMPLE = """
import os

def test_one_report_was_sent(hubbub):
    hubbub.client.record("dark_mode", True)
    assert [report.metric for report in hubbub.reports_sent()] == ["dark_mode"]

def test_each_test_begins_anew(hubbub):
    assert hubbub.reports_sent() == hubbub.recorded == []
    assert hubbub.client.stats()["outbox"] == 0

def test_the_environment_says_nothing(hubbub):
    assert not [name for name in os.environ if name == "DO_NOT_TRACK" or name.startswith("HUBBUB_")]
"""


def run_project(directory: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text('pytest_plugins = ["hubbub_client.pytest_plugin"]\n')
    (directory / "test_app.py").write_text(SAMPLE)
    if not (directory / "pytest.ini").exists():
        (directory / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *more],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_project_needs_one_line_and_its_codebook_whatever_the_machine_says(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(METRICS)
    finished = run_project(tmp_path, DO_NOT_TRACK="1", HUBBUB_DISABLED="1", HUBBUB_ANYTHING="x")
    assert "3 passed" in finished.stdout, finished.stdout


@pytest.mark.full  # three runs of pytest
def test_a_project_may_keep_its_codebook_elsewhere_and_is_told_when_it_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nhubbub_codebook = src/telemetry.toml\n")
    finished = run_project(tmp_path)
    assert "3 errors" in finished.stdout
    assert "there is no codebook at" in finished.stdout
    (tmp_path / "src").mkdir()
    (tmp_path / "src/telemetry.toml").write_text(METRICS)
    finished = run_project(tmp_path, "-p", "xdist", "-n", "2")  # also where its tests run side by side
    assert "3 passed" in finished.stdout, finished.stdout


# -- the parts ----------------------------------------------------------------------------------


def test_without_pytest_the_parts_make_a_client(tmp_path: Path) -> None:
    clock = FakeClock("2027-03-01T00:00:00Z")
    transport = MemoryTransport.serving(Codebook.from_toml(METRICS), clock)
    client = Client(
        "https://telemetry.example.com",
        trust=transport.trust,
        consent=True,
        state_dir=tmp_path,
        background=False,
        transport=transport,
        clock=clock,
        pace=clock.pace,
    )
    client.record("theme", "dark")
    assert client.flush(now=True)
    client.close()
    assert [(report.metric, report.period) for report in transport.reports_sent()] == [("theme", "2027-03-01")]


def test_a_codebook_is_given_as_a_file_as_text_or_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    spellings: list[Codebook | Path | str] = [path, str(path), METRICS, Codebook.from_toml(METRICS)]
    for number, given in enumerate(spellings):
        with Device(given, tmp_path / str(number)) as device:
            device.client.record("dark_mode", True)
            assert len(device.reports_sent()) == 1


def test_a_resent_report_is_one_report(tmp_path: Path) -> None:
    with Device(METRICS, tmp_path) as device:
        device.client.record("dark_mode", True)
        device.reports_sent()
        device.transport.reports *= 3
        assert len(device.reports_sent()) == 1


def test_a_transport_with_a_finished_bundle_reads_no_reports() -> None:
    with pytest.raises(InvalidParameter, match="serving"):
        MemoryTransport(b"").reports_sent()


def test_a_fleet_reports_to_a_shuffler_in_memory() -> None:
    clock = FakeClock()
    transport = MemoryTransport.serving(METRICS, clock)
    fleet = Fleet(transport, trust=transport.trust, clock=clock)
    assert fleet.report("dark_mode", [True] * 50, clock.period).acknowledged == 50
    assert len(transport.reports_sent("dark_mode")) == 50
    assert len(transport.reports_sent("theme")) == 0


@pytest.mark.parametrize("mechanism", sorted(registered()))
def test_whatever_the_mechanism_a_report_can_be_read(mechanism: str) -> None:
    """One of each metric type that the mechanism serves, and no value outside of what the metric could say."""
    served = 0
    values: dict[str, tuple[object, set[Any] | None]] = {
        "dark_mode": (True, {True, False}),
        "theme": ("dark", {"light", "dark", "sepia", "other"}),
        "startup_ms": (100, None),
        "wait_ms": (100, None),
    }
    for metric, (value, possible) in values.items():
        size = len(possible or ())
        chances = [[4 / (3 + size) if x == y else 1 / (3 + size) for x in range(size)] for y in range(size)]
        options = f"{{ name = '{mechanism}', matrix = {chances} }}" if registered()[mechanism].needs_options else None
        written = (METRICS.replace("device_epsilon = 4", "device_epsilon = 5") + WAIT_MS).replace(
            f"[metrics.{metric}]", f"[metrics.{metric}]\nmechanism = {options or repr(mechanism)}"
        )
        served += _reported(written, metric, value, possible)
    assert served


def _reported(written: str, metric: str, value: object, possible: set[Any] | None) -> bool:
    from hubbub.errors import HubbubError

    clock = FakeClock()
    try:
        transport = MemoryTransport.serving(written, clock)
        built = Codebook.from_toml(written).metric(metric).mechanism
    except HubbubError:
        return False  # not for metrics of this type
    Fleet(transport, trust=transport.trust, clock=clock).report(metric, [value] * 20, clock.period)
    reports = transport.reports_sent(metric)
    assert len(reports) == 20
    names_one = all(isinstance(built.face(report), int) for report in built.outputs()[:4])
    if possible is not None and names_one:
        assert {report.value for report in reports} <= possible
    return True


def test_a_report_by_a_matrix_is_read_as_the_value_it_names() -> None:
    """In the testing kit as in `preview`: by its name, and not by the place of that name in the list."""
    chances = [[0.4 if x == y else 0.2 for x in range(4)] for y in range(4)]
    written = METRICS.replace(
        "[metrics.theme]", f"[metrics.theme]\nmechanism = {{ name = 'matrix', matrix = {chances} }}"
    )
    clock = FakeClock()
    transport = MemoryTransport.serving(written, clock)
    Fleet(transport, trust=transport.trust, clock=clock).report("theme", ["dark"] * 10, clock.period)
    assert {report.value for report in transport.reports_sent("theme")} <= {"light", "dark", "sepia", "other"}


@pytest.mark.parametrize(
    ("period", "expected"), [("1h", "2026-01-05T13:00Z"), ("1d", "2026-01-06"), ("1w", "2026-01-12")]
)
def test_a_clock_goes_to_the_next_period_of_the_codebook(tmp_path: Path, period: str, expected: str) -> None:
    with Device(METRICS.replace('period = "1d"', f'period = "{period}"'), tmp_path) as device:
        device.next_period()
        assert device.clock.period.label == expected
        assert device.clock() == device.clock.period.start


def test_waiting_moves_the_clock_and_takes_no_time() -> None:
    clock = FakeClock("2026-01-05T12:00:00+02:00")
    pace, began = clock.pace, clock()
    assert began == FakeClock("2026-01-05T10:00:00").now
    pace.sleep(3_600)
    clock.advance(60, hours=1)
    assert clock() - began == pace.monotonic() == 7_260


# -- what it must not do ------------------------------------------------------------------------


def test_the_sdk_loads_no_part_of_the_kit_and_the_kit_no_pytest() -> None:
    sdk = loaded_by("import hubbub_client")
    assert not any(name.startswith(("hubbub_client.testing", "hubbub_client._testing", "pytest")) for name in sdk)
    kit = loaded_by("import hubbub_client.testing")
    assert not {name.split(".")[0] for name in kit} & {"pytest", "_pytest", "numpy"}


def test_reports_in_tests_are_as_random_as_any(tmp_path: Path) -> None:
    """Two hundred devices that recorded the same, at epsilon 1: all alike by chance once in 1e27 runs."""
    clock = FakeClock()
    transport = MemoryTransport.serving(METRICS, clock)
    Fleet(transport, trust=transport.trust, clock=clock).report("dark_mode", [True] * 200, clock.period)
    assert {report.value for report in transport.reports_sent()} == {True, False}
    assert list(tmp_path.iterdir()) == []
