"""Every knob the shuffler has. docs/shuffler.md shows the same table; a test compares."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from hubbub.trust import parse_anchor
from hubbub_shuffler.storage import LONGEST_PAUSE

__all__ = ["Settings", "is_loopback"]


class Settings(BaseSettings):
    """The shuffler's settings, from the environment unless given. Built in main.py only."""

    # what was given never shows in an error: it could be the token
    model_config = SettingsConfigDict(env_prefix="HUBBUB_SHUFFLER_", frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8701, ge=0, le=65_535, description="Port to listen on; 0 picks a free one.")
    state_dir: Path = Field(
        Path("shuffler-state"), description="Directory for waiting reports and the cached bundle. Never back it up."
    )
    aggregator: str = Field("http://127.0.0.1:8702", description="Address of the aggregator.")
    forward_token: SecretStr | None = Field(
        None, description="Bearer token that the aggregator expects. Needed unless it is on loopback."
    )
    trust: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Trust anchors (ed25519:...) of the aggregator, separated by commas. "
        "Unset: the first one seen is kept, on loopback only.",
    )
    min_batch_floor: int = Field(
        100, ge=2, description="Fewest reports that ever leave together, whatever the codebook says."
    )
    max_batch: int = Field(1_000_000, ge=4, description="Most reports in one batch; larger buckets are cut at random.")
    max_body: int = Field(2**20, ge=1_024, description="Largest upload, in bytes.")
    max_pending: int = Field(
        64 * 2**20, ge=2**20, description="Bytes of uploads in work at once; beyond it uploads get 503 and Retry-After."
    )
    body_timeout: float = Field(30.0, gt=0, description="Seconds in which the body of an upload must arrive.")
    skew: float = Field(60.0, ge=0, description="Seconds by which a device's clock may be ahead.")
    tick: float = Field(1.0, gt=0, le=LONGEST_PAUSE, description="Seconds between two looks at which buckets are due.")
    lease: float = Field(
        600.0,
        ge=2,
        le=LONGEST_PAUSE,
        description="Seconds for which a batch is one worker's; an attempt takes half of it at most.",
    )
    longest_backoff: float = Field(
        60.0, ge=1, le=LONGEST_PAUSE, description="Most seconds between two attempts to forward a batch."
    )
    bundle_refresh: float | None = Field(
        None, gt=0, description="Seconds between two fetches of the bundle. Unset: half of its max_age."
    )
    forget_after: float = Field(
        30 * 86_400.0, ge=0, description="Seconds for which a closed bucket is remembered as closed, without reports."
    )
    shutdown_timeout: int = Field(10, ge=1, description="Seconds that uploads in work get when the service stops.")

    @field_validator("trust", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given

    @field_validator("trust")
    @classmethod
    def _anchors(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for anchor in given:
            parse_anchor(anchor)
        return given

    @field_validator("aggregator")
    @classmethod
    def _address(cls, given: str) -> str:
        parts = urlsplit(given)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("an address looks like https://aggregator.example.com")
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address holds no password: use forward_token")
        return given.rstrip("/")

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if is_loopback(self.aggregator):
            return self
        missing = [name for name in ("forward_token", "trust") if not getattr(self, name)]
        if missing:
            raise ValueError(f"the aggregator is not on loopback: set {' and '.join(missing)}")
        return self


def is_loopback(address: str) -> bool:
    """Whether this address is on the same machine for sure."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
