"""Renew the plans in docs/how-to/recipes.md: what `hubbub plan` prints for each recipe.

    python -m scripts.make_recipe_plans

A recipe has a block of metrics, a `hubbub plan` command for so many devices, and a block with the table. A test
compares.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from click.testing import CliRunner

from hubbub_cli.all_commands import hubbub

__all__ = ["COLLECTION", "PAGE", "main", "renewed"]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "how-to" / "recipes.md"
COLLECTION = (ROOT / "examples" / "metrics.toml").read_text().partition("[metrics.")[0]
"""What the page tells its reader to put each recipe under."""
_RECIPE = re.compile(
    r"```toml\n(?P<metrics>[^`]*)```.*?hubbub plan metrics\.toml --devices (?P<devices>\d+)\n```\n\n"
    r"```text\n(?P<printed>[^`]*)```",
    re.DOTALL,
)


def renewed(page: str) -> str:
    """The page with the tables that are printed now."""
    return _RECIPE.sub(
        lambda found: found[0].replace(f"```text\n{found['printed']}```", f"```text\n{_plan(found)}```"), page
    )


def _plan(found: re.Match[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        codebook = Path(folder, "metrics.toml")
        codebook.write_text(COLLECTION + found["metrics"])
        ran = CliRunner().invoke(hubbub, ["plan", str(codebook), "--devices", found["devices"]])
    if ran.exit_code:
        raise ValueError(ran.output)
    return ran.stdout.partition("\n\n")[0].rstrip() + "\n"


def main() -> str:
    return renewed(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(main(), encoding="utf-8")
