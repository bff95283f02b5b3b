"""How hypothesis draws: the same examples each time in `make test`, new ones in `make test-full`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    derandomize=True,  # which examples there are depends on the test alone, and none is kept from run to run
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],  # likewise
    print_blob=True,
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("steady")
