"""The printed script tag in a real Chromium: it loads the file, and refuses one with other bytes."""

from __future__ import annotations

import re
import time
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import Browser

from hubbub_cli.all_commands import hubbub as command
from hubbub_client.testing import MemoryTransport
from tests.browser.sdk_site import CODEBOOK, Site
from tests.client.world import served
from tests.shuffler.process import AppServer

_POLICY = "default-src 'none'; script-src 'self' 'strict-dynamic' 'nonce-n'; require-trusted-types-for 'script'"


def test_the_tag_loads_the_file_and_no_other(browser: Browser, tmp_path: Path) -> None:
    tag = CliRunner().invoke(command, ["client-js", "--write", str(tmp_path)]).stdout
    (file,) = tmp_path.iterdir()
    page_text = f"<!doctype html><title>A page</title>{tag.replace('<script', '<script nonce=n')}"
    pages = {
        "/": page_text,
        "/none": "<!doctype html><title>Without</title>",
        "/favicon.ico": "",
        "/other": page_text.replace(file.name, "other.js"),
    }
    site = Site(tmp_path, pages, {"/": _POLICY})
    (tmp_path / "other.js").write_bytes(file.read_bytes() + b"\n")
    with AppServer(site) as address:
        context = browser.new_context()
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        names = "() => Object.getOwnPropertyNames(globalThis)"
        page.goto(f"{address}/none")
        before = set(page.evaluate(names))
        page.goto(f"{address}/")
        assert set(page.evaluate(names)) - before == {"hubbub"}
        assert page.evaluate("() => Object.keys(hubbub)") == ["Client"]
        assert said == []
        page.goto(f"{address}/other")
        assert page.evaluate("() => 'hubbub' in globalThis") is False
        assert re.search("Failed to find a valid digest", said[0])
        context.close()


def test_a_page_that_the_shuffler_does_not_list_is_told_what_to_do(browser: Browser, tmp_path: Path) -> None:
    tag = CliRunner().invoke(command, ["client-js", "--write", str(tmp_path)]).stdout
    site = Site(tmp_path, {"/": f"<!doctype html><title>A page</title>{tag}", "/favicon.ico": ""})
    transport = MemoryTransport.serving(CODEBOOK)
    with AppServer(site) as address, served(transport) as shuffler:  # it answers, without a word for other origins
        context = browser.new_context()
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type == "warning" else None)
        page.goto(f"{address}/")
        done = page.evaluate(
            "async (address) => new hubbub.Client(address, {trust: null, consent: true}).flush({timeout: 0})", shuffler
        )
        assert done is False
        assert said == [
            f"hubbub: no codebook from {shuffler}: is it up, and is {address} in its CORS_ORIGINS "
            "(HUBBUB_SHUFFLER_CORS_ORIGINS)?"
        ]
        context.close()


def test_a_developer_is_told_why_the_first_visit_reports_nothing(browser: Browser, tmp_path: Path) -> None:
    tag = CliRunner().invoke(command, ["client-js", "--write", str(tmp_path)]).stdout
    site = Site(tmp_path, {"/": f"<!doctype html><title>A page</title>{tag}", "/favicon.ico": ""})
    site.shuffler("s", time.time)
    with AppServer(site) as address:
        context = browser.new_context()
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"{address}/")
        outcomes = page.evaluate(
            """async (address) => {
              const client = new hubbub.Client(address, {trust: null, consent: true, background: false});
              await client.flush({timeout: 5});
              return [client.record("theme", "dark"), client.record("theme", "light")];
            }""",
            f"{address}/s",
        )
        assert outcomes == ["over_budget", "over_budget"]
        assert len(said) == 1
        assert said[0].startswith("hubbub: over_budget: ")
        assert "the storage is new" in said[0]
        context.close()
