"""Settings whose values are in files, and environment variables that no setting has.

A process's environment is inherited by its children, and many tools show it; a file has an owner and a mode. So a
secret may be in a file whose path is in a variable: for the setting FORWARD_TOKEN of a service, the variable with
`_FILE` appended to its name. Docker's secrets and systemd's credentials arrive this way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from hubbub.errors import InvalidParameter

__all__ = ["FILE", "from_files", "unknown"]

FILE = "_FILE"
_LARGEST = 65_536
"""Bytes. More than any token, address or list of anchors has."""


def from_files(environ: Mapping[str, str], prefix: str, names: Collection[str]) -> dict[str, str]:
    """The settings of these names whose values are in files, without the line end that editors leave there."""
    # in capitals, as pydantic and `unknown` take them: a name accepted there but missed here would leave a secret unset
    given = {name.upper(): value for name, value in environ.items()}
    return {
        name: _content(variable, Path(given[variable]), given)
        for name in names
        if given.get(variable := f"{prefix}{name.upper()}{FILE}")
    }


def unknown(variables: Collection[str], prefix: str, names: Collection[str], in_files: Collection[str]) -> list[str]:
    """The variables among these that look like settings but are none. A misspelt one would leave a default in force."""
    known = {prefix + name.upper() for name in names} | {f"{prefix}{name.upper()}{FILE}" for name in in_files}
    return sorted(name for name in variables if name.upper().startswith(prefix) and name.upper() not in known)


def _content(variable: str, path: Path, environ: Mapping[str, str]) -> str:
    plain = variable.removesuffix(FILE)
    if plain in environ:  # even if it is empty: the empty value would win, and what the file protects would be open
        raise InvalidParameter(f"{plain} and {variable} are both set: which one is meant? Remove one")
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        text = raw.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        raise InvalidParameter(f"{variable} names {path}, which can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidParameter(f"{variable} names {path}, which is not text") from None  # none of it is shown
    if not text.strip() or len(raw) > _LARGEST:
        what = "is empty" if not text.strip() else f"has more than {_LARGEST} bytes"
        raise InvalidParameter(f"{variable} names {path}, which {what}: is it the right file?")
    return text
