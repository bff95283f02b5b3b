"""A shuffler serves no script: a script runs before values are randomized, so its server could read true ones."""

from __future__ import annotations

import re
from pathlib import Path

import hubbub_shuffler
from hubbub_cli.script_tag import ScriptFile
from tests.shuffler.ingest.test_cross_origin import FROM, listed
from tests.shuffler.world import World

NAMES = ["/hubbub.js", f"/{ScriptFile().name}", "/", "/static/hubbub.js", "/v1/hubbub.js", "/client.js"]


async def test_no_answer_of_a_shuffler_is_a_script_or_a_page(tmp_path: Path) -> None:
    async with World(tmp_path) as world, listed(world) as page:
        described = (await page.get("/openapi.json")).json()["paths"]
        for path in [*described, "/openapi.json", *NAMES]:
            answer = await page.get(path, headers=FROM)
            assert not re.search("javascript|html|wasm", answer.headers.get("content-type", "")), path
            assert b"hubbub.Client" not in answer.content
            assert b"<script" not in answer.content
        assert len(described) >= 4
        assert {(await page.get(path)).status_code for path in NAMES} == {404}


def test_no_script_is_installed_with_a_shuffler() -> None:
    folder = Path(hubbub_shuffler.__file__).parent
    assert [path for path in folder.rglob("*") if path.suffix in {".js", ".mjs", ".html"}] == []
