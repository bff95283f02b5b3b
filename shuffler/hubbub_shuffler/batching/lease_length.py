"""For how long a batch is one worker's, at most: well below the horizon of what is collected.

After a kill nobody touches a batch until its lease runs out. With a forward horizon of minutes, a lease of ten minutes
would be the end of it: a batch past its horizon is refused for good.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.bundle_body import Body

__all__ = ["SHORTEST", "Lease"]

_LOG = logging.getLogger("hubbub_shuffler")
_IN_A_HORIZON = 4
"""Leases that fit into the shortest horizon: a batch whose worker is killed three times still gets there."""
SHORTEST = 2.0
"""Seconds; below it a storage that is slow for a moment would give batches to other workers all the time."""


class Lease:
    """The setting, unless the codebooks of the bundle at hand leave less time."""

    def __init__(self, setting: float) -> None:
        self._setting = self._said = setting

    def seconds(self, body: Body | None) -> float:
        """The lease under this bundle. A change is said in the log, once."""
        if body is None:
            return self._said  # the one before it may have left less time
        horizon = min(codebook.forward_horizon for codebook in body.codebooks)
        lease = min(self._setting, max(SHORTEST, horizon / _IN_A_HORIZON))
        if lease != self._said:
            self._said = lease
            if lease < self._setting:
                _LOG.warning(
                    "the lease is %g seconds and not %g as set: a batch whose worker is killed waits for that long, "
                    "and has %d seconds to get to the aggregator (forward_horizon). Set HUBBUB_SHUFFLER_LEASE to %g or "
                    "less",
                    lease,
                    self._setting,
                    horizon,
                    lease,
                )
            else:
                _LOG.info("the lease is %g seconds again, as set", lease)
        return lease
