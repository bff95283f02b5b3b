"""Length of a lease: how long a batch belongs to one worker, well below the codebooks' forward horizon.

After a worker is killed, its batch is left alone until the lease runs out. With a forward horizon of minutes, a lease
of ten minutes would cost the batch: past its horizon it is refused for good.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.bundle_body import Body

__all__ = ["SHORTEST", "Lease"]

_LOG = logging.getLogger("hubbub_shuffler")
_IN_A_HORIZON = 4
"""Leases that fit into the shortest horizon: a batch whose worker is killed three times still arrives in time."""
SHORTEST = 2.0
"""Seconds. With a shorter lease, each short delay of the storage would hand batches to other workers."""


class Lease:
    """The lease from the settings, unless the codebooks of the current bundle leave less time."""

    def __init__(self, setting: float) -> None:
        self._setting = self._said = setting

    def seconds(self, body: Body | None) -> float:
        """The lease under this bundle. A change is logged once."""
        if body is None:
            return self._said  # the last bundle may have left less time
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
