"""Storage of a shuffler, for commands that manage what it holds. The shuffler may run meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    from hubbub_shuffler.storage import Storage

__all__ = ["STATE_DIR", "shuffler_storage"]

STATE_DIR = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The shuffler's state directory. With HUBBUB_SHUFFLER_STORAGE set, that storage is used.",
)


@contextmanager
def shuffler_storage(state_dir: Path | None) -> Iterator[Storage]:
    """The storage of a shuffler that has been started before; a missing one is not created."""
    from hubbub_shuffler.main import REPORTS, open_reports
    from hubbub_shuffler.settings import Settings
    from hubbub_shuffler.storage import StorageError

    given = {} if state_dir is None else {"state_dir": state_dir}
    try:
        settings = Settings.load(host="127.0.0.1", admin_port=None, **given)
    except InvalidParameter as error:
        raise click.UsageError(str(error)) from None
    file = settings.state_dir / REPORTS
    if settings.storage is None and not file.exists():
        raise InvalidParameter(f"{file} does not exist: start the shuffler once, or check --state-dir")
    storage = open_reports(settings).blocking
    try:
        yield storage
    except StorageError as error:
        raise InvalidParameter(f"the storage failed; the change may or may not have been made: {error}") from error
    finally:
        storage.disconnect()
