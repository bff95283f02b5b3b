"""Test kit for apps that use the SDK: a device, a shuffler in memory, a clock, a fleet, and a pytest fixture.

In the project's `conftest.py`:

    pytest_plugins = ["hubbub_client.pytest_plugin"]

and a test asks for the fixture `hubbub`, a `Device`:

    def test_switching_to_the_dark_theme_is_reported_once(hubbub):
        app = App(telemetry=hubbub.client)
        app.switch_theme("dark")
        app.switch_theme("dark")

        assert [record[:2] for record in hubbub.recorded] == [("theme", "dark")] * 2
        assert len(hubbub.reports_sent("theme")) == 1

- `hubbub.recorded` holds the values that the app recorded: assert on it to check *what* was measured.
- `hubbub.reports_sent()` returns the reports that arrived, randomized as always. Assert on their number, metric and
  period, never on the value: it may be any value, and another one in the next run.
- A metric that takes the first value of a period is due at once, any other when the period is over.
  `hubbub.next_period()` ends the period; `hubbub.clock.advance(hours=3)` lets time pass.
- `hubbub.consent = False` withdraws consent, `hubbub.transport.offline = True` cuts the network,
  `hubbub.restart()` starts the app again with the same files, and
  `hubbub.transport.publish("new-metrics.toml")` publishes another codebook.
- The client is strict: a misspelt metric or a value of the wrong type is an exception, not a counter.

The codebook is `metrics.toml` in pytest's root directory. To use another one, name it in the configuration,

    [tool.pytest.ini_options]
    hubbub_codebook = "src/app/metrics.toml"

or return it from a fixture `hubbub_codebook` of your own (a path, TOML text, or a `Codebook`). A fixture
`hubbub_options` that returns a dict gives further arguments to `Client`. If your app passes limits of its own, return
them there; for a codebook with short periods, such as one for a trial:

    @pytest.fixture
    def hubbub_options():
        return {"min_period": None}

Variables that switch telemetry off
(DO_NOT_TRACK, HUBBUB_*) are unset for the test, so that it does the same on every machine.

Without pytest, make the same device with

    with Device("metrics.toml", state_dir) as device: ...

or use its parts, `MemoryTransport.serving(codebook, clock)` and `FakeClock()`, for a `Client` of your own:

    clock = FakeClock()
    transport = MemoryTransport.serving("metrics.toml", clock)
    client = Client("https://telemetry.example.com", trust=transport.trust, consent=True, state_dir=...,
                    background=False, transport=transport, clock=clock, pace=clock.pace)

`Fleet` reports a list of values, each from a device of its own, to a real shuffler or to one in memory:

    with Fleet("http://127.0.0.1:8701") as fleet:
        delivered = fleet.report("theme", ["dark"] * 600 + ["light"] * 400)

This is for the current period; for another one pass `period=fleet.period_of("2026-11-17")`.

Nothing here changes what protects a value. The randomness is the operating system's in tests, too: there is no seed to
set, and so none to leave set by mistake.
"""

from hubbub_client._sending.backoff import Pace
from hubbub_client._testing.clock import FakeClock
from hubbub_client._testing.device import Device, Recorded
from hubbub_client._testing.fleet import Delivered, Fleet
from hubbub_client._testing.in_memory_shuffler import MemoryTransport, Request, SentReport

__all__ = ["Delivered", "Device", "FakeClock", "Fleet", "MemoryTransport", "Pace", "Recorded", "Request", "SentReport"]
