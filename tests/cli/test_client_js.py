"""`hubbub client-js`: a file whose name and hash belong to its bytes, from what is installed alone."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

import hubbub
from hubbub_cli.all_commands import hubbub as command


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(command, ["client-js", "--write", str(folder), *options])


def test_the_name_and_the_tag_say_which_bytes_they_mean(tmp_path: Path) -> None:
    tag = run(tmp_path / "public").stdout
    (file,) = (tmp_path / "public").iterdir()
    content = file.read_bytes()
    assert file.name == f"hubbub-{hubbub.__version__}-{hashlib.sha256(content).hexdigest()[:12]}.js"
    integrity = f"sha384-{base64.b64encode(hashlib.sha384(content).digest()).decode()}"
    assert re.sub(r"\s+", " ", tag).strip() == (
        f'<script src="/{file.name}" crossorigin="anonymous" integrity= "{integrity}"></script>'
    )
    assert run(tmp_path / "public").stdout == tag
    assert list((tmp_path / "public").iterdir()) == [file]


def test_the_tag_names_where_the_file_is_served(tmp_path: Path) -> None:
    for base, start in (("/static/", "/static/hubbub-"), ("https://a.example/js", "https://a.example/js/hubbub-")):
        said = json.loads(run(tmp_path, "--base", base, "--json").stdout)
        assert f'src="{start}' in said["tag"]
        assert said["integrity"] in said["tag"]
        assert Path(said["file"]).stat().st_size == said["bytes"] > said["gzip"]
    assert '<script src="/&quot;&gt;/hubbub-' in run(tmp_path, "--base", '/">').stdout


def test_it_needs_no_node(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hubbub_cli", "client-js", "--write", "public"],
        cwd=tmp_path,
        env={**os.environ, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "wrote public/hubbub-" in done.stderr
    assert len(list((tmp_path / "public").iterdir())) == 1


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        refused = run(folder)
        assert refused.exit_code > 0
        assert "taken" in refused.stderr
