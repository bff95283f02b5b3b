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
        self._mistake = ""

    def given(self) -> bool:
        """Only a plain True is consent. A function that fails or returns anything else gives none."""
        if any(is_set(self._environment, name) for name in OFF_SWITCHES):
            return False
        if self._optout.given():
            return False
        if isinstance(self._answer, bool):
            return self._answer
        try:
            answer = self._answer()
        except Exception as error:  # noqa: BLE001  the app's own function: however it failed, it did not say yes
            self._mistake = f"the function that consent= names raised {type(error).__name__}"
            return False
        known = isinstance(answer, bool)
        self._mistake = (
            "" if known else f"the function that consent= names returned no bool but {type(answer).__name__}"
        )
        return answer is True

    def why_not(self) -> str:
        """Why `given` said no, for a developer."""
        if switches := [name for name in OFF_SWITCHES if is_set(self._environment, name)]:
            return f"nothing is kept or sent: {switches[0]} is set in the environment"
        if self._optout.given():
            return (
                "nothing is kept or sent: telemetry is switched off in state_dir: client.enable() or "
                "`python -m hubbub_client enable STATE_DIR` takes that back"
            )
        if self._mistake:
            return f"nothing is kept or sent: {self._mistake}: only True is a yes"
        return "nothing is kept or sent: there is no consent: pass the person's answer as consent=, True for yes"


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch in the environment is on: set, and not empty, 0 or false."""
    return environment.get(name, "").strip().lower() not in _MEANS_NOTHING
