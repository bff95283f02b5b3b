"""`hubbub keys`: the aggregator's identity and its sealing keys, also while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub_cli.beside import STATE, beside, settings_beside
from hubbub_cli.outfile import write
from hubbub_cli.table import table

if TYPE_CHECKING:
    from hubbub_aggregator.keys import KeyRing
    from hubbub_aggregator.storage import StoredKey

__all__ = ["keys"]

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


@click.group()
def keys() -> None:
    """The aggregator's identity key and sealing keys."""


@keys.command()
@STATE
@_JSON
def new(state_dir: Path, as_json: bool) -> None:
    """Make the identity key and print its trust anchor: what devices are configured with.

    The aggregator does the same on its first start. Sealing keys it makes itself, ahead of each period.
    """
    from hubbub.trust import anchor_of
    from hubbub_aggregator.keys import new_identity

    anchor = anchor_of(new_identity(state_dir))
    click.echo(json.dumps({"trust_anchor": anchor}) if as_json else anchor)


@keys.command()
@STATE
@click.option("--make", is_flag=True, help="Make the identity key if there is none yet.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the anchor into this file instead, for a shuffler's HUBBUB_SHUFFLER_TRUST_FILE.",
)
@_JSON
def anchor(state_dir: Path, make: bool, out: Path | None, as_json: bool) -> None:
    """Print the trust anchor of the identity key, whether the aggregator runs or not.

    The shuffler and every device are configured with it; it is no secret, but must reach them unchanged.
    """
    from hubbub.problems import InvalidParameter
    from hubbub.trust import anchor_of
    from hubbub_aggregator.keys import IDENTITY, load_identity

    elsewhere = settings_beside(state_dir).identity
    path = elsewhere or state_dir / IDENTITY
    if not make and not path.exists():
        raise InvalidParameter(f"{path} does not exist: make it with `hubbub keys new`, or check --state-dir")
    found = anchor_of(load_identity(state_dir, elsewhere))
    if out is None:
        click.echo(json.dumps({"trust_anchor": found}) if as_json else found)
        return
    write(out, f"{found}\n", 0o644)  # another user has to read it
    click.echo(f"{out} written", err=True)


@keys.command("list")
@STATE
@_JSON
def list_command(state_dir: Path, as_json: bool) -> None:
    """List the sealing keys with the periods they seal. Private halves are never shown."""
    with _ring(state_dir) as (ring, anchor):
        label = ring.collection.calendar.period
        rows: list[dict[str, Any]] = [
            {
                "id": key.id,
                "state": key.state,
                "first_period": label(key.first_period).label,
                "last_period": label(key.last_period).label,
            }
            for key in ring.published(time.time())
        ]
    if as_json:
        click.echo(json.dumps({"trust_anchor": anchor, "keys": rows}, indent=2))
        return
    names = ["id", "state", "first_period", "last_period"]
    click.echo(table([name.replace("_", " ") for name in names], [[str(row[name]) for name in names] for row in rows]))
    click.echo(f"\ntrust anchor {anchor}", err=True)


@keys.command()
@STATE
@_JSON
def rotate(state_dir: Path, as_json: bool) -> None:
    """Make a new key for the next periods that have none yet. A running aggregator publishes it at once."""
    with _ring(state_dir) as (ring, _):
        _show(ring, ring.rotate(), as_json=as_json)


@keys.command()
@click.argument("key_id", type=click.IntRange(0, 255))
@STATE
@_JSON
def revoke(key_id: int, state_dir: Path, as_json: bool) -> None:
    """End key KEY_ID for good and put a new one in its place.

    Its private half is erased: batches sealed with it can't be opened any more. Devices seal again what is
    not acknowledged yet.
    """
    with _ring(state_dir) as (ring, _):
        _show(ring, ring.revoke(key_id), as_json=as_json)


@contextmanager
def _ring(state_dir: Path) -> Iterator[tuple[KeyRing, str]]:
    from hubbub.trust import anchor_of
    from hubbub_aggregator.keys import KeyRing

    with beside(state_dir) as state:
        yield KeyRing(state.storage, state.codebooks), anchor_of(state.identity)


def _show(ring: KeyRing, key: StoredKey, *, as_json: bool) -> None:
    first, last = (ring.collection.calendar.period(index).label for index in (key.first_period, key.last_period))
    if as_json:
        click.echo(json.dumps({"id": key.id, "first_period": first, "last_period": last}))
    else:
        click.echo(f"key {key.id} seals the periods {first} to {last}")
