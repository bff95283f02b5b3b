"""`hubbub checklist`: what it asks, what it keeps, what it writes, and what it refuses to call complete."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hubbub.accounting.codebook_plan import plan
from hubbub.errors import InvalidParameter
from hubbub_cli.all_commands import hubbub
from hubbub_cli.checklist.answers import Answers, template
from hubbub_cli.checklist.not_protected import LIMITS
from hubbub_cli.checklist.plan_figures import Figures, figures, group, periods_of_a_year
from hubbub_cli.checklist.plan_markdown import render
from hubbub_cli.checklist.questions import sections
from hubbub_cli.checklist.review import review
from hubbub_cli.commands.checklist import OPEN
from hubbub_cli.terminal.round_up import above
from tests.support.codebooks import dark_mode, photo_app, theme
from tests.support.compiled import compiled
from tests.support.patience import PATIENCE, wait_for

TODAY = date(2026, 11, 16)
TOML = photo_app(
    dark_mode(1.0),
    theme(1.0, values=["light", "dark", "other"], other="other"),
    period="1w",
    device_epsilon=4.0,
    honest_fraction=0.9,
)
ANSWERS = {
    "devices": "20,000",
    "devices_per_person": "2",
    "unit_reason": "a phone and a tablet | at most",
    "operators": "two",
    "shuffler_operator": "Relay Ltd.",
    "aggregator_operator": "App <GmbH>",
    "separation": "a contract",
    "metrics.dark_mode.purpose": "the default",
    "metrics.theme.purpose": "which themes stay",
    "metrics.theme.origin": "domain",
    "metrics.theme.reason": "the menu",
    "honest_reason": "few bots",
    "epsilon_reason": "a point of accuracy",
    "delta_reason": "far below one in 20,000",
    "decided_by": "the privacy officer",
    "max_epsilon": "8",
    "lifetime_epsilon": "none",
    "year_accepted": "yes",
    "audience": "the UI team",
    "stakeholders": "works council",
    "notice": "at the first start",
    "contact": "privacy@example.com",
    "review": "2099-06-30",
    **{f"limits.{name}": "yes" for name in LIMITS},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics.toml").write_text(TOML)
    return tmp_path


def written(**changes: str | None) -> str:
    """An answers file as a person writes it."""
    merged = {**ANSWERS, **{key.replace("__", "."): value for key, value in changes.items()}}
    return "[answers]\n" + "".join(f'"{key}" = {json.dumps(value)}\n' for key, value in merged.items() if value)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hubbub, ["checklist", *arguments])


@cache
def worked(toml: str, devices: int) -> Figures:
    return figures(compiled(toml), devices)


def open_points(folder: Path, answers: str, *, toml: str = TOML, counted: bool = False) -> list[tuple[str, str]]:
    """Key and kind of what is open; `counted`: also by the figures, which take seconds."""
    (folder / "answers.toml").write_text(answers)
    book = compiled(toml)
    loaded = Answers.load(folder / "answers.toml", book)
    made = worked(toml, int(loaded.given["devices"])) if counted else None
    return [(point.key, point.kind) for point in review(book, loaded, made, today=TODAY, file="m").points]


# -- answers from a file ------------------------------------------------------------------------


def test_a_plan_with_every_answer_is_complete_and_has_the_accountants_figures(folder: Path) -> None:
    (folder / "answers.toml").write_text(written())
    result = run("metrics.toml", "--answers", "answers.toml", "--strict", "--json", "--out", "plan.md")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    book = compiled(TOML)
    made = worked(TOML, 20_000).plan
    assert document["complete"] is True
    assert document["codebook"] == book.id.hex()
    assert made.device_period is not None
    assert made.device_total is not None
    assert document["figures"]["device_year"] == {"epsilon": made.device_total.epsilon, "local_epsilon": 2 * 53}
    assert document["figures"]["device_period"] == {"epsilon": made.device_period.epsilon, "local_epsilon": 2}
    page = (folder / "plan.md").read_text()
    assert "**Complete**" in page
    assert "OPEN" not in page
    assert f"epsilon {above(made.device_total.epsilon)}, delta 1e-08 | epsilon 106 |" in page
    assert "in a year, a person with 2 devices" in page
    assert "hubbub plan metrics.toml --devices 20000 --periods 53" in page
    assert book.id.hex() in page
    assert "The promise is the shuffle guarantee" in page
    assert "as many devices report as planned" in page
    assert "only the release target: epsilon 0.5, delta 1e-08 for each release" in page
    assert "App &lt;GmbH&gt;" in page, "what people write is shown as it is"
    assert all(
        answer in page.replace("\\", "") for answer in ("a point of accuracy", "works council", "at the first start")
    )
    assert "`metrics.theme.expires`" in page, "the linter's warnings are in it"


def test_the_same_answers_give_the_same_plan(folder: Path) -> None:
    book = compiled(TOML)
    (folder / "answers.toml").write_text(written())
    pages = set()
    for today in (TODAY, date(2026, 12, 24)):
        answers = Answers.load(folder / "answers.toml", book)
        pages.add(render(review(book, answers, worked(TOML, 20_000), today=today, file="m.toml"), "m.toml"))
    assert len(pages) == 1


@pytest.mark.parametrize("key", [key for key in ANSWERS if key != "devices"])
def test_each_question_left_open_is_an_open_point(key: str) -> None:
    book = compiled(TOML)
    answers = Answers()
    for section in sections(book, {"operators": "two", "devices": 20_000}):
        for question in section.questions:
            answers.put(question, question.read(ANSWERS[question.key]))
    assert review(book, answers, None, today=TODAY, file="m").complete
    del answers.given[key]
    found = [point.key for point in review(book, answers, None, today=TODAY, file="m").points]
    assert found == [key] if key != "operators" else key in found


def test_a_plan_with_open_points_is_loud_and_strict_refuses_it(folder: Path) -> None:
    (folder / "answers.toml").write_text(written(audience=None, limits__delta="no", devices=None))
    assert run("metrics.toml", "--answers", "answers.toml").exit_code == 0
    result = run("metrics.toml", "--answers", "answers.toml", "--strict")
    assert result.exit_code == OPEN
    assert "release-plan.md: 3 OPEN point(s)" in result.stdout
    page = (folder / "release-plan.md").read_text()
    assert "**OPEN: 3 point(s)" in page
    assert "**OPEN**: no figures can be worked out until the number of devices is known." in page
    assert "- **OPEN, unanswered** (`audience`)" in page
    assert "- **OPEN, not accepted** (`limits.delta`)" in page


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"operators": "two", "aggregator_operator": "relay ltd."}, "operators"),
        ({"metrics__theme__origin": "data"}, "metrics.theme.origin"),
        ({"devices": "100"}, "devices"),
        ({"max_epsilon": "1.5"}, "max_epsilon"),
        ({"lifetime_epsilon": "1.5"}, "lifetime_epsilon"),
        ({"review": "2026-01-01"}, "review"),
    ],
)
def test_answers_that_cannot_stand_are_open_points(folder: Path, changes: dict[str, str], expected: str) -> None:
    assert (expected, "conflict") in open_points(folder, written(**changes), counted=True)


def test_a_limit_for_good_that_ends_within_the_year_is_said_and_may_stand(folder: Path) -> None:
    assert open_points(folder, written(lifetime_epsilon="20"), counted=True) == []
    book = compiled(TOML)
    answers = Answers.load(folder / "answers.toml", book)
    page = render(review(book, answers, worked(TOML, 20_000), today=TODAY, file="m"), "m")
    assert "lifetime\\_epsilon of 20: after 10 period(s) in which it reports everything, a device is silent" in page


def test_values_of_a_codebook_are_no_markup_in_a_plan(folder: Path) -> None:
    book = compiled(TOML.replace('"dark"', '"da`rk|<b>*"'))
    (folder / "answers.toml").write_text(written())
    answers = Answers.load(folder / "answers.toml", book)
    page = render(review(book, answers, Figures(plan(book, 20_000, 1)), today=TODAY, file="m"), "m")
    assert r"| 3 values: light, da\`rk\|&lt;b&gt;\*, other |" in page


def test_with_one_operator_the_local_epsilon_is_the_promise(folder: Path) -> None:
    book = compiled(TOML)
    (folder / "answers.toml").write_text(written(operators="one", separation=None))
    found = review(
        book, Answers.load(folder / "answers.toml", book), worked(TOML, 20_000), today=TODAY, file="metrics.toml"
    )
    assert found.complete
    page = render(found, "metrics.toml")
    assert "**The promise is local**" in page
    assert "factor of e^2." in page


def test_mistakes_in_an_answers_file_are_all_named_with_what_to_do(folder: Path) -> None:
    (folder / "answers.toml").write_text(written(devices="many", operators="tow", audiance="all"))
    result = run("metrics.toml", "--answers", "answers.toml")
    assert result.exit_code != 0
    said = str(result.exception)
    assert "answers.devices: a whole number of at least 1 is needed, got 'many'" in said
    assert "did you mean 'two'?" in said
    assert "answers.audiance: no question has this key; fix: did you mean 'audience'?" in said
    assert not (folder / "release-plan.md").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("answers = 3\n", "answers: is not a table; fix: write [answers]"),
        ('about = "x"\n[answers]\n', "about: is not a table"),
        (f'[answers]\noperators = "{"9" * 5000}"\n', "is none of one, two"),
        ('[answers]\nreview = "soon"\n', "a date such as 2027-06-30 is needed"),
    ],
)
def test_an_odd_answers_file_is_refused_in_words(folder: Path, text: str, said: str) -> None:
    (folder / "answers.toml").write_text(text)
    with pytest.raises(InvalidParameter, match=re.escape(said)):
        Answers.load(folder / "answers.toml", compiled(TOML))


def test_a_time_is_taken_as_its_day(folder: Path) -> None:
    (folder / "answers.toml").write_text("[answers]\nreview = 2099-06-30T10:00:00\n")
    assert Answers.load(folder / "answers.toml", compiled(TOML)).given == {"review": "2099-06-30"}


@pytest.mark.parametrize(
    ("out", "said"), [("/proc/plan.md", "/proc"), ("no/plan.md", "no folder"), ("", "name of a file")]
)
def test_a_plan_that_cannot_be_written_is_refused_in_words(folder: Path, out: str, said: str) -> None:
    (folder / "answers.toml").write_text("[answers]\n")
    result = run("metrics.toml", "--answers", "answers.toml", "--out", out)
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    assert said in result.output


@pytest.mark.usefixtures("folder")
def test_without_a_terminal_and_without_answers_it_says_what_to_do() -> None:
    result = run("metrics.toml")
    assert result.exit_code == 2
    assert "--answers FILE" in result.output


def test_a_template_asks_every_question_and_is_an_answers_file(folder: Path) -> None:
    shown = run("metrics.toml", "--template").stdout
    assert set(tomllib.loads(shown)["answers"]) == set(ANSWERS)
    assert ("audience", "unanswered") in open_points(folder, shown)
    blanks, notes = shown.split("[about]")
    for key, answer in ANSWERS.items():
        name = json.dumps(key) if "." in key else key
        blanks = re.sub(rf"^{re.escape(name)} = .*$", f"{name} = {json.dumps(answer)}", blanks, flags=re.MULTILINE)
    filled = f"{blanks}[about]{notes}"
    assert open_points(folder, filled) == []
    edited = TOML.replace("honest_fraction = 0.9", "honest_fraction = 0.8")
    assert ("honest_reason", "stale") in open_points(folder, filled, toml=edited)


# -- a codebook that changes --------------------------------------------------------------------


def bound(folder: Path) -> str:
    """The answers with notes of what each was about, as the command keeps them."""
    book = compiled(TOML)
    (folder / "answers.toml").write_text(written())
    Answers.load(folder / "answers.toml", book).save(folder / "kept.toml", book, "hubbub checklist metrics.toml")
    return (folder / "kept.toml").read_text()


def test_an_edited_metric_makes_the_answers_about_it_stale_and_no_others(folder: Path) -> None:
    kept = bound(folder)
    assert open_points(folder, kept) == []
    edited = TOML.replace('"dark", "other"]', '"dark", "sepia", "other"]')
    assert open_points(folder, kept, toml=edited) == [
        *((f"metrics.theme.{what}", "stale") for what in ("purpose", "origin", "reason")),
        ("year_accepted", "stale"),  # more values are another mechanism, which costs something else
    ]
    described = TOML + 'description = "The theme"\n'
    assert open_points(folder, kept, toml=described) == [], "a description is no decision"


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ("honest_fraction = 0.9", "honest_fraction = 0.8", {"honest_reason", "year_accepted"}),
        ("delta = 1e-8", "delta = 1e-9", {"epsilon_reason", "delta_reason", "decided_by", "year_accepted"}),
        ('period = "1w"', 'period = "1d"', {"devices", "year_accepted"}),
    ],
)
def test_an_edited_collection_makes_the_answers_about_it_stale(
    folder: Path, old: str, new: str, stale: set[str]
) -> None:
    found = {key for key, kind in open_points(folder, bound(folder), toml=TOML.replace(old, new)) if kind == "stale"}
    assert {key for key in found if not key.startswith("metrics.")} == stale


def test_other_devices_make_the_accepted_year_stale(folder: Path) -> None:
    assert open_points(folder, bound(folder).replace("devices = 20000", "devices = 30000")) == [
        ("year_accepted", "stale")
    ]


def test_answers_without_notes_are_stale_when_the_codebook_that_the_file_names_has_changed(folder: Path) -> None:
    named = f'codebook = "{compiled(TOML).id.hex()}"\n' + written()
    assert open_points(folder, named) == []
    stale = dict(open_points(folder, named, toml=TOML.replace("epsilon = 0.5", "epsilon = 0.4")))
    assert stale["epsilon_reason"] == "stale"
    assert not {"audience", "limits.delta"} & stale.keys(), "they are not about the codebook"


def test_a_metric_that_went_takes_its_questions_along_and_a_new_one_brings_its_own(folder: Path) -> None:
    renamed = TOML.replace("metrics.dark_mode", "metrics.night")
    keys = [key for key, _ in open_points(folder, bound(folder), toml=renamed)]
    assert "metrics.night.purpose" in keys
    assert not any("dark_mode" in key for key in keys)


# -- figures ------------------------------------------------------------------------------------


def test_a_year_has_as_many_periods_as_begin_in_it() -> None:
    for length, periods in (("1h", 8760), ("1d", 365), ("1w", 53), ("52w", 2)):
        assert periods_of_a_year(compiled(TOML.replace("1w", length))) == periods


def test_privacy_figures_are_rounded_up() -> None:
    assert [above(number) for number in (2.451, 2.45, 0.03441, 1e-8, 1460.0, 1234.5, 1.0000000000000002)] == [
        "2.46",
        "2.45",
        "0.0345",
        "1e-08",
        "1,460",
        "1,240",
        "1",
    ]
    assert above(35_040.0, 6) == "35,040"
    assert above(365 * 3.37, 6) == "1,231", "no decimals are written, and none is cut off"


def test_a_group_of_devices_is_protected_less() -> None:
    assert group(0.5, 1e-8, 1) == (0.5, 1e-8)
    epsilon, delta = group(0.5, 1e-8, 2)
    assert (epsilon, round(delta * 1e8, 3)) == (1.0, 2.649)  # 1 + e^0.5
    assert group(0.0, 1e-8, 3)[1] == pytest.approx(3e-8)
    assert group(9.0, 1e-8, 4) == (36.0, 1.0)
    assert group(9.0, 1e-8, 10**6) == (9e6, 1.0)


def test_a_discarded_metric_costs_its_local_epsilon_all_the_same() -> None:
    few = worked(TOML, 100)
    assert len(few.kept_back) == 2
    assert few.plan.device_period is None
    assert few.local_period == 2


def test_the_template_names_the_codebook() -> None:
    book = compiled(TOML)
    assert tomllib.loads(template(book, "hubbub checklist"))["codebook"] == book.id.hex()


# -- in a terminal ------------------------------------------------------------------------------


class Terminal:
    """A real session: `hubbub checklist` on a pseudo-terminal of 80 columns, answered as it asks."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.shown = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ["COLUMNS"] = "80"
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell that runs the tests in its background ignores it
            os.execv(sys.executable, [sys.executable, "-m", "hubbub_cli", "checklist", "metrics.toml", *arguments])  # noqa: S606

    def expect(self, end: str) -> str:
        """Read until this is the last thing on the screen; what came since the last time."""
        until, new = time.monotonic() + PATIENCE, ""
        while not new.endswith(end):
            ready, _, _ = select.select([self._fd], [], [], max(0, until - time.monotonic()))
            assert ready, f"waited for {end!r} in vain after: {self.shown[-500:]}"
            new += self._read()
        return new

    def answer(self, text: str) -> None:
        os.write(self._fd, f"{text}\n".encode())

    def interrupt(self) -> None:
        """Ctrl-C, once it waits for a key: between the prompt and that, Python notes it and looks at it a key later."""
        state = Path(f"/proc/{self.pid}/stat")
        if state.exists():
            wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "S")
        os.write(self._fd, b"\x03")

    def end(self) -> int:
        """Everything up to the end; the exit code."""
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> str:
        try:
            text = os.read(self._fd, 65536).decode().replace("\r\n", "\n")
        except OSError:  # Linux says it so when the other side has gone
            return ""
        self.shown += text
        return text


