"""Compiled codebooks: what a metrics.toml becomes before anything is collected by it.

Mechanisms, epsilons and batch sizes are worked out once and frozen in a file. Its id is what devices and shufflers pin.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from hubbub.codebook import Codebook, is_compiled, read_file
from hubbub_cli.terminal.output_file import write

__all__ = ["compiled", "freeze", "read_codebook", "write_compiled"]

_SOURCE = ".source"
"""Ending of the file that holds the hash of the metrics.toml that a compiled codebook was made from."""


def read_codebook(file: str | Path) -> Codebook:
    """The codebook in a file, for planning: epsilons that a metrics.toml leaves open are worked out."""
    from hubbub.accounting.auto_epsilon import solve_open_epsilons

    return Codebook.load(file, solve_open_epsilons)


def compiled(file: str | Path) -> Codebook:
    """The codebook as it would be served: a compiled file as it is, a metrics.toml compiled by this version.

    Takes about a second for each metric. CodebookError says what is wrong with it.
    """
    from hubbub.accounting.min_batch_sizes import with_batch_sizes

    raw = read_file(file)
    if is_compiled(raw):
        return Codebook.from_compiled(raw)
    return with_batch_sizes(read_codebook(file), str(file))


def write_compiled(codebook: Codebook, out: Path) -> None:
    """Replace the file with the bytes that an aggregator serves, and a line end."""
    write(out, codebook.to_bytes().decode("ascii") + "\n", 0o644)


def freeze(file: Path, out: Path) -> tuple[Codebook, bool]:
    """The compiled codebook in `out`, and whether it was compiled now.

    Only an edit of `file` compiles it again: another version of this software could choose another mechanism, which
    the operator did not ask for.
    """
    raw, source = read_file(file), out.with_name(out.name + _SOURCE)
    digest = hashlib.sha256(raw).hexdigest()
    if out.exists() and source.exists() and source.read_text().strip() == digest:
        return Codebook.load(out), False
    codebook = compiled(file)
    source.unlink(missing_ok=True)  # else a kill here, and an edit that is taken back, would serve the wrong one
    write_compiled(codebook, out)
    write(source, digest + "\n", 0o644)
    return codebook, True
