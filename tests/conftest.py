"""What no test decides for itself: how hypothesis draws, and how long a client of ours waits for a service.

Hypothesis draws the same examples each time in `make test`, and new ones in `make test-full`.
"""

from __future__ import annotations

from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

from tests.patience import PATIENCE

settings.register_profile(
    "steady",
    derandomize=True,  # which examples there are depends on the test alone, and none is kept from run to run
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],  # likewise
    print_blob=True,
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("steady")

# Five seconds, where nothing else is said: too little for a service on a busy machine that computes a guarantee.
DEFAULT_TIMEOUT_CONFIG.read = PATIENCE