@pytest.fixture
def sessions() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_a_session_with_help_mistakes_a_way_back_and_an_interruption_ends_in_a_complete_plan(
    folder: Path, sessions: list[Terminal]
) -> None:
    first = Terminal(folder)
    sessions.append(first)
    assert "How many devices" in first.expect("> ")
    first.answer("?")
    assert "on a bad day" in first.expect("> ")
    first.answer("many")
    assert "a whole number of at least 1 is needed" in first.expect("> ")
    first.answer("20,000")
    assert "[1] >" in first.expect("> ")
    first.answer("3")
    first.expect("> ")
    first.answer("<")
    assert "[3] >" in first.expect("> "), "the way back shows what was answered"
    first.answer("2")
    first.expect("> ")
    first.interrupt()
    assert first.end() == 130
    assert "Your answers are in release-plan.toml" in first.shown
    kept = tomllib.loads((folder / "release-plan.toml").read_text())["answers"]
    assert kept == {"devices": 20_000, "devices_per_person": 2}
    assert not (folder / "release-plan.md").exists()

    second = Terminal(folder, "--strict")
    sessions.append(second)
    for key, answer in list(ANSWERS.items())[2:]:
        second.expect("> ")
        second.answer("" if key == "max_epsilon" else answer)
    assert second.end() == 0, second.shown[-2000:]
    assert "How many devices" not in second.shown, "what was answered is not asked again"
    assert "release-plan.md: complete" in second.shown
    assert max(map(len, second.shown.splitlines())) <= 80
    assert "OPEN" not in (folder / "release-plan.md").read_text()
    assert run("metrics.toml", "--answers", "release-plan.toml", "--strict").exit_code == 0


@pytest.mark.full  # three seconds; every day a longer session is held
def test_an_answer_that_cannot_stand_is_asked_again(folder: Path, sessions: list[Terminal]) -> None:
    book = compiled(TOML)
    (folder / "answers.toml").write_text(written(review="2026-01-01"))
    Answers.load(folder / "answers.toml", book).save(folder / "release-plan.toml", book, "hubbub checklist")
    only = Terminal(folder)
    sessions.append(only)
    asked = " ".join(only.expect("> ").split())
    assert "cannot stand. The plan was due for review on 2026-01-01" in asked
    assert asked.endswith("When will this plan be reviewed? [2026-01-01] >")
    only.answer("2099-06-30")
    assert only.end() == 0
    assert "release-plan.md: complete" in only.shown
