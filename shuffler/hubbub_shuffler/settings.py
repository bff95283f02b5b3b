"""Every knob the shuffler has. docs/reference/settings.md is made from it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection
from pathlib import Path
from re import fullmatch
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from hubbub.trust import parse_anchor
from hubbub_service_common import secret_files as environment
from hubbub_service_common.logs import LogFormat
from hubbub_service_common.redis.schemes import SCHEMES
from hubbub_shuffler.bundles import ID_BYTES
from hubbub_shuffler.storage import LONGEST_PAUSE

__all__ = ["IN_FILES", "PREFIX", "Settings", "is_loopback", "table", "unknown"]

PREFIX = "HUBBUB_SHUFFLER_"
IN_FILES = ("storage", "forward_token", "trust", "admin_token")
"""Settings that may stand in a file, which the variable with _FILE behind its name names."""
_SLOWEST_RATE = 1e-6


class Settings(BaseSettings):
    """The shuffler's settings, from the environment unless given. Built in main.py only."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        hide_input_in_errors=True,  # what was given could be the token
        allow_inf_nan=False,  # an endless skew or timeout is no limit at all
    )

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8701, ge=0, le=65_535, description="Port to listen on; 0 picks a free one.")
    state_dir: Path = Field(
        Path("shuffler-state"), description="Directory for waiting reports and the cached bundle. Never back it up."
    )
    storage: SecretStr | None = Field(
        None,
        description="Where reports wait: a redis://, rediss://, redis+cluster:// or rediss+cluster:// URL, or a file. "
        "Unset: an SQLite file in the state directory.",
    )
    storage_replicas: int = Field(
        0, ge=0, description="Redis only: replicas that must have a report before it is acknowledged."
    )
    aggregator: str = Field("http://127.0.0.1:8702", description="Address of the aggregator.")
    forward_token: SecretStr | None = Field(
        None, description="Bearer token that the aggregator expects. Needed unless it is on loopback."
    )
    ca_file: Path | None = Field(
        None,
        description="File with the certificate authorities that may vouch for the aggregator, in PEM. "
        "Unset: those that come with the software.",
    )
    trust: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Trust anchors (ed25519:...) of the aggregator, separated by commas. "
        "Unset: the first one seen is kept, on loopback only.",
    )
    codebooks: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Ids of the only codebooks that are taken, separated by commas; a bundle with another one is "
        "refused. Unset: all that the aggregator signs.",
    )
    min_batch_floor: int = Field(
        100, ge=2, description="Fewest reports that ever leave together, whatever the codebook says."
    )
    max_batch: int = Field(1_000_000, ge=4, description="Most reports in one batch; larger buckets are cut at random.")
    max_body: int = Field(2**20, ge=1_024, description="Largest upload, in bytes.")
    max_reports: int = Field(10_000, ge=1, description="Most reports in one upload.")
    max_pending: int = Field(
        64 * 2**20, ge=2**20, description="Bytes of uploads in work at once; beyond it uploads get 503 and Retry-After."
    )
    max_uploads: int = Field(
        1_000, ge=1, description="Uploads that wait for the storage at once; beyond it uploads get 503 and Retry-After."
    )
    max_connections: int = Field(
        2_000, ge=20, description="Connections open at once; beyond it those that kept us waiting for longest are cut."
    )
    max_connections_per_address: int = Field(
        200, ge=1, description="Connections of one address; not on loopback, nor behind a proxy."
    )
    rate: float = Field(
        100.0,
        ge=0,
        le=1e9,
        description="Requests per second that an address may send for long; each further report in one counts too. "
        "0: no limit. Never on loopback.",
    )
    burst: float = Field(5_000.0, ge=1, le=1e9, description="Requests and reports that an address may send at once.")
    proxy_hops: int = Field(
        0, ge=0, le=10, description="Proxies in front whose X-Forwarded-For is believed, counted from the right."
    )
    head_timeout: float = Field(10.0, gt=0, description="Seconds in which the head of a request must arrive.")
    body_timeout: float = Field(30.0, gt=0, description="Seconds in which the body of an upload must arrive.")
    body_rate: float = Field(
        1_000.0, gt=0, description="Bytes per second at which a body must arrive, after five seconds."
    )
    skew: float = Field(
        60.0, ge=0, description="Seconds by which a device's clock may be ahead; a tenth of a period at most."
    )
    tick: float = Field(1.0, gt=0, le=LONGEST_PAUSE, description="Seconds between two looks at which buckets are due.")
    lease: float = Field(
        600.0,
        ge=2,
        le=LONGEST_PAUSE,
        description="Seconds for which a batch is one worker's; extended while it gets on. An attempt in which nothing "
        "moves for half of it is given up.",
    )
    longest_backoff: float = Field(
        60.0, ge=1, le=LONGEST_PAUSE, description="Most seconds between two attempts to forward a batch."
    )
    bundle_refresh: float | None = Field(
        None,
        gt=0,
        description="Seconds between two fetches of the bundle. Unset: half of its max_age. It is also fetched shortly "
        "before each period begins.",
    )
    forget_after: float = Field(
        30 * 86_400.0, ge=0, description="Seconds for which a closed bucket is remembered as closed, without reports."
    )
    forwards: int = Field(2, ge=1, le=64, description="Batches forwarded at the same time.")
    admin_host: str = Field("127.0.0.1", description="Address of the admin listener.")
    admin_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="Port of the admin listener: /metrics, /healthz, /readyz, /v1/status. Unset: there is none.",
    )
    admin_token: SecretStr | None = Field(
        None, description="Bearer token for the admin listener. Needed unless that is on loopback."
    )
    tls_certificate: Path | None = Field(
        None, description="File with the certificate chain, to speak TLS without a proxy."
    )
    tls_key: Path | None = Field(None, description="File with the key of that certificate.")
    reuse_port: bool = Field(
        False, description="Let several processes listen on the same port (SO_REUSEPORT), each with these settings."
    )
    log_format: LogFormat = Field("text", description="Log lines as text or as json.")
    shutdown_timeout: int = Field(10, ge=1, description="Seconds that uploads in work get when the service stops.")

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

    @field_validator("trust", "codebooks", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given

    @field_validator("trust")
    @classmethod
    def _anchors(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for anchor in given:
            parse_anchor(anchor)
        return given

    @field_validator("codebooks")
    @classmethod
    def _ids(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            if not fullmatch(f"[0-9a-f]{{{2 * ID_BYTES}}}", text):
                raise ValueError(
                    f"the id of a codebook has {2 * ID_BYTES} hexadecimal digits: /v1/status shows those in use"
                )
        return given

    @field_validator("rate")
    @classmethod
    def _rate(cls, given: float) -> float:
        if 0 < given < _SLOWEST_RATE:
            raise ValueError(f"an address may send at least {_SLOWEST_RATE} requests per second; 0 means no limit")
        return given

    @field_validator("forward_token", "admin_token")
    @classmethod
    def _token(cls, given: SecretStr | None) -> SecretStr | None:
        if given and not fullmatch("[!-~]([ -~]*[!-~])?", given.get_secret_value()):
            raise ValueError("a token is one line of ASCII: is there a line end after it, as in a file?")
        return given

    @field_validator("storage")
    @classmethod
    def _place(cls, given: SecretStr | None) -> SecretStr | None:
        # else it would be taken for the name of a file, and shown with the password in it
        if given and "://" in given.get_secret_value() and not given.get_secret_value().startswith(SCHEMES):
            raise ValueError(f"a storage is a file or begins with {', '.join(SCHEMES)}")
        return given

    @field_validator("aggregator")
    @classmethod
    def _address(cls, given: str) -> str:
        parts = urlsplit(given)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("an address looks like https://aggregator.example.com")
        _ = parts.port  # ValueError if it is none
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address holds no password: use forward_token")
        return given.rstrip("/")

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Certificate and key; None to speak plain HTTP."""
        return (self.tls_certificate, self.tls_key) if self.tls_certificate and self.tls_key else None

    @model_validator(mode="after")
    def _safe(self) -> Self:
        missing = [name for name in ("forward_token", "trust") if not getattr(self, name)]
        if missing and not is_loopback(self.aggregator):
            raise ValueError(f"the aggregator is not on loopback: set {' and '.join(missing)}")
        if self.admin_port is not None and not self.admin_token and not is_loopback(f"http://{_host(self.admin_host)}"):
            raise ValueError("the admin listener is not on loopback: set admin_token")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("TLS needs both: set tls_certificate and tls_key")
        if (self.host, self.port) == (self.admin_host, self.admin_port) and self.port:
            raise ValueError("both listeners can't have the same port: set another admin_port")
        return self


def table() -> list[tuple[str, str, str]]:
    """Name, default and meaning of every setting: what --help prints."""
    return [
        (name, "" if field.default in (None, ()) else str(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def unknown(names: Collection[str]) -> list[str]:
    """Which of these variables look like settings and are none."""
    return environment.unknown(names, PREFIX, Settings.model_fields, IN_FILES)


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(address: str) -> bool:
    """Whether this address is on the same machine for sure."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
