"""`hubbub keys`: the aggregator's identity key and sealing keys, also while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub_cli.services.aggregator_state import STATE, beside, settings_beside, warn_of_clock
from hubbub_cli.terminal.output_file import write
from hubbub_cli.terminal.period_names import named
from hubbub_cli.terminal.table import table_or_records
from hubbub_cli.terminal.wrapped_text import say, wrapped
from hubbub_service_common.process.clock_and_entropy import wall

if TYPE_CHECKING:
    from hubbub_aggregator.publication.keys import KeyRing
    from hubbub_aggregator.storage import StoredKey

__all__ = ["keys"]

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


@click.group()
def keys() -> None:
    """Manage the aggregator's identity key and sealing keys."""


@keys.command()
@STATE
@_JSON
def new(state_dir: Path, as_json: bool) -> None:
    """Make the identity key and print its trust anchor.

    Devices are configured with the anchor. The aggregator also makes its identity key on its first start, and its
    sealing keys ahead of each period.
    """
    from hubbub.trust_anchor import anchor_of
    from hubbub_aggregator.publication.keys import new_identity

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
    """Print the trust anchor of the identity key.

    The aggregator may run or not. The shuffler and every device are configured with the anchor. It is not secret, but
    must reach them unchanged.
    """
    from hubbub.errors import InvalidParameter
    from hubbub.trust_anchor import anchor_of
    from hubbub_aggregator.publication.keys import IDENTITY, load_identity

    elsewhere = settings_beside(state_dir).identity
    path = elsewhere or state_dir / IDENTITY
    if not make and not path.exists():
        raise InvalidParameter(f"{path} does not exist: make it with `hubbub keys new`, or check --state-dir")
    found = anchor_of(load_identity(state_dir, elsewhere))
    if out is None:
        click.echo(json.dumps({"trust_anchor": found}) if as_json else found)
        return
    write(out, f"{found}\n", 0o644)  # another user has to read it
    say(f"{out} written")


@keys.command("list")
@STATE
@_JSON
def list_command(state_dir: Path, as_json: bool) -> None:
    """List the sealing keys with the periods they seal.

    Private halves are never shown. Periods of a revoked key that get no other key are listed as lost: the shuffler
    discards what is sealed for them, unread.
    """
    with _ring(state_dir) as (ring, anchor):
        label = ring.collection.calendar.period
        rows: list[dict[str, Any]] = [
            {
                "id": key.id,
                "state": key.state,
                "first_period": label(key.first_period).label,
                "last_period": label(key.last_period).label,
                "lost": [label(period).label for period in ring.unsealed(key)] if key.state == "revoked" else [],
            }
            for key in ring.published(wall())
        ]
    if as_json:
        click.echo(json.dumps({"trust_anchor": anchor, "keys": rows}, indent=2))
        return
    spans = [
        {
            **row,
            "first_period": named(row["first_period"]),
            "last_period": named(row["last_period"]),
            "lost": _span(row["lost"]),
        }
        for row in rows
    ]
    click.echo(table_or_records([{name.replace("_", " "): value for name, value in row.items()} for row in spans]))
    say(f"\ntrust anchor {anchor}")


@keys.command()
@STATE
@_JSON
def rotate(state_dir: Path, as_json: bool) -> None:
    """Make a new key for the next periods that have none yet.

    A running aggregator publishes it at once.
    """
    with _ring(state_dir) as (ring, _):
        warn_of_clock(ring.storage, now := wall())
        key = ring.rotate(now)
        click.echo(json.dumps(_periods(ring, key)) if as_json else _sentence(ring, key))


@keys.command()
@click.argument("key_id", type=click.IntRange(0, 255))
@STATE
@_JSON
def revoke(key_id: int, state_dir: Path, as_json: bool) -> None:
    """Revoke key KEY_ID for good.

    Its private half is erased: reports sealed with it can no longer be opened, and the shuffler discards them unread.
    Periods that have begun, or begin within two cache lifetimes of the bundle, get no other key, since a second key
    would split their crowd. A new key seals the rest of its periods.
    """
    with _ring(state_dir) as (ring, _):
        warn_of_clock(ring.storage, now := wall())
        done = ring.revoke(key_id, now)
        label = ring.collection.calendar.period
        lost = [label(period).label for period in done.lost]
        again = None if done.again is None else label(done.again).label
        instead = None if done.instead is None else _periods(ring, done.instead)
        said = [f"key {key_id} is revoked"]
        if lost:
            said.append(f"lost: {_span(lost)}, since a second key would split the crowd of a period that has begun")
        if done.instead is not None:
            said.append(_sentence(ring, done.instead))
        from_then = named(again) if again else "the next period that gets a key"
        said.append(f"reports are collected again from {from_then} on")
    if as_json:
        click.echo(json.dumps({"revoked": key_id, "lost": lost, "instead": instead, "again": again}))
    else:
        click.echo(wrapped("\n".join(said), rest="  "))


@contextmanager
def _ring(state_dir: Path) -> Iterator[tuple[KeyRing, str]]:
    from hubbub.trust_anchor import anchor_of
    from hubbub_aggregator.publication.keys import KeyRing

    with beside(state_dir) as state:
        yield KeyRing(state.storage, state.codebooks, state.max_age), anchor_of(state.identity)


def _periods(ring: KeyRing, key: StoredKey) -> dict[str, Any]:
    first, last = (ring.collection.calendar.period(index).label for index in (key.first_period, key.last_period))
    return {"id": key.id, "first_period": first, "last_period": last}


def _sentence(ring: KeyRing, key: StoredKey) -> str:
    told = _periods(ring, key)
    return f"key {key.id} seals the periods {named(told['first_period'])} to {named(told['last_period'])}"


def _span(labels: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys([named(labels[0]), named(labels[-1])])) if labels else ""
