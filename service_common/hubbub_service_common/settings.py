"""Settings that both services share: where their values come from, which are refused, how they are listed."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from inspect import get_annotations
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from hubbub.errors import InvalidParameter
from hubbub.loopback_host import is_loopback_host
from hubbub_service_common import settings_from_files
from hubbub_service_common.http.tokens import AcceptedToken
from hubbub_service_common.process.logs import LogFormat, configure, ends_in_format
from hubbub_service_common.redis.schemes import FORMS, is_redis

__all__ = ["ServiceSettings"]


class ServiceSettings(BaseSettings):
    """Settings of a service, from the environment unless given. Each service adds its own settings and `env_prefix`."""

    model_config = SettingsConfigDict(
        frozen=True,
        hide_input_in_errors=True,  # a value could be a token
        allow_inf_nan=False,  # an infinite lease or timeout is no limit at all
    )

    service: ClassVar[str]
    """Name of the service in messages."""
    also_in_files: ClassVar[tuple[str, ...]] = ()
    """Settings that are not secret, but may be in a file all the same."""

    # each service redeclares these with its own defaults and descriptions
    host: str
    port: int
    state_dir: Path
    storage: SecretStr | None = None
    body_timeout: float
    storage_replicas: int = Field(
        default=0, ge=0, description="Redis only: replicas that must have a write before it is acknowledged."
    )
    admin_host: str = Field(default="127.0.0.1", description="Address of the admin listener.")
    admin_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of the admin listener: /metrics, /healthz and /readyz, for the operator. "
        "Unset: no admin listener.",
    )
    admin_token: AcceptedToken = Field(
        default=None,
        description="Bearer token for the admin listener: the token itself, or sha256: and its hex digest. "
        "Needed unless that listener is on loopback.",
    )
    admin_token_next: AcceptedToken = Field(
        default=None, description="A second valid token for the admin listener, for rotation."
    )
    tls_certificate: Path | None = Field(
        default=None, description="File with the certificate chain, to serve TLS without a proxy."
    )
    tls_key: Path | None = Field(default=None, description="File with the key of that certificate.")
    max_connections: int = Field(
        default=2_000,
        ge=20,
        description="Connections open at once; beyond it the ones that have kept the service waiting longest are cut.",
    )
    head_timeout: float = Field(
        default=10.0, gt=0, description="Seconds within which the head of a request must arrive."
    )
    body_rate: float = Field(
        default=1_000.0,
        gt=0,
        description="Slowest rate in bytes per second at which a body may arrive, after the first five seconds.",
    )
    clock_is_right: bool = Field(
        default=False,
        description="You have checked the time: at this start the clock is believed, however long the machine was off. "
        "Set it for one start, not in a unit file.",
    )
    log_format: LogFormat = Field(default="text", description="Log lines as text or as json.")
    shutdown_timeout: int = Field(
        default=10, ge=1, description="Seconds that requests in progress get to finish when the service stops."
    )

    @classmethod
    def load(cls, **given: object) -> Self:
        """Settings from the environment; values given here take precedence. InvalidParameter names what is wrong."""
        try:
            return cls(**given)  # type: ignore[arg-type]  # checked by pydantic, which is the point
        except ValidationError as error:
            # the setting and the reason, never the value: it may be a token
            told = [(*map(str, fault["loc"]), fault["msg"].removeprefix("Value error, ")) for fault in error.errors()]
            faults = "; ".join(": ".join(parts) for parts in told)
            raise InvalidParameter(f"these settings of the {cls.service} can't be used: {faults}") from None

    @classmethod
    def load_for_service(cls, **given: object) -> Self:
        """As `load`, for the service itself: a mistake is its last log line, as JSON if the log is in JSON."""
        name, variable = f"hubbub_{cls.service}", f"{cls.prefix()}LOG_FORMAT"
        around = {each.upper(): value for each, value in os.environ.items()}  # a variable may be in either case
        kind: LogFormat = "json" if (given.get("log_format") or around.get(variable)) == "json" else "text"
        if kind == "json":
            configure(kind, name)
        with ends_in_format(kind, logging.getLogger(name)):
            return cls.load(**given)

    @classmethod
    def prefix(cls) -> str:
        """Prefix of its environment variables."""
        return cls.model_config["env_prefix"]

    @classmethod
    def fields(cls) -> Iterator[tuple[str, FieldInfo]]:
        """Every setting in the order of listings: the service's own settings come before the shared ones."""
        names = dict.fromkeys(name for made in cls.__mro__ for name in get_annotations(made))
        return ((name, cls.model_fields[name]) for name in names if name in cls.model_fields)

    @classmethod
    def in_files(cls) -> list[str]:
        """Settings that may be in a file, whose path is in the variable with _FILE appended to the name."""
        secret = {name for name, field in cls.fields() if "SecretStr" in str(field.annotation)}
        return [name for name, _ in cls.fields() if name in secret or name in cls.also_in_files]

    @classmethod
    def table(cls) -> list[tuple[str, str, str]]:
        """Name, default and meaning of every setting: what --help prints."""
        return [
            (name, "" if field.default in (None, ()) else str(field.default), field.description or "")
            for name, field in cls.fields()
        ]

    @classmethod
    def unknown(cls, names: Collection[str]) -> list[str]:
        """The variables among these that look like settings but are none."""
        return settings_from_files.unknown(names, cls.prefix(), cls.model_fields, cls.in_files())

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Certificate and key; None to speak plain HTTP."""
        return (self.tls_certificate, self.tls_key) if self.tls_certificate and self.tls_key else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  not used: settings come from the environment only
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  not used: it reads directories, not files
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        files = settings_from_files.from_files(os.environ, cls.prefix(), cls.in_files())
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=dict(files))

    @field_validator("storage")
    @classmethod
    def _storage_that_we_have(cls, given: SecretStr | None) -> SecretStr | None:
        # otherwise it would be taken for the name of a file, and shown with the password in it
        if given and "://" in given.get_secret_value() and not is_redis(given.get_secret_value()):
            raise ValueError(f"there is no such kind of storage: write {FORMS}")
        return given

    @model_validator(mode="after")
    def _listeners_that_are_safe(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("TLS needs both: set tls_certificate and tls_key")
        if self.admin_port is None:
            return self
        if self.admin_token is None and not is_loopback_host(self.admin_host):
            raise ValueError(
                f"{self.admin_host} can be reached from elsewhere: set admin_token, or leave admin_host unset"
            )
        if self.port and (self.host, self.port) == (self.admin_host, self.admin_port):
            raise ValueError("both listeners can't have the same port: set another admin_port")
        return self
