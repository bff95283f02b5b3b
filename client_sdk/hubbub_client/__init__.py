"""The SDK that an app embeds: record values, and nothing but randomized, sealed reports ever leaves the device.

    client = Client("https://telemetry.example.com", trust="ed25519:...", consent=settings.telemetry, state_dir=...)
    client.record("startup_ms", 812)     # never raises, never waits for the network
    client.flush()                       # sends what is due

`hubbub_client.testing` drives many simulated devices, for demos and tests.
"""

from hubbub_client.client import Client, Outcome
from hubbub_client.transport import HttpTransport, Transport

__all__ = ["Client", "HttpTransport", "Outcome", "Transport"]
