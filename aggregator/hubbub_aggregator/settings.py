"""Every knob the aggregator has. docs/reference/settings.md is made from it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection
from pathlib import Path

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from hubbub_service_common import secret_files as environment
from hubbub_service_common.logs import LogFormat
from hubbub_service_common.redis.schemes import is_redis

__all__ = ["IN_FILES", "PREFIX", "Settings", "table", "unknown"]

PREFIX = "HUBBUB_AGGREGATOR_"
IN_FILES = (
    "storage",
    "shuffler_token",
    "shuffler_token_next",
    "analyst_token",
    "analyst_token_next",
    "admin_token",
)
"""Settings that may stand in a file, which the variable with _FILE behind its name names."""


class Settings(BaseSettings):
    """Read from HUBBUB_AGGREGATOR_* in the environment; built in `main` and in the command line only."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, hide_input_in_errors=True)

    codebook: Path = Field(default=Path("metrics.toml"), description="The metrics.toml that says what is collected.")
    state_dir: Path = Field(
        default=Path("aggregator-state"), description="Where keys, releases and the spool live; made with mode 0700."
    )
    identity: Path | None = Field(
        default=None, description="File with the identity key, mode 0600. Unset: identity.key in the state directory."
    )
    storage: SecretStr | None = Field(
        default=None,
        description="Where releases and keys are kept: a redis://, rediss:// or redis+cluster:// URL, for several "
        "processes. Unset: an SQLite file in the state directory, for one.",
    )
    storage_replicas: int = Field(
        default=0, ge=0, description="Redis only: replicas that must have what is acknowledged."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on. Anything but loopback needs both tokens.")
    port: int = Field(default=8702, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    shuffler_token: SecretStr | None = Field(
        default=None, description="Bearer token of the shuffler: the token, or sha256: and the hex digest of it."
    )
    shuffler_token_next: SecretStr | None = Field(
        default=None, description="A second token that is valid too, while the shuffler changes over."
    )
    analyst_token: SecretStr | None = Field(
        default=None,
        description="Token for queries (bearer, or the password of HTTP Basic); same forms as the shuffler's.",
    )
    analyst_token_next: SecretStr | None = Field(default=None, description="A second token for queries, for rotation.")
    bundle_lifetime: int = Field(
        default=7 * 86_400,
        ge=60,
        description="Seconds after which a bundle is no longer believed; re-signed at half of it.",
    )
    bundle_max_age: int = Field(
        default=3_600, ge=1, description="Seconds for which a relay or a device need not ask for the bundle again."
    )
    backfill_periods: int = Field(
        default=0, ge=0, le=100, description="Periods before the first start for which reports are taken too (demos)."
    )
    single_operator: bool = Field(
        default=False, description="One party runs shuffler and aggregator: answers then say what that means."
    )
    shuffler_address: str | None = Field(
        default=None,
        max_length=200,
        pattern=r"^https?://[!-~]+$",
        description="Where devices report to, as the dashboard shows it to app developers. Nothing is sent there.",
    )
    processes: int | None = Field(default=None, ge=1, description="Processes that open reports. Unset: one per core.")
    max_batch_bytes: int = Field(default=256 * 2**20, ge=64, description="Largest batch that is taken, in bytes.")
    lease: float = Field(
        default=30.0,
        ge=1,
        le=3_600,
        description="Seconds after which another process finishes the batch of one that is gone.",
    )
    retention_days: int | None = Field(
        default=None,
        ge=1,
        description="Days after the end of its period for which the counts of a release are kept, at least until its "
        "horizon. Its record stays. "
        "Unset: for ever.",
    )
    admin_host: str = Field(default="127.0.0.1", description="Address of the admin listener.")
    admin_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of the admin listener: /metrics, /healthz, /readyz. Unset: there is none.",
    )
    admin_token: SecretStr | None = Field(
        default=None, description="Bearer token for the admin listener. Needed unless that is on loopback."
    )
    tls_certificate: Path | None = Field(
        default=None, description="File with the certificate chain, to speak TLS without a proxy."
    )
    tls_key: Path | None = Field(default=None, description="File with the key of that certificate.")
    log_format: LogFormat = Field(default="text", description="Log lines as text or as json.")
    shutdown_timeout: int = Field(
        default=10, ge=1, description="Seconds that requests in work get when the service stops."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  not used: what is not in the environment is unset
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  not used: it knows directories, no files
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        files = environment.from_files(os.environ, PREFIX, IN_FILES)
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=dict(files))

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return _is_loopback(self.host)

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Certificate and key; None to speak plain HTTP."""
        return (self.tls_certificate, self.tls_key) if self.tls_certificate and self.tls_key else None

    @field_validator("storage")
    @classmethod
    def _an_address(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and not is_redis(given.get_secret_value()):
            raise ValueError("write redis://user:password@host:port/0, rediss://... or redis+cluster://...")
        return given

    @model_validator(mode="after")
    def _refuse_what_is_unsafe(self) -> Settings:
        if self.bundle_max_age >= self.bundle_lifetime:
            raise ValueError("bundle_max_age must be below bundle_lifetime: a cached bundle would outlive its belief")
        if not self.on_loopback and (self.shuffler_token is None or self.analyst_token is None):
            raise ValueError(
                f"{self.host} can be reached from elsewhere: set shuffler_token and analyst_token, or host=127.0.0.1"
            )
        if self.admin_port is not None and self.admin_token is None and not _is_loopback(self.admin_host):
            raise ValueError(f"{self.admin_host} can be reached from elsewhere: set admin_token, or leave admin_host")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("TLS needs both: set tls_certificate and tls_key")
        return self


def table() -> list[tuple[str, str, str]]:
    """Name, default and meaning of every setting: what --help prints."""
    return [
        (name, "" if field.default is None else str(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def unknown(names: Collection[str]) -> list[str]:
    """Which of these variables look like settings and are none."""
    return environment.unknown(names, PREFIX, Settings.model_fields, IN_FILES)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
