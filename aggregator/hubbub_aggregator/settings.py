"""The aggregator's settings. docs/reference/settings.md is generated from this module."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from hubbub.loopback_host import is_loopback_host
from hubbub_service_common.http.cross_origin import check_origins
from hubbub_service_common.http.tokens import AcceptedToken
from hubbub_service_common.redis.schemes import FORMS, is_redis
from hubbub_service_common.settings import ServiceSettings

__all__ = ["Settings"]


class Settings(ServiceSettings):
    """The aggregator's own settings, on top of those it shares with the shuffler.

    Built only in `main` and in the command line.
    """

    model_config = SettingsConfigDict(env_prefix="HUBBUB_AGGREGATOR_")
    service = "aggregator"

    codebook: Path = Field(
        default=Path("codebook.json"), description="What is collected: a file that `hubbub codebook compile` made."
    )
    state_dir: Path = Field(
        default=Path("aggregator-state"),
        description="Directory for keys, releases and the spool; created with mode 0700.",
    )
    identity: Path | None = Field(
        default=None, description="File with the identity key, mode 0600. Unset: identity.key in the state directory."
    )
    storage: SecretStr | None = Field(
        default=None,
        description="Where releases and keys are kept: a redis://, rediss://, redis+cluster:// or rediss+cluster:// "
        "URL, which several processes can share. Unset: an SQLite file in the state directory, for one process.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on. Anything but loopback needs both tokens.")
    port: int = Field(default=8702, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    shuffler_token: AcceptedToken = Field(
        default=None, description="Bearer token of the shuffler: the token itself, or sha256: and its hex digest."
    )
    shuffler_token_next: AcceptedToken = Field(
        default=None, description="A second token that is also valid, while the shuffler switches to it."
    )
    analyst_token: AcceptedToken = Field(
        default=None,
        description="Token for queries (bearer, or the password of HTTP Basic), in the same forms as the shuffler's.",
    )
    analyst_token_next: AcceptedToken = Field(default=None, description="A second token for queries, for rotation.")
    bundle_lifetime: int = Field(
        default=7 * 86_400,
        ge=60,
        description="Seconds after which a bundle expires. It is signed again after half of that.",
    )
    bundle_max_age: int = Field(
        default=3_600, ge=1, description="Seconds for which a shuffler or a device may cache the bundle."
    )
    backfill_periods: int = Field(
        default=0, ge=0, le=100, description="Periods before the first start that also take reports (for demos)."
    )
    single_operator: bool = Field(
        default=False, description="One party runs both shuffler and aggregator. Answers then say what that means."
    )
    shuffler_address: str | None = Field(
        default=None,
        max_length=200,
        pattern=r"^https?://[!-~]+$",
        description="Where devices report to. The dashboard shows it to app developers; nothing is sent there.",
    )
    shuffler_floor: int | None = Field(
        default=None,
        ge=2,
        description="Fewest reports in a batch that the shuffler forwards (its `min_batch_floor`). Answers and the "
        "dashboard show it; it changes nothing else.",
    )
    public_frames: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Origins (https://www.example.com) whose web pages may show `/public/NAME` in a frame, separated "
        "by commas; * for all pages. Unset: none. `/public/NAME.svg` may be used as a picture anywhere.",
    )
    processes: int | None = Field(default=None, ge=1, description="Processes that open reports. Unset: one per core.")
    max_batch_bytes: int = Field(default=256 * 2**20, ge=64, description="Size limit of a batch, in bytes.")
    body_timeout: float = Field(
        default=3_600.0,
        gt=0,
        description="Seconds in which a batch must arrive, and in which a caller must read its answer.",
    )
    lease: float = Field(
        default=30.0,
        ge=1,
        le=3_600,
        description="Seconds after which another process takes over the batch of a process that died.",
    )
    retention_days: int | None = Field(
        default=None,
        ge=1,
        description="Days for which the counts of a release are kept after the end of its period, at least until its "
        "horizon. Its record stays. Unset: forever.",
    )

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback_host(self.host)

    @field_validator("public_frames", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        return tuple(given.replace(",", " ").split()) if isinstance(given, str) else given

    @field_validator("public_frames")
    @classmethod
    def _origins(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        check_origins(given)
        return given

    @field_validator("storage")
    @classmethod
    def _no_file(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and not is_redis(given.get_secret_value()):
            raise ValueError(f"an SQLite file is always in state_dir; for Redis write {FORMS}")
        return given

    @model_validator(mode="after")
    def _callers_that_are_known(self) -> Self:
        if self.bundle_max_age >= self.bundle_lifetime:
            raise ValueError("bundle_max_age must be below bundle_lifetime: a cached bundle must not expire")
        if not self.on_loopback and (self.shuffler_token is None or self.analyst_token is None):
            raise ValueError(
                f"{self.host} can be reached from elsewhere: set shuffler_token and analyst_token, or host=127.0.0.1"
            )
        return self
