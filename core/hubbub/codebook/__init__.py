"""Codebooks, read from metrics.toml: what is collected, decided before there is any data and reviewed like code.

    codebook = Codebook.load("metrics.toml")            # CodebookError carries every finding
    metric = codebook.metric("theme")
    metric.mechanism.randomize(metric.input_of("dark"), rng)
    Codebook.from_compiled(codebook.compiled())         # what a device does; privacy and ids are checked again

`lint` finds what is allowed but unwise. `diff` says what a change means.
"""

from hubbub.codebook._codebook import Codebook, is_compiled, read_file
from hubbub.codebook._diff import Change, Diff, MetricDiff, diff
from hubbub.codebook._lint import lint
from hubbub.codebook._metric import Collection, Metric
from hubbub.codebook._read import LARGEST_BATCH
from hubbub.codebook._toml_keys import COLLECTION, RELEASE, TOTAL, Key, metric_keys
from hubbub.codebook._total import Total
from hubbub.metric_types._exact_numbers import decimal_text

__all__ = [
    "COLLECTION",
    "LARGEST_BATCH",
    "RELEASE",
    "TOTAL",
    "Change",
    "Codebook",
    "Collection",
    "Diff",
    "Key",
    "Metric",
    "MetricDiff",
    "Total",
    "decimal_text",
    "diff",
    "is_compiled",
    "lint",
    "metric_keys",
    "read_file",
]
