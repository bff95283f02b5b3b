"""Open points of a plan: questions without an answer, answers about something that has changed, and contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from hubbub.codebook import lint
from hubbub_cli.checklist.questions import sections
from hubbub_cli.terminal.round_up import above

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub.errors import Finding
    from hubbub_cli.checklist.answers import Answers
    from hubbub_cli.checklist.plan_figures import Figures
    from hubbub_cli.checklist.question import Answer, Question

__all__ = ["OpenPoint", "Review", "review"]

_OUT_OF_REACH = 10**12


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """Something to settle before anything is collected."""

    key: str
    kind: str
    """`unanswered`, `stale`, `not accepted` or `conflict`."""
    text: str


@dataclass(frozen=True, slots=True)
class Review:
    """A codebook and the answers about it, reviewed on a given day."""

    codebook: Codebook
    answers: Answers
    figures: Figures | None
    """None while the number of devices is unknown."""
    points: tuple[OpenPoint, ...]
    warnings: tuple[Finding, ...]

    @property
    def complete(self) -> bool:
        return not self.points

    @property
    def conflicts(self) -> dict[str, str]:
        """Answers that cannot stand, with the reason."""
        return {point.key: point.text for point in self.points if point.kind == "conflict"}

    @property
    def moved(self) -> bool:
        """Whether the answers were given for another version of the codebook."""
        return bool(self.answers.codebook) and self.answers.codebook != self.codebook.id.hex()


def review(codebook: Codebook, answers: Answers, figures: Figures | None, *, today: date, file: str) -> Review:
    """Find all open points."""
    needed = {one.metric.name: one.min_batch for one in figures.plan.metrics} if figures else {}
    warnings = lint(
        codebook,
        today=today,
        file=file,
        devices=figures.plan.devices if figures else None,
        min_batch_of=lambda metric: needed.get(metric.name) or _OUT_OF_REACH,
    )
    points = [
        *(point for question in asked(codebook, answers) if (point := _open(question, answers))),
        *(OpenPoint(key, "conflict", text) for key, text in _conflicts(answers.given, today)),
        *(OpenPoint(key, "conflict", text) for key, text in (_figures_say(answers.given, figures) if figures else ())),
    ]
    return Review(codebook, answers, figures, tuple(points), tuple(warnings))


def asked(codebook: Codebook, answers: Answers) -> Iterator[Question]:
    """Every question that arises, in order."""
    for section in sections(codebook, answers.given):
        yield from section.questions


def _open(question: Question, answers: Answers) -> OpenPoint | None:
    if question.key not in answers.given:
        return OpenPoint(question.key, "unanswered", question.text)
    if (before := answers.stale(question)) is not None:
        text = f"{question.text} The answer was about: {before}. This is now: {question.basis}."
        return OpenPoint(question.key, "stale", text)
    if question.kind == "yes" and answers.given[question.key] is not True:
        return OpenPoint(question.key, "not accepted", question.text)
    return None


def _conflicts(given: Mapping[str, Answer], today: date) -> Iterator[tuple[str, str]]:
    """Answers that cannot both stand, or cannot stand at all."""
    names = [str(given.get(f"{service}_operator", "")).casefold() for service in ("shuffler", "aggregator")]
    if given.get("operators") == "two" and names[0] and names[0] == names[1]:
        yield (
            "operators",
            "Two operators are declared, but the same one runs both services. The local epsilon is then the promise.",
        )
    for key, answer in given.items():
        if key.endswith(".origin") and answer == "data":
            metric = key.split(".")[1]
            yield (
                key,
                f"The values of {metric} come from the data to be protected, which no guarantee covers. Choose new "
                "ones from another source.",
            )
    if "review" in given and date.fromisoformat(str(given["review"])) <= today:
        yield "review", f"The plan was due for review on {given['review']}: review it, and set a later date."


def _figures_say(given: Mapping[str, Answer], figures: Figures) -> Iterator[tuple[str, str]]:
    """Answers that the figures contradict."""
    for one in figures.kept_back:
        needs = (
            f"needs {one.min_batch:,} reports" if one.min_batch else "cannot meet the release target with any number"
        )
        yield (
            "devices",
            f"{one.metric.name} {needs}, and {one.reports:,} are expected: every period would be discarded.",
        )
    limit = given.get("max_epsilon")
    if isinstance(limit, float | int) and figures.local_day > limit:
        yield (
            "max_epsilon",
            f"A device would spend {above(figures.local_day)} in a day, but the app lets it spend {limit:g}: it "
            "refuses the rest.",
        )
    lifetime = given.get("lifetime_epsilon")
    if isinstance(lifetime, float | int) and not figures.periods_within(lifetime):
        yield (
            "lifetime_epsilon",
            f"A device would spend {above(figures.local_period)} in a period, but the app lets it spend {lifetime:g} "
            "in its lifetime: it refuses such a codebook, and reports nothing.",
        )
