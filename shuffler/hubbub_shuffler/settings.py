"""The shuffler's settings. docs/reference/settings.md is made from them."""

from __future__ import annotations

from pathlib import Path
from re import fullmatch
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from hubbub.loopback_host import is_loopback_host
from hubbub.trust_anchor import parse_anchor
from hubbub_service_common.http.cross_origin import check_origins
from hubbub_service_common.http.tokens import PresentedToken
from hubbub_service_common.settings import ServiceSettings
from hubbub_shuffler.bundle.relay import ID_BYTES
from hubbub_shuffler.storage import LONGEST_PAUSE

__all__ = ["Settings"]

_SLOWEST_RATE = 1e-6


class Settings(ServiceSettings):
    """The shuffler's own settings, beside those that it shares with the aggregator."""

    model_config = SettingsConfigDict(env_prefix="HUBBUB_SHUFFLER_")
    service = "shuffler"
    also_in_files = ("trust",)

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
    storage_quota: int | None = Field(
        None,
        ge=2**20,
        description="Bytes that waiting reports may take, on each primary of a Redis. Unset: its maxmemory, or what "
        "the disk has. Uploads get 503 and Retry-After a little below it, so that waiting reports can still leave.",
    )
    aggregator: str = Field("http://127.0.0.1:8702", description="Address of the aggregator.")
    forward_token: PresentedToken = Field(
        None,
        description="Bearer token that the aggregator expects: the token itself, at least 16 characters. "
        "Needed unless the aggregator is on loopback.",
    )
    ca_file: Path | None = Field(
        None,
        description="File with the certificate authorities that may vouch for the aggregator, in PEM. "
        "Unset: those of the system.",
    )
    trust: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Trust anchors (ed25519:...) of the aggregator, separated by commas. "
        "Unset: the first one seen is kept, on loopback only.",
    )
    codebooks: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Ids of the only codebooks that are accepted, separated by commas; a bundle with any other is "
        "refused. Unset: all that the aggregator signs.",
    )
    min_batch_floor: int = Field(
        100, ge=2, description="Fewest reports that ever leave together, whatever the codebook says."
    )
    max_batch: int = Field(1_000_000, ge=4, description="Most reports in one batch; larger buckets are cut at random.")
    max_body: int = Field(2**20, ge=1_024, description="Largest upload, in bytes.")
    max_reports: int = Field(10_000, ge=1, description="Most reports in one upload.")
    max_pending: int = Field(
        64 * 2**20,
        ge=2**20,
        description="Bytes of uploads in progress at once; beyond it uploads get 503 and Retry-After.",
    )
    max_uploads: int = Field(
        1_000, ge=1, description="Uploads that wait for the storage at once; beyond it uploads get 503 and Retry-After."
    )
    max_connections_per_address: int = Field(
        200, ge=1, description="Connections from one address. No limit on loopback or behind a proxy."
    )
    rate: float = Field(
        100.0,
        ge=0,
        le=1e9,
        description="Requests per second that an address may send for long; each report after the first in a request "
        "counts as one more. 0: no limit. Loopback is never limited.",
    )
    burst: float = Field(5_000.0, ge=1, le=1e9, description="Requests and reports that an address may send at once.")
    proxy_hops: int = Field(
        0,
        ge=0,
        le=10,
        description="Trusted proxies in front. The client is the X-Forwarded-For entry that many from the right.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Origins (https://app.example.com) whose web pages may fetch the bundle and send reports, "
        "separated by commas; * for all pages. Unset: none.",
    )
    body_timeout: float = Field(30.0, gt=0, description="Seconds within which the body of an upload must arrive.")
    skew: float = Field(
        60.0, ge=0, description="Seconds by which a device's clock may be ahead; at most a tenth of a period is used."
    )
    tick: float = Field(1.0, gt=0, le=LONGEST_PAUSE, description="Seconds between two checks for buckets that are due.")
    lease: float = Field(
        600.0,
        ge=2,
        le=LONGEST_PAUSE,
        description="Seconds for which a batch belongs to one worker; extended while the worker makes progress. An "
        "attempt that makes none for half of it is given up. At most a quarter of the shortest forward_horizon is "
        "used.",
    )
    longest_backoff: float = Field(
        60.0, ge=1, le=LONGEST_PAUSE, description="Longest pause in seconds between two attempts to forward a batch."
    )
    bundle_refresh: float | None = Field(
        None,
        gt=0,
        description="Seconds between two fetches of the bundle. Unset: half of its max_age. The bundle is also fetched "
        "shortly before each period begins.",
    )
    forget_after: float = Field(
        30 * 86_400.0,
        ge=0,
        description="Seconds for which a closed bucket is remembered as closed, without its reports.",
    )
    forwards: int = Field(2, ge=1, le=64, description="Batches forwarded at the same time.")
    reuse_port: bool = Field(
        False,
        description="Let several processes with these settings listen on the same port (SO_REUSEPORT).",
    )

    @field_validator("trust", "codebooks", "cors_origins", mode="before")
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

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        check_origins(given)
        return given

    @field_validator("rate")
    @classmethod
    def _rate(cls, given: float) -> float:
        if 0 < given < _SLOWEST_RATE:
            raise ValueError(f"an address may send at least {_SLOWEST_RATE} requests per second; 0 means no limit")
        return given

    @field_validator("aggregator")
    @classmethod
    def _address(cls, given: str) -> str:
        parts = urlsplit(given)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("an address looks like https://aggregator.example.com")
        _ = parts.port  # ValueError if it is not a valid port
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address holds no password: use forward_token")
        return given.rstrip("/")

    @property
    def aggregator_on_loopback(self) -> bool:
        """Whether the aggregator is certain to be on the same machine."""
        return is_loopback_host(urlsplit(self.aggregator).hostname or "")

    @model_validator(mode="after")
    def _an_aggregator_that_is_known(self) -> Self:
        missing = [name for name in ("forward_token", "trust") if not getattr(self, name)]
        if missing and not self.aggregator_on_loopback:
            raise ValueError(f"the aggregator is not on loopback: set {' and '.join(missing)}")
        return self
