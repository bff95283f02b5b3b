"""The route to the shuffler: HTTP to its address, or a transport from the app."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub_client._http.transport import HttpTransport, check_address
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from hubbub_client._http.transport import Transport

__all__ = ["Route"]


@dataclass(frozen=True, slots=True)
class Route:
    """How the requests of one client reach the shuffler. Raises InvalidParameter if a setting is wrong."""

    address: str
    transport: Transport | None = None
    """The app's own; None: HTTP."""
    ca_file: Path | str | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password

    def __post_init__(self) -> None:
        check_address(self.address)
        if self.transport is None and (self.ca_file is not None or self.proxy is not None):
            with suppress(NoDurableState):  # a child that cannot use TLS reports nothing
                self._http(0.0, lambda: 0.0).close()

    @property
    def is_bounded(self) -> bool:
        """Whether a request always ends in time. HTTP does, the app's own transport may not."""
        return self.transport is None

    @contextmanager
    def open(self, deadline: float, monotonic: Callable[[], float]) -> Iterator[Transport]:
        """The app's transport, or an HTTP connection that ends with the context."""
        if self.transport is not None:
            yield self.transport
            return
        with self._http(deadline, monotonic) as transport:
            yield transport

    def _http(self, deadline: float, monotonic: Callable[[], float]) -> HttpTransport:
        return HttpTransport(
            self.address, deadline=deadline, monotonic=monotonic, ca_file=self.ca_file, proxy=self.proxy
        )
