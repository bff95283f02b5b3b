"""Code blocks of README and docs: their languages are right, and the commands in them work.

Python blocks are run by tests/docs/test_pages.py. Every block of commands is run by `make test-full`; on every run each
`hubbub` line is held against the command line that exists, and the beginning of the tutorial is run.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from hubbub.codebook import Codebook
from hubbub_cli.all_commands import hubbub as command
from tests.docs.blocks import PAGES, ROOT, SHELL, TUTORIAL, Block, blocks, commands, markdown, name_of, runnable
from tests.docs.terminal import needed, starts_a_service, terminal

BLOCKS = [block for page in PAGES for block in blocks(page)]
_COLLECTION = (
    '[collection]\nname = "x"\nperiod = "1d"\ndevice_epsilon = 100\nrelease = { epsilon = 0.5, delta = 1e-8 }\n'
)
_TYPED = re.compile(r"^\s*(\$ |hubbub |make |python |pip |docker |curl )", re.MULTILINE)


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def test_there_are_blocks_of_each_kind() -> None:
    found = Counter(block.language for block in BLOCKS)
    assert found["sh"] > 12
    assert found["toml"] > 2
    assert found["python"] > 10
    assert found["json"] > 0


@pytest.mark.parametrize("block", of("toml"), ids=lambda block: block.place)
def test_toml_is_toml_and_codebooks_compile(block: Block) -> None:
    document = tomllib.loads(block.text)
    if "collection" in document:
        Codebook.from_toml(block.text)
    elif "metrics" in document:
        Codebook.from_toml(_COLLECTION + block.text)


@pytest.mark.parametrize("block", of("json", "yaml", "yml"), ids=lambda block: block.place)
def test_json_and_yaml_are_what_they_say(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    else:
        assert list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_to_be_typed_is_in_a_block_of_commands(page: Path) -> None:
    """Else nothing would look at it."""
    for block in blocks(page):
        if block.language in ("", "text"):
            assert not _TYPED.search(block.text), f"{block.place}: write ```sh"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_hubbub_command_on_a_page_exists_with_its_options(page: Path) -> None:
    for block in blocks(page):
        if block.language in SHELL:
            for line in commands(block.text):
                assert understood(line) == "", block.place


def understood(line: str) -> str:
    """What is wrong with the `hubbub` command in a line, if there is one; nothing is run."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a line of a text that spans several
        return ""
    while words and re.fullmatch(r"\w+=.*|sudo|nice|exec", words[0]):
        words.pop(0)
    if not words or words[0] not in ("hubbub", ".venv/bin/hubbub"):
        return ""
    given = words[1:]
    for end in (">", ">>", "|", "||", "&&", ";", "&", "2>", "<"):
        given = given[: given.index(end)] if end in given else given
    try:
        current: click.Command = command
        context = current.make_context("hubbub", list(given), resilient_parsing=False)
        while isinstance(current, click.Group) and context._protected_args + context.args:
            name, found, rest = current.resolve_command(context, context._protected_args + context.args)
            assert found is not None
            assert name is not None
            current, context = found, found.make_context(name, rest, parent=context)
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        # a file that is not there is the reader's own
        return "" if "does not exist" in error.message else f"{line}: {error.message}"
    return ""


@pytest.mark.parametrize(
    "planted",
    [
        "hubbub plam metrics.toml",
        "hubbub plan metrics.toml --device 20000 --nothing",
        "hubbub codebook chek metrics.toml",
        "HUBBUB_TOKEN=x hubbub query theme --serie | head",
        "hubbub query --confidence 2",
        "hubbub keys revoke",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(planted: str) -> None:
    assert understood(planted)


def test_a_block_that_another_test_runs_is_not_typed_in_here() -> None:
    named = {(block.page, block.run_by) for page in PAGES for block in blocks(page) if block.run_by}
    assert named
    for page, test in named:
        assert page.stem in (ROOT / test).read_text() or "health" in test, f"{test} does not know {page.name}"
        assert all(not block.run_by for block in runnable(page)[0])


def test_a_block_says_that_it_does_not_run_and_why() -> None:
    text = "<!-- not run: needs a Docker engine -->\n```sh\ndocker run\n```\n\ntext\n\n```sh\nhubbub up\n```\n"
    first, second = markdown(text, ROOT / "x.md")
    assert (first.not_run, second.not_run) == ("needs a Docker engine", "")
    assert list(commands("$ a \\\n b   # comment\n\n# comment\nc --x=#1\n")) == ["a   b", "c --x=#1"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_needs_more_than_a_scratch_folder_says_so(page: Path) -> None:
    """A container engine, a supervisor, root or another host: none of them is there when the blocks are run."""
    for block in (block for block in runnable(page)[0] if not block.file):
        assert needed(block.text) == [], f"{block.place}: put <!-- not run: why --> in front of it"


def test_a_block_that_calls_an_engine_is_noticed() -> None:
    assert needed("docker compose up\nsudo systemctl start x\nA=b make test\n") == ["docker", "sudo", "make"]
    assert needed("install -d -m 0755 /etc/hubbub\ncp x /opt\n(umask 077; echo x > /srv/y)\n") == [
        "/etc/",
        "/opt",
        "/srv/",
    ]
    assert (
        needed("password=$(openssl rand -hex 32)\nhubbub query > theme.csv\nhubbub x --address https://etc/x\n") == []
    )
    assert needed("cat > x <<'END'\ndocker\nEND\nA=1 hubbub up\nOLD=x\n") == []


def test_lines_that_leave_a_service_running_are_known() -> None:
    lines = ["hubbub up", "hubbub up --codebook x", "A=b hubbub shuffler", "hubbub aggregator --port 1"]
    assert [starts_a_service(line) for line in lines] == ["up", "up", "shuffler", "aggregator"]
    assert not any(map(starts_a_service, ["hubbub aggregator backup x", "hubbub upload", "hubbub query"]))


def test_the_beginning_of_the_tutorial_works(tmp_path: Path) -> None:
    """All of it: see test_running."""
    ran = 0
    with terminal(tmp_path) as typing:
        for block in runnable(TUTORIAL)[0]:
            if any(map(starts_a_service, commands(block.text))):
                break
            typing.follow(block)
            ran += 1
    assert ran == 3
    table = typing.said[-1][typing.said[-1].index("metric      reports") :].splitlines()[:3]
    assert "\n".join(table) in TUTORIAL.read_text(encoding="utf-8")  # the page shows what is printed


def test_the_tutorial_shows_the_warning_of_its_codebook(tmp_path: Path) -> None:
    shown = [block.text for block in blocks(TUTORIAL) if block.language == "text" and "warning: " in block.text]
    codebook = next(block for block in blocks(TUTORIAL) if block.file == "metrics.toml")
    (tmp_path / codebook.file).write_text(codebook.text)
    with contextlib.chdir(tmp_path):
        ran = CliRunner().invoke(command, ["codebook", "check", codebook.file])
    assert [ran.stderr] == shown, "all of it, once"
