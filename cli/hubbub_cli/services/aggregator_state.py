"""State of an aggregator, for commands that work beside a running one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hubbub.errors import InvalidParameter
from hubbub_cli.terminal.wrapped_text import say

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub_aggregator.publication.codebook_versions import Codebooks
    from hubbub_aggregator.settings import Settings
    from hubbub_aggregator.storage import Storage

__all__ = ["STATE", "Beside", "beside", "settings_beside", "settings_of", "warn_of_clock"]

STATE = click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    envvar="HUBBUB_AGGREGATOR_STATE_DIR",
    default=Path("aggregator-state"),
    show_default=True,
    help="The aggregator's state directory. With HUBBUB_AGGREGATOR_STORAGE set, only its identity key is used.",
)


class Beside(NamedTuple):
    """The state that such a command works on."""

    identity: Ed25519PrivateKey
    storage: Storage
    codebooks: Codebooks
    max_age: int
    """Seconds for which a bundle may be cached, from the settings in the environment."""


def settings_of(**given: Any) -> Settings:
    """The settings in the environment, overridden by those given; UsageError says what is wrong with them."""
    from hubbub_aggregator.settings import Settings

    try:
        return Settings.load(**given)
    except InvalidParameter as error:
        raise click.UsageError(str(error)) from None


def settings_beside(state_dir: Path) -> Settings:
    """Settings of the service from the environment, for its state only: listen addresses do not matter here."""
    return settings_of(state_dir=state_dir, host="127.0.0.1", admin_port=None)


@contextmanager
def beside(state_dir: Path) -> Iterator[Beside]:
    """The identity, storage and codebooks of an aggregator that has been started before."""
    from hubbub_aggregator.main import DATABASE, open_state
    from hubbub_aggregator.publication.codebook_versions import Codebooks
    from hubbub_aggregator.publication.keys import IDENTITY
    from hubbub_aggregator.storage import StorageError

    settings = settings_beside(state_dir)
    needed = state_dir / DATABASE if settings.storage is None else settings.identity or state_dir / IDENTITY
    if not needed.exists():
        raise InvalidParameter(f"{needed} does not exist: start the aggregator once, or check --state-dir")
    identity, storage = open_state(settings)
    try:
        codebooks = Codebooks(storage, settings.bundle_max_age)
        if not codebooks:
            raise InvalidParameter(f"{state_dir} holds no codebook: start the aggregator once")
        yield Beside(identity, storage, codebooks, settings.bundle_max_age)
    except StorageError as error:
        raise InvalidParameter(f"the storage failed; the change may or may not have been made: {error}") from error
    finally:
        storage.close()


def warn_of_clock(storage: Storage, now: float) -> None:
    """Warn if the last bundle contradicts this clock: what the command does next depends on it, and can't be undone."""
    from hubbub_aggregator.publication.lead_time import clock_doubt

    lifetime = settings_of(host="127.0.0.1", admin_port=None).bundle_lifetime
    if (doubt := clock_doubt(storage, now, lifetime)) is not None:
        say(f"warning: {doubt}")
