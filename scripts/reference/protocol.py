"""Tables of docs/reference/protocol.md: constants, parameters, reducers, suites, refusals, media types and vectors.

Unlike the other tables, these stand in the page as it is committed: who writes a device may have nothing but the page.
`python -m scripts.make_protocol_tables` writes them, and a test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

from hubbub.bundle_body import SUITE
from hubbub.mechanisms import Mechanism, registered
from hubbub.metric_types import registered as registered_types
from hubbub.reduce import REDUCERS
from hubbub.refusals import REFUSALS
from hubbub.wire import BATCH_TYPE, REPORTS_TYPE
from hubbub_client import Client
from hubbub_client._sending.backoff import Pace
from hubbub_shuffler.app import BUNDLE_TYPE
from hubbub_shuffler.settings import Settings
from scripts.reference.markdown import code, table

__all__ = ["PAGE", "ROOT", "TABLES", "as_it_should_be"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "protocol.md"
VECTORS = ROOT / "tests" / "vectors" / "v1"
_TABLE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

CONSTANTS = (
    # name in the code, what it is
    ("hubbub.canonical:LARGEST_INTEGER", "largest integer in JSON, 2^53 − 1"),
    ("hubbub.canonical:DEEPEST_NESTING", "most levels of arrays and objects in JSON"),
    ("hubbub.bundle:LARGEST_BUNDLE", "most bytes of an envelope, and of any answer"),
    ("hubbub.bundle:_FIRST_LINE", "first line of the envelope"),
    ("hubbub.bundle:_LABEL", "what is signed begins with this"),
    ("hubbub.bundle_body:FORMAT", "`format` of the body"),
    ("hubbub.codebook._codebook:FORMAT", "`format` of a codebook"),
    ("hubbub.codebook._metric:ID_BYTES", "bytes of the id of a metric or codebook"),
    ("hubbub_client._codebooks.bundle_fetch_and_cache:BUNDLE_PATH", "route of the bundle"),
    ("hubbub_client._codebooks.bundle_fetch_and_cache:_LONGEST_SPREAD", "milliseconds: longest spread of a fetch"),
    ("hubbub.period:LONGEST_DURATION", "seconds: longest period, grace or horizon (520 weeks)"),
    ("hubbub.period:_MONDAY_BEFORE_EPOCH", "origin of calendars of whole weeks"),
    ("hubbub.period:_END_OF_TIME", "the year 10000"),
    ("hubbub.period:LARGEST_INDEX", "largest index of a period"),
    ("hubbub.metric_types._exact_numbers:_MOST_DIGITS", "most significant digits of decimal text"),
    ("hubbub.metric_types._exact_numbers:_LARGEST_EXPONENT", "largest power of ten of decimal text, either way"),
    ("hubbub.metric_types._exact_numbers:_LONGEST_UNIT", "most characters of a unit"),
    ("hubbub.metric_types.category:LONGEST_LABEL", "most characters of a value of a category"),
    ("hubbub.mechanisms.domains:LARGEST_DOMAIN", "most values of a category"),
    ("hubbub.codebook._read:LARGEST_BATCH", "largest `min_batch`"),
    ("hubbub.mechanisms._exact_arithmetic:SMALLEST_EPSILON", "smallest epsilon of a metric"),
    ("hubbub.mechanisms._exact_arithmetic:LARGEST_EPSILON", "largest epsilon of a metric"),
    ("hubbub.randomness:WORD", "W: what thresholds are out of, 2^64"),
    ("hubbub.mechanisms.matrix:LARGEST", "most values of a matrix"),
    ("hubbub.mechanisms.linear_hash:MOST_BITS", "largest `bits` of `linear-hash`"),
    ("hubbub.mechanisms.laplace:CLAMPED", "c: the least reach of `laplace` is ceil(c·scale / rate)"),
    ("hubbub.mechanisms._grid_mean:FINEST_GRID", "largest `steps`"),
    ("hubbub.mechanisms._grid_mean:MOST_SYMBOLS", "most symbols of `table`, `piecewise`, `hybrid`"),
    ("hubbub.mechanisms._grid_mean:LARGEST_TOTAL", "largest sum of a row of their weights, 2^63"),
    ("hubbub.mechanisms.table:LARGEST_MOMENT", "largest moment of a column, either way"),
    ("hubbub.mechanisms.domains:MOST_BINS", "most bins of a distribution"),
    ("hubbub.mechanisms._mixture:MOST_COMPONENTS", "most components of `ladder` and `tree`"),
    ("hubbub.mechanisms._mixture:WHOLE", "what the weights of components sum to"),
    ("hubbub.mechanisms._mixture:LARGEST_TOTAL", "largest near·high + far·low of a component, 2^63"),
    ("hubbub.reduce:MOST_REMEMBERED", "values that `median` and `most_common` remember"),
    ("hubbub_client._recording.in_memory_queue:MOST_VALUES", "values that wait in memory"),
    ("hubbub_client._codebooks.in_force:PERIODS_TO_CATCH_UP", "ended periods that are still pinned"),
    ("hubbub_client._codebooks.period_codebook_pins:_KEPT", "seconds: a pin is kept after its period closes"),
    ("hubbub_client._budget.ledger:_KEPT", "seconds: a decision is kept as it was taken"),
    ("hubbub_client._budget.ledger:_LONGEST_GAP", "seconds: a closed span covers less than this without decisions"),
    ("hubbub_client._sending.cycle:TICK", "seconds: longest time between two cycles of a timer"),
    ("hubbub_client.client:_FIRST_CYCLE_AFTER", "seconds from the start to the first cycle"),
    ("hubbub_client._state.confirm_elapsed:SECOND_LOOK", "seconds between two looks before anything is deleted"),
    ("hubbub.wire:VERSION", "first byte of a report"),
    ("hubbub.wire:REPORT_HEADER_BYTES", "bytes of a report before its sealed part"),
    ("hubbub.wire:NONCE_BYTES", "bytes of a nonce"),
    ("hubbub.wire:SEALING_OVERHEAD", "bytes that sealing adds: enc (32) and tag (16)"),
    ("hubbub.sealing:_LABEL", "`info` of HPKE begins with this"),
    ("hubbub_client._sending.upload:REPORTS_PATH", "route of uploads"),
    ("hubbub_client._sending.seal_and_send:MOST_REPORTS", "most reports of an upload that a device sends"),
    ("hubbub_client._sending.seal_and_send:MOST_BYTES", "most bytes of one"),
    ("hubbub_client._sending.outbox:MOST_REPORTS", "most reports in the outbox, per lane"),
    ("hubbub_client._sending.outbox:MOST_BYTES", "most bytes, as they are counted, per lane"),
    ("hubbub_client._sending.upload:_LONGEST_DOCUMENT", "most bytes of a JSON answer that are read"),
    ("hubbub_client._sending.upload:LONGEST_RETRY_AFTER", "seconds: a longer `Retry-After` is cut to this"),
    ("hubbub_client._sending.cool_down:_LONGEST", "seconds: longest backoff of the timer"),
)

_VECTORS = {
    "answers.json": "status, headers and body of an answer, and the verdict on each report",
    "bundle.json": "envelopes, with what they say, or the error that refuses them",
    "canonical.json": "documents and their canonical bytes, and texts that are refused",
    "claims.json": "mechanisms with integers and an epsilon, and whether the claim holds",
    "codebook.json": "codebooks as TOML and compiled, and their ids",
    "draws.json": "for each draw, a byte stream and what it gives",
    "hpke.json": "sealed reports that must open, that must not, and their exact bytes",
    "ledger.json": "traces of clock, codebook, record, consent and restart, and what is decided, spent and sent",
    "periods.json": "times and lengths, and the period that holds them",
    "randomizer.json": "for each mechanism, a byte stream, the payload that it leads to, and how many bytes it takes",
    "received.json": "compiled codebooks that are refused, whole or one metric alone, and notes that are ignored",
    "reducers.json": "sequences of values, and the state after each",
    "refusals.json": "name, status and action of each refusal",
    "wire.json": "reports, plaintexts, uploads and batches, and malformed ones",
}


def constants() -> str:
    """Every number of the protocol, from where it is defined."""
    rows = [(meaning, _shown(getattr(import_module(module), name))) for module, name, meaning in _named()]
    given = inspect.signature(Client).parameters
    pace, shuffler = Pace(), Settings.model_fields
    rows += [
        ("seconds: limit of the first backoff, doubled with each failure", _shown(pace.first)),
        ("seconds: longest backoff of `flush`", _shown(pace.longest)),
        ("`max_epsilon` of a device, unless it says otherwise", _shown(given["max_epsilon"].default)),
        ("`min_period` of a device, unless it says otherwise", _shown(given["min_period"].default)),
        ("bytes of an upload that a shuffler takes, by default", _shown(shuffler["max_body"].default)),
        ("reports of an upload that a shuffler takes, by default", _shown(shuffler["max_reports"].default)),
        ("seconds that a device's clock may be ahead, by default", _shown(shuffler["skew"].default)),
    ]
    return table(["constant", "value"], rows)


def _named() -> list[tuple[str, str, str]]:
    return [(*where.split(":"), meaning) for where, meaning in CONSTANTS]  # type: ignore[misc]  # each has one colon


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        text = value.decode("ascii")
        return code(text.rstrip("\0")) + " then a zero byte" * text.endswith("\0")
    if isinstance(value, Fraction) and value.denominator > 1:
        return f"{value.numerator:,} / {value.denominator:,}"
    if isinstance(value, int | float | Fraction):
        return f"{float(value):g}" if isinstance(value, float) else f"{int(value):,}"
    return code(value)


def parameters() -> str:
    """The members of `parameters` of each mechanism, and how each is written."""
    return table(
        ["mechanism", "text", "number", "list"],
        [(code(name), *map(", ".join, _written(_example(cls)))) for name, cls in registered().items()],
    )


def _written(mechanism: Mechanism[Any]) -> list[list[str]]:
    members = mechanism.parameters().items()
    return [[code(name) for name, value in members if isinstance(value, kind)] for kind in (str, int, list)]


def _example(cls: type[Mechanism[Any]]) -> Mechanism[Any]:
    return cls.examples(1.0)[0]


def reducers() -> str:
    """Which reducers fit which type."""
    types = registered_types()
    return table(
        ["reducer", *map(code, types)],
        [
            (
                code(name),
                *("by default" if name == t.reducers[0] else "yes" * (name in t.reducers) for t in types.values()),
            )
            for name in REDUCERS
        ],
    )


def suites() -> str:
    """The suites that this version knows."""
    return table(
        ["`suite`", "KEM", "KDF", "AEAD", "public key"],
        [
            (
                code(SUITE),
                "DHKEM(X25519, HKDF-SHA256), 0x0020",
                "HKDF-SHA256, 0x0001",
                "AES-128-GCM, 0x0001",
                "32 bytes",
            )
        ],
    )


def refusals() -> str:
    """Every refusal, and what the sender does."""
    return table(
        ["name", "status", "verdict", "meaning"],
        [(f"[`{r.name}`](problems.md#{r.name})", str(r.status), r.action.value, r.title) for r in REFUSALS.values()],
    )


def media_types() -> str:
    """The names of what travels."""
    return table(
        ["media type", "what"],
        [
            (code(BUNDLE_TYPE), "the envelope, in an answer to `GET /v1/bundle`"),
            (code(REPORTS_TYPE), "an upload of `POST /v1/reports`"),
            (code(BATCH_TYPE), "a batch, from shuffler to aggregator; no device sees one"),
            ("`application/json`", "the failures of an upload"),
            ("`application/problem+json`", "a refusal (RFC 9457)"),
        ],
    )


def vectors() -> str:
    """The files of vectors, with what is in each."""
    return table(
        ["file", "holds"],
        [(f"[`{path.name}`](../../tests/vectors/v1/{path.name})", _VECTORS[path.name]) for path in _files()],
    )


def _files() -> list[Path]:
    return sorted(VECTORS.glob("*.json"))


TABLES: dict[str, Callable[[], str]] = {
    "constants": constants,
    "media-types": media_types,
    "parameters": parameters,
    "reducers": reducers,
    "refusals": refusals,
    "suites": suites,
    "vectors": vectors,
}


def as_it_should_be(text: str) -> str:
    """The page with every table as the code has it now. KeyError for a table that nobody makes."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", text)
