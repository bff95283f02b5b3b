"""Size of the browser SDK beside others, and time of `record` and of sealing: python -m benchmarks.browser_sdks

Every SDK is bundled with the same esbuild, as a page that counts one thing has it. The others come from npm by the lock
in this folder, into a folder that is deleted afterwards. `--write` renews the tables in docs/performance.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.machine import machine
from benchmarks.pages import renew
from tests.browser.chromium import FLAGS, NO_BROWSER, find
from tests.browser.sdk_site import BEGAN, Site, built
from tests.shuffler.process import AppServer
from tests.support.node import NO_PACKAGES, TYPESCRIPT, node, packages, run

HERE = Path(__file__).parent
NAMES = {
    "plausible": "Plausible",
    "glean": "Glean.js, web",
    "opentelemetry": "OpenTelemetry, metrics over OTLP",
    "sentry": "Sentry",
    "divviup": "Divvi Up (DAP)",
    "posthog": "PostHog",
}


def others(esbuild: Path, folder: Path) -> dict[str, Any]:
    """Bytes of the other SDKs, installed into a folder."""
    executable = node()
    assert executable is not None
    shutil.copytree(HERE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    npm = Path(executable).parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    subprocess.run(
        [executable, str(npm), "ci", "--no-progress"], cwd=folder, check=True, stdout=sys.stderr, timeout=600
    )
    measured = subprocess.run(
        [executable, "measure.mjs", str(esbuild), str(folder)], cwd=folder, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(measured.stdout)
    return found


def compressed(folder: Path, names: set[str]) -> int:
    return sum(len(gzip.compress((folder / name).read_bytes(), 9)) for name in names)


def needed(folder: Path, name: str) -> set[str]:
    """A module and all that it imports at once."""
    imported = re.findall(r'(?:import|from)"\./([^"]+)"', (folder / name).read_text("utf-8"))
    return {name}.union(*(needed(folder, other) for other in imported))


def ours(folder: Path) -> list[tuple[str, int]]:
    """Bytes of the parts that a page loads, with the SDK built into a folder."""
    (engine,) = (path.name for path in folder.glob("engine-*"))
    first = needed(folder, "browser.js")
    return [
        ("Hubbub, until there is consent", compressed(folder, first)),
        ("**Hubbub, with consent: all of it**", compressed(folder, first | needed(folder, engine))),
        ("Hubbub, one file for a script tag", compressed(folder, {"hubbub.js"})),
        ("Hubbub, words of previews and ledgers, if shown", compressed(folder, {"words.js"})),
    ]


def in_chromium(folder: Path) -> dict[str, float]:
    """Microseconds in a page."""
    executable = find()
    assert executable is not None, NO_BROWSER
    site = Site(folder, {"/tab": "<!doctype html><title>A tab</title><script src=/page.js></script>"})
    trust = site.shuffler("timing").trust
    with AppServer(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        page = browser.new_page()
        page.goto(f"{address}/tab")
        found: dict[str, float] = page.evaluate(
            """async ([address, trust, now]) => {
              const parts = {address, trust, clock: () => now, consent: () => true, step: () => {}};
              const client = hubbubTab.open(parts);
              await client.flush({timeout: 0, now: true});
              return hubbubTab.timed(client, "clicks");
            }""",
            [f"{address}/timing", trust, BEGAN + 43_200],
        )
        browser.close()
    return found


def in_node() -> dict[str, float]:
    """Microseconds in Node, with a state file."""
    said = run("test/timing_in_node.ts")
    assert said.returncode == 0, said.stderr
    found: dict[str, float] = json.loads(said.stdout)
    return found


def measured() -> str:
    """Both tables, in Markdown."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as installed:
        folder = built(Path(made))
        peers = others(TYPESCRIPT / "node_modules" / "esbuild" / "lib" / "main.js", Path(installed))
        rows = [(size, f"| {name} | {size / 1000:.1f} | |") for name, size in ours(folder)]
        rows += [
            (one["gzip"], f"| {NAMES[name]} | {one['gzip'] / 1000:.1f} | {one['versions']} |")
            for name, one in peers.items()
        ]
        times = {"Chromium, localStorage": in_chromium(folder), "Node, SQLite": in_node()}
    here = machine()
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}; {here['processor']}, {here['cores']} cores, {here['memory_gib']} GiB.",
        "",
        "| a page that counts one thing | kB, gzip | versions |",
        "|---|---|---|",
        *(line for _, line in sorted(rows)),
        "",
        "| microseconds of | `record`, median | `record`, longest of 1,000 | sealing one report |",
        "|---|---|---|---|",
    ]
    for where, time in times.items():
        lines.append(f"| {where} | {time['record']:.0f} | {time['longestRecord']:.0f} | {time['seal']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browser_sdks", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the tables in docs/performance.md")
    asked = parser.parse_args()
    if not packages():
        sys.exit(NO_PACKAGES)
    text = measured()
    print(text)
    if asked.write:
        renew("browser SDKs", lambda _: text)


if __name__ == "__main__":
    main()
