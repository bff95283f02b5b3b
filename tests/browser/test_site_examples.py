"""The examples for sites in a real Chromium: they ask once, are silent after a no, and a report arrives days later."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page

from hubbub.codebook import Codebook
from hubbub_cli.all_commands import hubbub as command
from hubbub_client.testing import MemoryTransport
from tests.browser.sdk_site import BEGAN, Site
from tests.shuffler.process import AppServer
from tests.support.clock import Clock
from tests.support.node import NO_PACKAGES, TYPESCRIPT, bundled, node, packages, project
from tests.support.paths import ROOT
from tests.support.patience import wait_for

EXAMPLES = ROOT / "examples"
SHUFFLER = "http://127.0.0.1:8701"
DAY = 86_400
QUESTIONS = (EXAMPLES / "site" / "metrics.toml").read_text()


@dataclass
class World:
    """A site with its shuffler, and the time of both."""

    site: Site
    shuffler: MemoryTransport
    page: Page
    clock: Clock
    address: str = ""
    amiss: list[str] = field(default_factory=list)

    def asked(self) -> bool:
        """Whether the shuffler was asked, some seconds later."""
        self.page.clock.run_for(5_000)
        return bool(self.shuffler.requests)

    def arrived(self) -> list[tuple[str, str]]:
        """Metrics and periods of what arrived, half a minute later. The browser needs time of its own for each step."""
        self.later(30)
        return sorted((report.metric, report.period) for report in self.shuffler.reports_sent())

    def shown(self) -> str:
        """What the page shows of what is kept, a moment later."""
        self.page.clock.run_for(1_000)
        self.page.get_by_role("button", name="Show what is kept").click()
        return self.page.locator("pre").inner_text()

    def later(self, seconds: float) -> None:
        """Time passes for browser and shuffler."""
        self.clock.now += seconds + 5
        self.page.clock.fast_forward(int(1000 * seconds))
        self.page.clock.run_for(5_000)


@pytest.fixture
def world(browser: Browser, tmp_path: Path) -> Iterator[World]:
    context = browser.new_context()
    page = context.new_page()
    clock = Clock(BEGAN + DAY / 2)
    shuffler = MemoryTransport.serving(QUESTIONS, clock)
    made = World(Site(tmp_path, {"/favicon.ico": ""}, shufflers={"s": shuffler}), shuffler, page, clock)
    page.on("pageerror", lambda error: made.amiss.append(str(error)))
    page.on("console", lambda message: made.amiss.append(message.text) if message.type == "error" else None)
    page.clock.install(time=clock.now)
    page.add_init_script("performance.getEntriesByType = () => [{duration: 120}]")  # a clock that is set has none
    with AppServer(made.site) as made.address:
        yield made
        context.close()
    assert made.amiss == []


def visit(world: World, page_text: str) -> None:
    """From the first question to a report, and to the end of it."""
    world.site.pages["/"] = page_text
    page, shuffler = world.page, world.shuffler
    page.goto(f"{world.address}/")
    page.clock.run_for(3_000)
    page.get_by_role("button", name="Search").click()
    page.clock.run_for(40_000)
    assert shuffler.requests == [], "nobody has agreed yet"
    assert page.evaluate("() => Object.keys(localStorage)") == []
    page.get_by_role("button", name="Yes").click()
    wait_for(world.asked)
    world.later(DAY)  # storage that is new waits for the next period
    page.reload()
    page.clock.run_for(3_000)
    page.get_by_role("combobox").select_option("dark")
    page.get_by_role("button", name="Search").click()
    wait_for(lambda: re.search(r'"charged"|charged, not randomized yet', world.shown()))
    assert shuffler.reports == []
    world.later(DAY)  # the period is over
    world.later(DAY / 20)  # and the longest delay
    wait_for(lambda: len(world.arrived()) >= 3, step=0.1)
    assert world.arrived() == [(name, "2026-01-06") for name in ("load_ms", "search_used", "theme")]
    page.get_by_role("button", name=re.compile("Change my answer|^No$")).click()
    sent = len(shuffler.requests)
    page.get_by_role("button", name="Search").click()
    world.later(2 * DAY)
    assert len(shuffler.requests) == sent


def test_a_plain_page(world: World) -> None:
    said = CliRunner().invoke(command, ["client-js", "--write", str(world.site.folder)])
    text = (EXAMPLES / "site" / "index.html").read_text()
    with_tag = re.sub(r"<!-- here: .*? -->", lambda _: said.stdout, text)
    assert with_tag != text
    app = (EXAMPLES / "site" / "app.js").read_text()
    assert SHUFFLER in app
    world.site.pages["/app.js"] = app.replace(SHUFFLER, f"{world.address}/s")
    visit(world, with_tag)


@pytest.mark.skipif(not packages(), reason=NO_PACKAGES)
def test_a_react_app(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = project(tmp_path_factory.mktemp("react"))
    for path in (EXAMPLES / "react").iterdir():
        shutil.copy(path, folder)
    module = (folder / "telemetry.ts").read_text()
    assert SHUFFLER in module
    (folder / "telemetry.ts").write_text(module.replace(SHUFFLER, f"{world.address}/s"))
    bundled(
        folder,
        "App.tsx",
        "--splitting",
        f"--outdir={world.site.folder}",
        "--entry-names=app",
        '--define:process.env.NODE_ENV="production"',
    )
    visit(world, (folder / "index.html").read_text())


@pytest.mark.full  # tsc takes its time; every day the app is built and run
@pytest.mark.skipif(not packages(), reason=NO_PACKAGES)
def test_the_react_app_and_a_project_that_imports_all_pass_tsc(tmp_path: Path) -> None:
    folder = project(tmp_path, types=True)
    for path in (EXAMPLES / "react").iterdir():
        shutil.copy(path, folder)
    tsc = TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc"
    checked = subprocess.run(
        [str(node()), str(tsc), "-p", "."], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout) == (0, "")
    wrong = (folder / "telemetry.ts").read_text().replace("maxEpsilon: 6", 'maxEpsilon: "6"')
    (folder / "telemetry.ts").write_text(wrong)
    checked = subprocess.run(
        [str(node()), str(tsc), "-p", "."], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "telemetry.ts" in checked.stdout


def test_the_questions_of_the_examples_compile() -> None:
    assert {metric.name for metric in Codebook.from_toml(QUESTIONS).metrics} == {"search_used", "theme", "load_ms"}
