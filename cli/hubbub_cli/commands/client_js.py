"""`hubbub client-js`: the browser SDK as one file, and the script tag that loads it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import click

from hubbub_cli.script_tag import ScriptFile
from hubbub_cli.terminal.wrapped_text import say
from hubbub_service_common.process import atomic_files


@click.command("client-js")
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="A folder that your site serves. It is made if it is not there.",
)
@click.option(
    "--base",
    default="/",
    show_default=True,
    help="Where your site serves DIR: a path such as /static, or an https:// address.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def client_js(folder: Path, base: str, as_json: bool) -> None:
    """Write the browser SDK as one file, and print its script tag.

    The file defines one name, `hubbub`, with `hubbub.Client`. Its own name has the version and a hash: serve it with a
    cache lifetime as long as you like. By the tag's integrity hash a browser refuses a file with other bytes.

    Serve it from your site. A shuffler serves no script: the party that serves it could read true values.
    """
    script = ScriptFile()
    path = folder / script.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write(path, script.content, mode=None)
    except OSError as error:
        raise click.ClickException(f"{path} can't be written: {error.strerror}") from error
    packed = len(gzip.compress(script.content, 9))
    if as_json:
        found = {"file": str(path), "bytes": len(script.content), "gzip": packed, "integrity": script.integrity}
        click.echo(json.dumps({**found, "tag": script.tag(base)}, indent=2))
        return
    say(f"wrote {path}: {len(script.content):,} bytes, {packed:,} with gzip")
    click.echo(script.tag(base))
