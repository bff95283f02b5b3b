"""Every knob the aggregator has."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """Read from HUBBUB_AGGREGATOR_* in the environment; built in `main` and in the command line only."""

    model_config = SettingsConfigDict(env_prefix="HUBBUB_AGGREGATOR_", frozen=True, hide_input_in_errors=True)

    codebook: Path = Field(default=Path("metrics.toml"), description="The metrics.toml that says what is collected.")
    state_dir: Path = Field(
        default=Path("aggregator-state"), description="Where keys, releases and the spool live; made with mode 0700."
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
    processes: int | None = Field(default=None, ge=1, description="Processes that open reports. Unset: one per core.")
    max_batch_bytes: int = Field(default=256 * 2**20, ge=64, description="Largest batch that is taken, in bytes.")

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @model_validator(mode="after")
    def _refuse_what_is_unsafe(self) -> Settings:
        if self.bundle_max_age >= self.bundle_lifetime:
            raise ValueError("bundle_max_age must be below bundle_lifetime: a cached bundle would outlive its belief")
        if not self.on_loopback and (self.shuffler_token is None or self.analyst_token is None):
            raise ValueError(
                f"{self.host} can be reached from elsewhere: set shuffler_token and analyst_token, or host=127.0.0.1"
            )
        return self
