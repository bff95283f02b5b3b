"""The keys of a codebook file: how each is written, its default and its meaning. See docs/reference/codebook.md."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.metric_types import LATER, metric_type, names
from hubbub.metric_types.base import Key
from hubbub.reduce import REDUCERS

__all__ = ["COLLECTION", "METRIC", "RELEASE", "TOTAL", "Key", "metric_keys"]


def one_of_these(words: Iterable[str]) -> str:
    """The words as "a, b or c"."""
    *most, last = words
    return f"{', '.join(most)} or {last}"


_NAME = "a lower-case name: a letter, then letters, digits, `_`"

COLLECTION = (
    Key(
        "name",
        _NAME + " or `-`, at most 64 characters",
        "required",
        "Names the deployment. Part of every metric's id.",
    ),
    Key(
        "period",
        'a length such as "1h", "1d" or "1w" that divides a day or is whole days',
        "required",
        "How often a device reports. UTC; weeks start on Monday. Part of every metric's id.",
    ),
    Key("grace", 'a duration such as "6h" or "1d"', "one period", "How long after its end a period takes reports."),
    Key(
        "delay",
        'a duration such as "10m", at most half the grace',
        "half the grace",
        "The longest random wait before a due report is sent. Apps that run only briefly, such as web pages, need a "
        "long grace and a short delay.",
    ),
    Key(
        "forward_horizon",
        'a duration such as "7d"',
        '"7d"',
        "How long after the grace its batches are taken; then its keys and nonces are deleted.",
    ),
    Key(
        "device_epsilon",
        "a positive number, such as 4.0",
        "required",
        "The most one device may spend in one period, over all enabled metrics.",
    ),
    Key(
        "release",
        "a table such as { epsilon = 0.5, delta = 1e-8 }",
        "required",
        "What each release must meet when the shuffler is honest; `min_batch` is computed from it.",
    ),
    Key(
        "honest_fraction",
        "a number above 0 and at most 1, such as 0.9",
        "0.9",
        "Share of the distinct valid reports that is assumed honest. Nothing enforces this.",
    ),
    Key(
        "devices",
        "a whole number of at least 1, such as 50000",
        "none",
        'Devices expected in a period. `epsilon = "auto"` and `error` are worked out for them.',
    ),
    Key(
        "devices_margin",
        "a number above 0 and at most 1, such as 0.8",
        "0.8",
        "The part of `devices` that must be enough for a release. Smaller crowds are discarded, unopened.",
    ),
    Key(
        "local_epsilon_cap",
        "a number from 0.0001 to 30, such as 4.0",
        "none",
        "The largest local epsilon of any metric: what holds if shuffler and aggregator collude.",
    ),
    Key(
        "total",
        'a table such as { epsilon = 3.0, delta = 1e-6, over = "365d" }',
        "none",
        "The most that all releases of any such time together may reveal. Collection stops where it is used up.",
    ),
)

RELEASE = (
    Key("epsilon", "a positive number, such as 0.5", "required", "Shuffle-model epsilon of one release."),
    Key(
        "delta",
        "a number above 0 and below 1, such as 1e-8",
        "required",
        "Its delta. Choose it well below one divided by the number of devices.",
    ),
)

TOTAL = (
    Key("epsilon", "a positive number, such as 3.0", "required", "Shuffle-model epsilon of all releases together."),
    Key("delta", "a number above 0 and below 1, such as 1e-6", "required", "Its delta."),
    Key("over", 'a duration such as "365d"', "required", "Time that counts together, in whole periods, rounded up."),
)

METRIC = (
    Key(
        "type",
        one_of_these(f'"{name}"' for name in names()),
        "required",
        "What is measured. Not supported yet: " + ", ".join(f'"{name}"' for name in LATER) + ".",
    ),
    Key(
        "epsilon",
        'a number from 0.0001 to 30, such as 1.0, or "auto"',
        "required, unless there is `error`",
        'Local epsilon of one report. `"auto"`: [worked out](../how-to/choose-epsilon.md#from-the-release-target) by '
        "`hubbub codebook compile`.",
    ),
    Key(
        "local_epsilon_cap",
        "a number from 0.0001 to 30, such as 4.0",
        "the collection's",
        'The largest local epsilon allowed. `epsilon = "auto"` needs one.',
    ),
    Key(
        "devices",
        "a whole number of at least 1, such as 50000",
        "the collection's",
        "Devices expected in a period, for this metric.",
    ),
    Key(
        "error",
        "a number above 0, such as 0.01",
        "none",
        "Half the width of an interval that is wanted, in the metric's unit (0.01 is one point of a share). The "
        "smallest epsilon that reaches it is taken, so no other is written.",
    ),
    Key("confidence", "a number above 0 and below 1, such as 0.95", "0.95", "Confidence of the interval of `error`."),
    Key(
        "importance",
        "a number above 0, such as 2",
        "1",
        "Where `device_epsilon` is short: a metric that is twice as important gets half the error.",
    ),
    Key(
        "reduce",
        f"{one_of_these(REDUCERS)}, in quotes",
        "by type, see below",
        "How the values of a period become one.",
    ),
    Key(
        "share", "a number above 0 and at most 1, such as 0.1", "1", "Share of devices that report, by a private coin."
    ),
    Key(
        "missing",
        "a value of the metric",
        "none",
        "What a device reports when nothing was recorded. Without it the device sends nothing, which others can see.",
    ),
    Key("memoize", "false", "false", "Permanent randomization, against averaging over time. Not supported yet."),
    Key(
        "mechanism",
        'a name such as "laplace", or a table such as { name = "laplace", steps = 64 }',
        "the lowest variance that fits `report_bytes`; `rr` for two values",
        "The local randomizer, with its own options.",
    ),
    Key(
        "report_bytes",
        "a whole number from 1 to 1,048,576",
        "32; no limit if `mechanism` is set",
        "Longest payload that a report may have.",
    ),
    Key(
        "min_batch",
        "a whole number from 2 to 1,000,000",
        "computed from `release`",
        "Fewest reports that a release may have.",
    ),
    Key(
        "enabled",
        "true or false",
        "true",
        "Whether devices report it. To switch a metric off at once, there is `hubbub codebook off`.",
    ),
    Key("description", "text in quotes", "none", "What is measured and why, for the person whose device it is."),
    Key("owner", "text in quotes, such as an address", "none", "Who answers for this metric."),
    Key("expires", "a date without quotes, such as 2027-06-30", "none", "When to remove or renew the metric."),
    Key(
        "public",
        "true or false",
        "false",
        "Whether the aggregator shows all that is released under this name to everyone, without a token, at "
        "`/public/NAME`. Not part of the id, and ignored by devices.",
    ),
)
"""The keys that metrics of every type may have. Each type adds its own."""


def metric_keys() -> tuple[Key, ...]:
    """Every key that a metric of any type may have. The types' own keys come after `type` and `epsilon`."""
    own = {key.name: key for name in names() for key in metric_type(name).keys}
    return (*METRIC[:2], *own.values(), *METRIC[2:])
