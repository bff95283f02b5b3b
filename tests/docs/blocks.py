"""Code blocks of README and docs: what each is written in, where it stands, and whether it can run here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "PAGES",
    "ROOT",
    "SHELL",
    "TUTORIAL",
    "Block",
    "blocks",
    "commands",
    "counted",
    "markdown",
    "name_of",
    "runnable",
]

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TUTORIAL = ROOT / "docs" / "tutorial" / "index.md"
SHELL = {"sh", "bash", "shell", "console"}
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```\s*$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- not run: (.+?) -->\s*\Z", re.DOTALL)
_ELSEWHERE = re.compile(r"<!-- run by (\S+) -->\s*\Z")
_FILE = re.compile(r"# ([\w.-]+\.(?:py|toml))")


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    not_run: str
    """Why it can't run here; empty for one that can."""
    run_by: str = ""
    """The test that runs it in a place of its own, since it would change this machine; empty: it is typed in."""

    @property
    def file(self) -> str:
        """The file that the reader saves it as: its first line names it."""
        found = _FILE.fullmatch(self.text.partition("\n")[0].strip())
        return found[1] if found else ""

    @property
    def place(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def blocks(page: Path) -> list[Block]:
    """All of a page, from the top down."""
    return markdown(page.read_text(encoding="utf-8"), page)


def markdown(text: str, page: Path) -> list[Block]:
    """The same of a text."""
    found = []
    for match in _FENCE.finditer(text):
        marked, elsewhere = _MARK.search(text[: match.start()]), _ELSEWHERE.search(text[: match.start()])
        inside = "\n".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines())
        found.append(
            Block(
                page,
                text.count("\n", 0, match.start()) + 1,
                match["language"].strip(),
                inside + "\n",
                marked[1] if marked else "",
                elsewhere[1] if elsewhere else "",
            )
        )
    return found


def runnable(page: Path) -> tuple[list[Block], list[Block]]:
    """What a reader types in, or saves in the tutorial; and of that what says that it can't run here."""
    typed = [block for block in blocks(page) if block.language in SHELL or (page == TUTORIAL and block.file)]
    typed = [block for block in typed if not block.run_by]
    return [block for block in typed if not block.not_run], [block for block in typed if block.not_run]


def counted() -> tuple[int, int]:
    """How many blocks `make test-full` runs, and how many say why they can't be."""
    found = [runnable(page) for page in PAGES]
    elsewhere = sum(bool(block.run_by) for page in PAGES for block in blocks(page))
    return sum(len(run) for run, _ in found) + elsewhere, sum(len(marked) for _, marked in found)


def commands(text: str) -> Iterator[str]:
    """The command lines of a shell block: without prompts and comments, continued lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#\s.*$", "", line.strip().removeprefix("$ ")).strip()
        if bare:
            yield bare
