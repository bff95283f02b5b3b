"""The SDK that an app embeds. The app records values; only randomized, sealed reports ever leave the device.

    client = Client("https://telemetry.example.com", trust="ed25519:...", consent=settings.telemetry, state_dir=...)
    client.record("startup_ms", 812)     # never raises, never waits; a background thread sends what is due
    client.preview()                     # what will be sent, and why it is deniable
    client.disable()                     # the person opts out, for good

`python -m hubbub_client inspect STATE_DIR` shows the same from outside. `hubbub_client.testing` drives many simulated
devices, for demos and tests.
"""

from typing import TYPE_CHECKING

from hubbub_client.client import Client
from hubbub_client.outcome import Outcome, UnknownMetric, WrongValue

if TYPE_CHECKING:
    from hubbub_client._http.transport import HttpTransport, Transport

__all__ = ["Client", "HttpTransport", "Outcome", "Transport", "UnknownMetric", "WrongValue"]


def __getattr__(name: str) -> object:
    """Load the transport on first use, so that importing the package does not load an HTTP client."""
    if name in ("HttpTransport", "Transport"):
        from hubbub_client._process.preload_modules import imported

        return getattr(imported("hubbub_client._http.transport"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
