"""Watch over leases: no worker changes a batch that another worker has claimed since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub_shuffler.storage import Claim

__all__ = ["Claims"]


@dataclass
class Claims:
    """Who has claimed which batch last, in all storages of a world."""

    last: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    wrong: str = ""
    """What went wrong first: the oracle raises it after the step, since a service would take it for its own error."""

    def watch(self, storage: Any, group: str) -> None:
        """Note what this storage is asked from now on, and what it answers."""
        for name in ("claim", "claim_held"):
            self._claiming(storage, name, group)
        for name in ("extend", "postpone", "settle", "hold_back"):
            self._changing(storage, name, group)

    def _claiming(self, storage: Any, name: str, group: str) -> None:
        real = getattr(storage, name)

        def claiming(*given: Any, **named: Any) -> Claim | None:
            claim: Claim | None = real(*given, **named)
            if claim is not None:
                self.last[group, claim.batch.id] = claim.token
            return claim

        setattr(storage, name, claiming)

    def _changing(self, storage: Any, name: str, group: str) -> None:
        real = getattr(storage, name)

        def changing(claim: Claim, *given: Any, **named: Any) -> bool:
            changed: bool = real(claim, *given, **named)
            if changed and self.last.get((group, claim.batch.id), claim.token) != claim.token and not self.wrong:
                self.wrong = f"{name} of batch {claim.batch.id.hex()} by a worker that had lost it"
            return changed

        setattr(storage, name, changing)
