"""Release plan as Markdown: decisions, answers, figures and how to reproduce them; without a date."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hubbub
from hubbub.codebook import decimal_text
from hubbub.period import duration_text
from hubbub_cli.checklist.plan_figures import group, near
from hubbub_cli.checklist.question import Question
from hubbub_cli.checklist.questions import release_target, sections
from hubbub_cli.markdown_escape import plain
from hubbub_cli.terminal.round_up import above

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub_cli.checklist.plan_figures import Figures
    from hubbub_cli.checklist.review import Review

__all__ = ["render"]


def render(found: Review, file: str) -> str:
    """The plan."""
    return (
        "\n".join([*_head(found, file), *_promise(found), *_figures(found, file), *_decisions(found), *_foot(found)])
        + "\n"
    )


def _head(found: Review, file: str) -> Iterator[str]:
    collection = found.codebook.collection
    yield f"# Release plan: {plain(collection.name)}"
    yield ""
    if found.complete:
        yield "**Complete**: every question is answered and nothing contradicts the figures."
    else:
        yield f"**OPEN: {len(found.points)} point(s) must be settled before anything is collected.**"
    yield ""
    yield f"- codebook: `{found.codebook.id.hex()}`, in {plain(file)}"
    yield f"- period: {collection.calendar}, and reports are taken for {duration_text(collection.grace)} after its end"
    names = [plain(metric.name) for metric in found.codebook.in_file_order if metric.enabled]
    yield f"- metrics: {', '.join(names) or 'none'}"
    yield f"- made with: hubbub {hubbub.__version__}, `hubbub checklist`"
    yield ""
    if found.points:
        yield "## Open points"
        yield ""
        yield from (f"- **OPEN, {point.kind}** (`{point.key}`): {plain(point.text)}" for point in found.points)
        yield ""


def _promise(found: Review) -> Iterator[str]:
    operators = found.answers.given.get("operators")
    spent = decimal_text(found.codebook.spent)
    yield "## What is promised"
    yield ""
    if operators == "one":
        yield (
            "One operator runs both services. **The promise is local**: whatever the services do with a device's "
            "reports of one period, the odds of any guess about its values shift by at most a factor of "
            f"e^{spent}. The shuffle figures below would hold only if different parties ran the two services."
        )
    elif operators == "two":
        yield (
            "Two operators run the services. **The promise is the shuffle guarantee below**, as long as they do not "
            "collude, the assumed share of valid reports is honest, and as many devices report as planned. If fewer "
            f"do, the services ensure only the release target: {release_target(found.codebook)} for "
            "each release. If the operators collude, only the local guarantee is left: epsilon "
            f"{spent} for all reports of a device in one period, added up over periods."
        )
    else:
        yield (
            "**OPEN**: it is not decided who runs the services. Until then count on the local epsilon alone: "
            f"{spent} in a period."
        )
    yield ""


def _figures(found: Review, file: str) -> Iterator[str]:
    yield "## Figures"
    yield ""
    if found.figures is None:
        yield "**OPEN**: no figures can be worked out until the number of devices is known."
        yield ""
        return
    made = found.figures.plan
    honest = decimal_text(found.codebook.collection.honest_fraction)
    yield (
        f"For {made.devices:,} devices in a period, of whose valid reports a share of {honest} is honest, over "
        f"{made.periods:,} periods (365 days). Shuffle epsilons are upper bounds at delta {found.figures.delta:g}; "
        "epsilons are rounded up."
    )
    yield ""
    yield from _table(
        [
            "metric",
            "holds",
            "mechanism",
            "released from",
            "standard error",
            "shuffle, period",
            "shuffle, year",
            "local, period",
        ],
        [
            [
                f"`{one.metric.name}`",
                plain(one.metric.values.holds_in_words()),
                one.metric.mechanism.name,
                f"{one.min_batch:,} reports" if one.min_batch else "never",
                near(one.stderr) if one.reports else "-",
                above(one.guarantee.epsilon) if one.released and one.guarantee else "not released",
                above(one.composed.epsilon) if one.released and one.composed else "not released",
                decimal_text(one.metric.epsilon),
            ]
            for one in made.metrics
        ],
    )
    yield "One device over all metrics:"
    yield ""
    yield from _table(["when", "shuffle", "local, if they collude"], _totals(found, found.figures))
    yield from _end(found, found.figures)
    devices = f"--devices {made.devices}"
    yield "To reproduce these figures:"
    yield ""
    yield "```sh"
    yield f"hubbub plan {shlex.quote(file)} {devices} --periods {made.periods}"
    yield f"hubbub codebook check {shlex.quote(file)} {devices}"
    yield "```"
    yield ""


def _end(found: Review, figures: Figures) -> Iterator[str]:
    """The effect of a lifetime limit within the year. Not an open point: it may make the year acceptable."""
    lifetime = found.answers.given.get("lifetime_epsilon")
    if isinstance(lifetime, float | int) and lifetime < figures.local_year:
        periods = figures.periods_within(lifetime)
        yield (
            f"The app gives its devices a lifetime\\_epsilon of {lifetime:g}: after {periods:,} period(s) in which "
            "it reports everything, a device is silent for good, and the crowd gets smaller. Until it loses its state, "
            "it spends no more than that, whatever the figures of a year say."
        )
        yield ""


def _totals(found: Review, figures: Figures) -> Iterator[list[str]]:
    people = found.answers.given.get("devices_per_person", 1)
    size = people if isinstance(people, int) else 1
    made = figures.plan
    rows = [
        ("in one period", made.device_period, figures.local_period),
        ("in a year", made.device_total, figures.local_year),
    ]
    for count in sorted({1, size}):
        who = "" if count == 1 else f", a person with {count} devices"
        for what, composed, local in rows:
            if composed is None:
                shuffled = "nothing is released"
            else:
                epsilon, delta = group(composed.epsilon, figures.delta, count)
                shuffled = (
                    f"epsilon {above(epsilon)}, delta {above(delta)}" if delta < 1 else "no more than the local one"
                )
            yield [what + who, shuffled, f"epsilon {above(count * local, 6)}"]


def _decisions(found: Review) -> Iterator[str]:
    given = found.answers.given
    open_keys = {point.key: point.kind for point in reversed(found.points)}
    for section in sections(found.codebook, given):
        yield f"## {section.title}"
        yield ""
        for paragraph in section.intro:
            yield plain(paragraph)
            yield ""
        if section.name == "limits":
            yield from _limits(section.questions, found)
            continue
        for question in section.questions:
            mark = f" **OPEN, {open_keys[question.key]}**" if question.key in open_keys else ""
            yield f"**{plain(question.text)}**{mark}"
            yield ""
            yield f"> {_answer(question, found)}"
            yield ""


def _limits(questions: Sequence[Question], found: Review) -> Iterator[str]:
    for question in questions:
        accepted = found.answers.given.get(question.key) is True and found.answers.stale(question) is None
        yield f"- {'known and accepted' if accepted else '**OPEN, not accepted**'}: {plain(question.text)}"
    yield ""


def _answer(question: Question, found: Review) -> str:
    if question.key not in found.answers.given:
        return "no answer yet"
    answer = found.answers.given[question.key]
    if question.kind == "choice":
        return f"{answer}: {plain(question.choices[str(answer)])}"
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return plain(answer) if isinstance(answer, str) else f"{answer:,}" if isinstance(answer, int) else f"{answer:g}"


def _foot(found: Review) -> Iterator[str]:
    yield "## Warnings about the codebook"
    yield ""
    if not found.warnings:
        yield "None."
    yield from (f"- `{one.key}`: {plain(one.problem)}. Fix: {plain(one.fix)}." for one in found.warnings)


def _table(header: Sequence[str], rows: Iterator[list[str]] | Sequence[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
