"""Settings of both services, from the classes that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from hubbub_aggregator.settings import Settings as Aggregator
from hubbub_service_common.settings_from_files import FILE
from hubbub_shuffler.settings import Settings as Shuffler
from scripts.reference.markdown import anchored, code, definitions

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from hubbub_service_common.settings import ServiceSettings

__all__ = ["CLASSES", "settings", "undocumented"]

CLASSES: dict[str, type[ServiceSettings]] = {"shuffler": Shuffler, "aggregator": Aggregator}
_WORDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "max_length": "characters: at most"}


def settings(service: str) -> str:
    """An entry for each setting of a service."""
    made = CLASSES[service]
    prefix = made.prefix()
    return definitions(
        (
            anchored(code(prefix + name.upper()), service, name),
            f"default {code(_default(field))}" if _default(field) else "unset",
            " ".join(
                filter(
                    None,
                    [
                        field.description or "",
                        _limits(field),
                        _secret(field),
                        _file(service, prefix + name.upper(), name),
                    ],
                )
            ),
        )
        for name, field in made.fields()
    )


def undocumented() -> list[str]:
    """Settings without a description."""
    return [
        f"{service}: {name}"
        for service, made in CLASSES.items()
        for name, field in made.fields()
        if not field.description
    ]


def is_secret(field: FieldInfo) -> bool:
    """Whether the value of a setting is secret, and never printed."""
    return "SecretStr" in str(field.annotation)


def _default(field: FieldInfo) -> str:
    default: Any = field.default
    if default is None or default == ():
        return ""
    assert not isinstance(default, SecretStr)  # noqa: S101  a secret has no default
    return str(default).lower() if isinstance(default, bool) else str(default)


def _limits(field: FieldInfo) -> str:
    found = [
        f"{_WORDS[name]} {getattr(limit, name):g}" if name != "max_length" else f"at most {limit.max_length} characters"
        for limit in field.metadata
        for name in _WORDS
        if getattr(limit, name, None) is not None
    ]
    return f"({', '.join(found)})" if found else ""


def _file(service: str, variable: str, name: str) -> str:
    return f"Or {code(variable + FILE)}: a file that holds it." if name in CLASSES[service].in_files() else ""


def _secret(field: FieldInfo) -> str:
    return "**Secret:** never printed, and no option of the command." if is_secret(field) else ""
