"""Lazy imports: all modules that a cycle needs are loaded here at once, before the first cycle. A fork waits for that.

A child that is forked while another thread imports a module finds that module locked for ever. So a cycle imports
nothing by itself, which a test checks. Neither importing this package nor making a client loads these modules. The
other thread may also be the app's own, which the SDK does not know about. So a child that has to import does it in a
thread of its own, and waits for it within a limit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from hubbub_client._process.fork import give_up, is_child, no_fork
from hubbub_client._state.errors import FORK_EARLIER, NoDurableState

__all__ = ["MODULES", "imported", "load"]

MODULES = (
    "cryptography.exceptions",
    "cryptography.hazmat.backends.openssl.backend",  # which its own functions import at their first call
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "cryptography.hazmat.primitives.hpke",
    "encodings.idna",  # by which the system looks up a name
    "hubbub.codebook",
    "logging",
)
"""Also loads what these import."""
_CHILD_WAITS = 2.0
"""Seconds for an import in a child, unless the caller sets them. Making a client may take this long."""
_done: list[bool] = []


def load(within: float | None = None) -> None:
    """Load the modules, once. In a forked child this raises NoDurableState if a module is locked or only half
    initialized, after `within` seconds at the latest."""
    if not _done:
        _in_time(_load, _CHILD_WAITS if within is None else within)


def imported(name: str) -> ModuleType:
    """A module, imported if needed; if it is loaded already, without waiting. Raises NoDurableState like `load`."""
    if name not in sys.modules or _is_half_initialized(name):
        _in_time(lambda: _import(name), _CHILD_WAITS)
    return sys.modules[name]


def _load() -> None:
    with no_fork():
        for name in MODULES:
            _import_whole(name)
        from hubbub.metric_types import registered

        registered()  # each type is a module, and a later codebook may use any of them
    _done.append(True)


def _import(name: str) -> None:
    with no_fork():
        _import_whole(name)


def _import_whole(name: str) -> None:
    """Import a module completely. In a child, this thread may have the id of the one that held the module's lock at the
    fork. Then the import returns a half initialized module at once, and the next thread would wait for ever."""
    import_module(name)
    if _is_half_initialized(name):
        raise ImportError(f"{name} is only half initialized")


def _is_half_initialized(name: str) -> bool:
    return bool(getattr(sys.modules[name].__spec__, "_initializing", False))  # as `import` checks it


def _in_time(work: Callable[[], None], within: float) -> None:
    if not is_child():
        work()
        return
    failed: list[BaseException] = []

    def tried() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  raised again below
            failed.append(error)

    thread = threading.Thread(target=tried, name="hubbub-import", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is exiting
        raise NoDurableState("no thread can be started") from None
    thread.join(within)
    if thread.is_alive():
        give_up()
        raise NoDurableState("an import in this child does not end", FORK_EARLIER)
    for error in failed:  # for example, another thread had half imported a module at the fork
        if isinstance(error, NoDurableState):
            raise error
        raise NoDurableState(f"an import in this child failed ({type(error).__name__})", FORK_EARLIER) from error
