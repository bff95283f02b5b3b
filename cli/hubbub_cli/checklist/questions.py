"""Questions of the checklist, in order, worded for one codebook.

They ask for what a registry of deployments records (unit, parameters, trust model, accounting, what is unprotected, and
the reasons), and for what an evaluation of a guarantee examines first. See docs/how-to/checklist.md for the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from hubbub.codebook import decimal_text
from hubbub_cli.checklist.not_protected import LIMITS
from hubbub_cli.checklist.question import Answer, Question, Section

if TYPE_CHECKING:
    from hubbub.codebook import Codebook

__all__ = ["release_target", "sections"]

ORIGINS = {
    "domain": "from knowledge of the product: its menus, units and limits",
    "public": "from published figures, or from data that needs no protection",
    "data": "from the data to be protected",
}


def sections(codebook: Codebook, answers: Mapping[str, Answer]) -> list[Section]:
    """All sections. The answers so far decide whether some questions arise."""
    return [
        _crowd(codebook),
        _unit(codebook),
        _operators(answers),
        *([_metrics(codebook)] if any(metric.enabled for metric in codebook.metrics) else []),
        _honest(codebook),
        _parameters(codebook),
        _year(codebook, answers),
        _people(),
        _limits(),
    ]


def release_target(codebook: Codebook) -> str:
    """The target that each release must meet, in words."""
    collection = codebook.collection
    return f"epsilon {decimal_text(collection.release_epsilon)}, delta {float(collection.release_delta):g}"


def _crowd(codebook: Codebook) -> Section:
    period = str(codebook.collection.calendar)
    return Section(
        "crowd",
        "The crowd",
        (f"Reports of a period of {period} hide among each other. If there are too few, the batch is discarded.",),
        (
            Question(
                "devices",
                f"How many devices will report in a period of {period}?",
                "Take a number that you reach even on a bad day. With fewer devices the guarantee of a release is "
                "weaker than planned, down to the release target. Below that nothing is released.",
                "count",
                basis=f"period {period}",
            ),
        ),
    )


def _unit(codebook: Codebook) -> Section:
    return Section(
        "unit",
        "Unit of privacy",
        (
            "The unit of protection is one device's answer to one metric in one period of "
            f"{codebook.collection.calendar}: each guarantee compares two worlds that differ in that one value. Over "
            "metrics and periods the guarantees are composed. A person with k devices is a group of k.",
        ),
        (
            Question(
                "devices_per_person",
                "On how many devices does one person run the app, at most?",
                "Each installation counts as a device. The plan shows the guarantee for a person with this many.",
                "count",
                default=1,
            ),
            Question(
                "unit_reason",
                "Why is a device in a period the right unit here, and what about people it does not fit?",
                "For example: one device per person, as in an office; or several, and the group figures are accepted.",
            ),
        ),
    )


def _operators(answers: Mapping[str, Answer]) -> Section:
    two = Question(
        "separation",
        "What keeps the two operators apart?",
        "Name what a reviewer can check: different companies, a contract, no common administrator, no shared "
        "credentials, logs or backups. The shuffle guarantee rests on it.",
    )
    return Section(
        "operators",
        "Who runs which service",
        (
            "With two operators that do not collude, the shuffle guarantee is the promise; if they do, only the local "
            "epsilon is left. With one operator, the local epsilon is the promise.",
        ),
        (
            Question(
                "operators",
                "Do one or two parties run shuffler and aggregator?",
                "With `hubbub up`, or one host for both, there is one operator, whatever the accounts are called.",
                "choice",
                {
                    "one": "the local epsilon is the promise",
                    "two": "the shuffle guarantee is the promise, unless they collude",
                },
            ),
            Question("shuffler_operator", "Who runs the shuffler?", "It sees who reports and when, never what."),
            Question("aggregator_operator", "Who runs the aggregator?", "It sees randomized reports, never from whom."),
            *([two] if answers.get("operators") == "two" else []),
        ),
    )


def _metrics(codebook: Codebook) -> Section:
    questions: list[Question] = []
    for metric in codebook.in_file_order:
        if not metric.enabled:
            continue
        about = f"metric {metric.id.hex()[:16]}"
        questions.append(
            Question(
                f"metrics.{metric.name}.purpose",
                f"{metric.name} ({metric.values.holds_in_words()}): what will be decided with it?",
                "A metric on which no decision depends costs privacy for nothing: leave it out."
                + (f" The codebook says: {metric.description}." if metric.description else ""),
                basis=about,
            )
        )
        if chosen := metric.values.chosen:
            plural = chosen.endswith("s") and " " not in chosen
            come = f"do its {chosen} come" if plural else f"does its {chosen} come"
            questions += [
                Question(
                    f"metrics.{metric.name}.origin",
                    f"{metric.name} ({metric.values.holds_in_words()}): where {come} from?",
                    "No guarantee covers what was read off the data to be protected: a bound may be one person's "
                    "value, and a value in the list someone's secret.",
                    "choice",
                    ORIGINS,
                    basis=about,
                ),
                Question(
                    f"metrics.{metric.name}.reason",
                    f"{metric.name}: why {'these' if plural else 'this'} {chosen}?",
                    "Name the source, so that it can be checked later.",
                    basis=about,
                ),
            ]
    return Section(
        "metrics",
        "Metrics, bounds and values",
        ("Bounds and lists of values are fixed before any data is seen, from knowledge of the domain.",),
        tuple(questions),
    )


def _honest(codebook: Codebook) -> Section:
    fraction = decimal_text(codebook.collection.honest_fraction)
    return Section(
        "honest",
        "Honest fraction",
        (
            f"The codebook assumes that a share of {fraction} of the distinct valid reports is honest: only those hide "
            "a device. Nothing enforces this assumption.",
        ),
        (
            Question(
                "honest_reason",
                f"Why may a share of {fraction} of the valid reports be taken as honest?",
                "Think of bots, of tampered clients, of someone who sends their own reports to single out one device, "
                "and of limits per address at the shuffler.",
                basis=f"honest_fraction {fraction}",
            ),
        ),
    )


def _parameters(codebook: Codebook) -> Section:
    collection = codebook.collection
    target = release_target(codebook)
    each = ", ".join(f"{metric.name} {decimal_text(metric.epsilon)}" for metric in codebook.metrics if metric.enabled)
    about = f"release {target}; local {each}"
    return Section(
        "parameters",
        "Epsilon and delta",
        (
            f"Each release must meet {target}. The local epsilons are: {each}; together "
            f"{decimal_text(codebook.spent)} of the {decimal_text(collection.device_epsilon)} that a device may spend "
            "in a period. A report can shift the odds of any guess by at most a factor of e^epsilon.",
        ),
        (
            Question(
                "epsilon_reason",
                "Why these epsilons?",
                "Say what accuracy is needed (`hubbub plan`, `hubbub simulate`), what harm a leaked value would do, "
                "and which smaller values were tried.",
                basis=about,
            ),
            Question(
                "delta_reason",
                "Why this delta?",
                "It should be far below one in the number of devices: 1e-8 suits up to about ten million.",
                basis=f"release {target}",
            ),
            Question("decided_by", "Who decided on them?", "The name or role of the person responsible.", basis=about),
        ),
    )


def _year(codebook: Codebook, answers: Mapping[str, Answer]) -> Section:
    collection = codebook.collection
    metrics = sha256(b"".join(metric.id for metric in codebook.metrics if metric.enabled)).hexdigest()
    about = (
        f"{decimal_text(codebook.spent)} spent in each period of {collection.calendar}, "
        f"{answers.get('devices', 'unknown')} devices, a share of {decimal_text(collection.honest_fraction)} honest, "
        f"delta {float(collection.release_delta):g}, metrics {metrics[:8]}"
    )
    return Section(
        "year",
        "Budget over a year",
        (
            "A device that takes part in everything spends its epsilon again in each period. Its own limits hold "
            "whatever a codebook says.",
        ),
        (
            Question(
                "max_epsilon",
                "Which max_epsilon, the most that a device spends in a day, does the app give to Client(...)?",
                "The default of the SDK is 8; `none` lifts the limit.",
                "epsilon",
                default=8.0,
            ),
            Question(
                "lifetime_epsilon",
                "Which lifetime_epsilon, the most that a device ever spends, does the app give to Client(...)?",
                "The SDK has none by default. With one, a device is silent for good once it is spent.",
                "epsilon",
                default="none",
            ),
            Question(
                "year_accepted",
                "Are the figures of a year acceptable, as the plan shows them?",
                "If not: fewer metrics, a longer period, a smaller epsilon, or a lifetime_epsilon.",
                "yes",
                basis=about,
            ),
        ),
    )


def _people() -> Section:
    return Section(
        "people",
        "Audience and stakeholders",
        ("Estimates have an audience. The people they are about should know of them, and may refuse.",),
        (
            Question("audience", "Who sees the estimates?", "Teams, partners, the public; and who has a token."),
            Question(
                "stakeholders",
                "Who was consulted before this was decided?",
                "For example: privacy officer, legal, security, the people whose devices report, or their "
                "representatives.",
            ),
            Question(
                "notice",
                "How are people told, how do they agree, and how do they stop it?",
                "The SDK records nothing without consent; preview() and ledger() show what is sent and spent, and "
                "disable() ends it.",
            ),
            Question("contact", "Whom can they ask?", "An address that someone reads."),
            Question("review", "When will this plan be reviewed?", "A date, such as 2027-06-30.", "date"),
        ),
    )


def _limits() -> Section:
    return Section(
        "limits",
        "What is not protected",
        ("Each of these holds however the system is configured. Answer yes if it is known and accepted.",),
        tuple(
            Question(
                f"limits.{name}",
                statement,
                "Known and accepted? If not, it stays an open point.",
                "yes",
                basis=statement.rstrip("."),
                of_codebook=False,
            )
            for name, statement in LIMITS.items()
        ),
    )
