"""Consent: whether anything may be kept or sent at all. There is no default, and everything else can only say no.

may keep and send  =  consent=  says True
                      and neither DO_NOT_TRACK nor HUBBUB_DISABLED is set
                      and this state directory is not switched off (`disable`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hubbub.errors import InvalidParameter
from hubbub_client._consent.opt_out_file import OptOut

__all__ = ["OFF_SWITCHES", "Consent", "is_set"]

OFF_SWITCHES = ("DO_NOT_TRACK", "HUBBUB_DISABLED")
"""Environment variables by which a person or an administrator says no, whatever the app says."""

_MEANS_NOTHING = ("", "0", "false")


class Consent:
    """The person's answer, asked again each time it matters."""

    def __init__(self, answer: bool | Callable[[], bool], environment: Mapping[str, str], optout: OptOut) -> None:
        if not isinstance(answer, bool) and not callable(answer):
            raise InvalidParameter(
                f"consent is True, False or a function that returns one of them, got {answer!r}: "
                "pass what the person answered"
            )
        self._answer, self._environment, self._optout = answer, environment, optout

    def given(self) -> bool:
        """Only a plain True is consent. A function that fails or returns anything else gives none."""
        if any(is_set(self._environment, name) for name in OFF_SWITCHES):
            return False
        if self._optout.given():
            return False
        if isinstance(self._answer, bool):
            return self._answer
        try:
            return self._answer() is True
        except Exception:  # noqa: BLE001  the app's own function: however it failed, it did not say yes
            return False


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch in the environment is on: set, and not empty, 0 or false."""
    return environment.get(name, "").strip().lower() not in _MEANS_NOTHING
