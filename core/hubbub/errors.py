"""Exceptions for everything that can be wrong with a caller's input, as one tree.

    HubbubError
    ├── InvalidParameter      a mechanism or setting that cannot exist as asked (also a ValueError)
    │   └── SingularMatrix    a transition matrix that cannot be inverted well enough to estimate
    ├── InvalidValue          a value outside the domain it was recorded for (also a ValueError)
    ├── MalformedReport       report bytes that no device of this version produces
    ├── MalformedUpload       a request body that is not a list of reports
    ├── MalformedBatch        a batch whose header or length contradicts itself
    ├── CannotOpen            a sealed report that does not open with this key
    ├── MalformedTally        stored counts that do not belong to this mechanism
    ├── CodebookError         metrics.toml cannot be used; carries every finding, not just the first
    └── BundleError           the signed document is refused
        ├── MalformedBundle   not a bundle, or one with impossible content
        ├── UntrustedBundle   signed by a key that is not a trust anchor
        ├── BadSignature      names a trusted key, but the signature does not match the bytes
        ├── ExpiredBundle     past its expiry
        ├── RolledBackBundle  older than a bundle already accepted, or different with the same sequence number
        └── ChangedPeriod     changes the metrics or the key of a period that has begun

A message names the value, says what is wrong and what to do. Any other exception is a bug in Hubbub.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_SEARCHABLE = 1_000
"""With more options than this, no nearest one is looked for. That would take seconds, which a device cannot spare."""


def did_you_mean(word: str, options: Collection[str]) -> str:
    """A hint that names the option nearest to a misspelt word, or "" if none is near."""
    near = get_close_matches(word, options, n=1) if len(options) <= _SEARCHABLE else []
    return f"did you mean {near[0]!r}?" if near else ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or unwise, in a codebook, and how to fix it."""

    file: str
    key: str
    """Path of the key inside the file, as TOML writes it: `metrics.theme.values`."""
    problem: str
    fix: str

    def __str__(self) -> str:
        place = f"{self.file}: {self.key}" if self.key else self.file
        return f"{place}: {self.problem}; fix: {self.fix}"


class HubbubError(Exception):
    """Base of every error that a caller can cause."""


class InvalidParameter(HubbubError, ValueError):
    """A mechanism or setting that cannot exist as asked."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem}: {fix}" if fix else problem)
        self.problem, self.fix = problem, fix


class SingularMatrix(InvalidParameter):
    """A transition matrix that has no inverse, or one that would drown every estimate in noise."""


class InvalidValue(HubbubError, ValueError):
    """A value outside the domain of its metric."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem}: {fix}" if fix else problem)
        self.problem, self.fix = problem, fix


class MalformedReport(HubbubError):
    """Report bytes that no device of this version produces. The sender is at fault."""


class MalformedUpload(HubbubError):
    """A request body that is not a list of length-prefixed reports."""


class MalformedBatch(HubbubError):
    """A batch whose header or length contradicts itself."""


class CannotOpen(HubbubError):
    """A sealed report that does not open: damaged, or sealed for another key, metric or version."""


class MalformedTally(HubbubError):
    """Stored counts that do not belong to this mechanism, or are damaged."""


class CodebookError(HubbubError):
    """A codebook that cannot be used, with everything that is wrong with it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


class BundleError(HubbubError):
    """The signed document is refused. Reporting stops; it does not fall back to an older document."""


class MalformedBundle(BundleError):
    """Not a bundle, or one with impossible content."""


class UntrustedBundle(BundleError):
    """Signed by a key that is not among the trust anchors."""


class BadSignature(BundleError):
    """The bundle names a trusted key, but its signature does not match the bytes."""


class ExpiredBundle(BundleError):
    """Past its expiry."""

    expires: int | None = None
    """When it expired, in Unix time. The same on every attempt, unlike the message, which has the current time."""


class RolledBackBundle(BundleError):
    """Older than a bundle already accepted, or different from it with the same sequence number."""


class ChangedPeriod(BundleError):
    """Changes the metrics or the key of a period that has begun, which would split its crowd."""
