"""Constants and words that the TypeScript SDK shares with the Python code: python -m scripts.make_typescript

Writes the modules of client_sdk/typescript/src/generated, so that no number and no name is written twice. A test
compares them with the code.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

from hubbub import __version__
from hubbub.bundle_body import SUITE
from hubbub.metric_types import registered as registered_types
from hubbub.refusals import REFUSALS, Action
from hubbub.wire import REPORTS_TYPE
from hubbub_client import Client, Outcome
from hubbub_client._budget.account_statement import _IN_WORDS
from hubbub_client._budget.ledger import Decision
from hubbub_client._development_notices import BY_COUNT
from hubbub_client._display.phrases import PHRASES
from hubbub_client._sending.backoff import Pace

__all__ = ["FOLDER", "modules"]

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "client_sdk" / "typescript" / "src" / "generated"
_HEAD = "// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.\n"

# name in TypeScript, where it is defined in Python; bigint: an operand of exact integers
_LIMITS = (
    ("LARGEST_INTEGER", "hubbub.canonical:LARGEST_INTEGER", ""),
    ("MOST_LEVELS", "hubbub.canonical:DEEPEST_NESTING", ""),
    ("MOST_DIGITS", "hubbub.metric_types._exact_numbers:_MOST_DIGITS", ""),
    ("MOST_POWER", "hubbub.metric_types._exact_numbers:_LARGEST_EXPONENT", ""),
    ("LARGEST_ENVELOPE", "hubbub.bundle:LARGEST_BUNDLE", ""),
    ("LABEL_BUNDLE", "hubbub.bundle:_LABEL", ""),
    ("BUNDLE_FORMAT", "hubbub.bundle_body:FORMAT", ""),
    ("CODEBOOK_FORMAT", "hubbub.codebook._codebook:FORMAT", ""),
    ("SPREAD", "hubbub_client._codebooks.bundle_fetch_and_cache:_LONGEST_SPREAD", ""),
    ("LONGEST", "hubbub.period:LONGEST_DURATION", ""),
    ("WEEK_ORIGIN", "hubbub.period:_MONDAY_BEFORE_EPOCH", ""),
    ("YEAR_10000", "hubbub.period:_END_OF_TIME", ""),
    ("LARGEST_PERIOD", "hubbub.period:LARGEST_INDEX", ""),
    ("LONGEST_UNIT", "hubbub.metric_types._exact_numbers:_LONGEST_UNIT", ""),
    ("MOST_VALUES", "hubbub.mechanisms.domains:LARGEST_DOMAIN", ""),
    ("MOST_MIN_BATCH", "hubbub.codebook._read:LARGEST_BATCH", ""),
    ("MOST_VALUES_OF_MATRIX", "hubbub.mechanisms.matrix:LARGEST", "bigint"),
    ("MOST_HASH_BITS", "hubbub.mechanisms.linear_hash:MOST_BITS", "bigint"),
    ("LAPLACE_REACH", "hubbub.mechanisms.laplace:CLAMPED", "bigint"),
    ("MOST_STEPS", "hubbub.mechanisms._grid_mean:FINEST_GRID", "bigint"),
    ("MOST_SYMBOLS", "hubbub.mechanisms._grid_mean:MOST_SYMBOLS", "bigint"),
    ("MOST_ROW", "hubbub.mechanisms._grid_mean:LARGEST_TOTAL", "bigint"),
    ("MOST_BINS", "hubbub.mechanisms.domains:MOST_BINS", "bigint"),
    ("MOST_COMPONENTS", "hubbub.mechanisms._mixture:MOST_COMPONENTS", ""),
    ("WHOLE", "hubbub.mechanisms._mixture:WHOLE", "bigint"),
    ("REMEMBERED", "hubbub.reduce:MOST_REMEMBERED", ""),
    ("PERIODS_TO_CATCH_UP", "hubbub_client._codebooks.in_force:PERIODS_TO_CATCH_UP", ""),
    ("PIN_KEPT", "hubbub_client._codebooks.period_codebook_pins:_KEPT", ""),
    ("DECISION_KEPT", "hubbub_client._budget.ledger:_KEPT", ""),
    ("LONGEST_GAP", "hubbub_client._budget.ledger:_LONGEST_GAP", ""),
    ("SECOND_LOOK", "hubbub_client._state.confirm_elapsed:SECOND_LOOK", ""),
    ("MOST_REPORTS_IN_OUTBOX", "hubbub_client._sending.outbox:MOST_REPORTS", ""),
    ("MOST_BYTES_IN_OUTBOX", "hubbub_client._sending.outbox:MOST_BYTES", ""),
    ("LONGEST_JSON", "hubbub_client._sending.upload:_LONGEST_DOCUMENT", ""),
    ("LONGEST_RETRY_AFTER", "hubbub_client._sending.upload:LONGEST_RETRY_AFTER", ""),
    ("LONGEST_PAUSE", "hubbub_client._sending.cool_down:_LONGEST", ""),
)

_UP_FRONT = (
    ("LONGEST_VALUE", "hubbub.metric_types.category:LONGEST_LABEL", ""),
    ("MOST_WAITING", "hubbub_client._recording.in_memory_queue:MOST_VALUES", ""),
    ("TICK", "hubbub_client._sending.cycle:TICK", ""),
    ("FIRST_CYCLE_AFTER", "hubbub_client.client:_FIRST_CYCLE_AFTER", ""),
)

_WIRE = (
    ("LABEL_REPORT", "hubbub.sealing:_LABEL", ""),
    ("BUNDLE_PATH", "hubbub_client._codebooks.bundle_fetch_and_cache:BUNDLE_PATH", ""),
    ("REPORTS_PATH", "hubbub_client._sending.upload:REPORTS_PATH", ""),
    ("NONCE_BYTES", "hubbub.wire:NONCE_BYTES", ""),
    ("MOST_REPORTS_OF_UPLOAD", "hubbub_client._sending.seal_and_send:MOST_REPORTS", ""),
    ("MOST_BYTES_OF_UPLOAD", "hubbub_client._sending.seal_and_send:MOST_BYTES", ""),
)


def _value(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)


def _literal(value: object, kind: str = "") -> str:
    """A constant as TypeScript writes it."""
    match value:
        case bytes():
            return json.dumps(value.decode("ascii"))
        case Fraction() if kind == "bigint" and value.denominator > 1:
            return f"[{value.numerator}n, {value.denominator}n] as const"
        case int() | Fraction() if kind == "bigint":
            return f"{int(value)}n"
        case float() if value == int(value):
            return str(int(value))
    return json.dumps(value)


def _label(module: str) -> str:
    """What the hash of an id begins with, which stands in the call that makes it."""
    (label,) = re.findall(r'digest\("([^"]+)"', inspect.getsource(import_module(module)))
    return json.dumps(label + "\0")


def _constants(rows: tuple[tuple[str, str, str], ...]) -> Iterator[str]:
    for name, where, kind in rows:
        yield f"export const {name} = {_literal(_value(where), kind)};"


def limits() -> str:
    """Every number that both SDKs go by."""
    given, pace = inspect.signature(Client).parameters, Pace()
    low, high = (
        Fraction(str(_value(f"hubbub.mechanisms._exact_arithmetic:{name}_EPSILON"))) for name in ("SMALLEST", "LARGEST")
    )
    pattern: str = _value("hubbub.metric_types._exact_numbers:_NOT_IN_A_UNIT").pattern
    return "\n".join(
        [
            *_constants(_LIMITS),
            f"export const LABEL_CODEBOOK = {_label('hubbub.codebook._codebook')};",
            f"export const LABEL_METRIC = {_label('hubbub.codebook._metric')};",
            f"export const BOUNDS_POWER = {len(str(_value('hubbub.mechanisms.domains:_LARGEST_SIZE'))) - 1}n;",
            f"export const VERSION = {json.dumps(__version__)};",
            f"export const EPSILON_RANGE = [[{low.numerator}n, {low.denominator}n], [{high.numerator}n, 1n]] as const;",
            # Python writes the end of Unicode; a regular expression over UTF-16 ends at 0xffff.
            f"export const NOT_IN_UNIT = /{pattern.replace('U0010ffff', 'uffff')}/;",
            f"export const FIRST_PAUSE = {_literal(pace.first)};",
            f"export const LONGEST_PAUSE_OF_FLUSH = {_literal(pace.longest)};",
            f"export const MAX_EPSILON = {_literal(given['max_epsilon'].default)};",
            f"export const MIN_PERIOD = {_literal(given['min_period'].default)};",
        ]
    )


def up_front() -> str:
    """The numbers that a page needs before it loads the engine: in a module of their own, since a build for browsers
    splits no module."""
    return "\n".join(_constants(_UP_FRONT))


def wire() -> str:
    """Labels, routes and sizes of what travels."""
    ids: bytes = _value("hubbub.sealing:_SUITE_IDS")
    return "\n".join(
        [
            *_constants(_WIRE),
            f"export const SUITE = {json.dumps(SUITE)};",
            f"export const SUITE_NUMBERS = {json.dumps(ids.hex())};",
            f"export const REPORTS_TYPE = {json.dumps(REPORTS_TYPE)};",
        ]
    )


def reducers() -> str:
    """The reducers of each metric type."""
    lines = [f"  {name}: {json.dumps(' '.join(kind.reducers))}," for name, kind in registered_types().items()]
    return "\n".join(["export const REDUCERS: Record<string, string> = {", *lines, "};"])


def refusals() -> str:
    """What a device does about each refusal. `retry` is what it does about an unknown name, too."""
    actions = {action: [r.name for r in REFUSALS.values() if r.action is action] for action in Action}
    lines = [f"  {json.dumps(action.value)}: {json.dumps(' '.join(names))}," for action, names in actions.items()]
    return "\n".join(
        [
            f"export const PROBLEM = {json.dumps(str(_value('hubbub.refusals:_URN')))};",
            'export type Action = "retry" | "split" | "fetch the bundle" | "drop";',
            "export const NAMES_BY_ACTION: Record<Action, string> = {",
            *lines,
            "};",
        ]
    )


def outcomes() -> str:
    """What `record` says, each with the sentence of the Python SDK."""
    source = dedent(inspect.getsource(Outcome))
    lines = []
    for outcome in Outcome:
        (sentence,) = re.findall(rf'{outcome.name} = "\w+"\n\s+"""(.*?)"""', source, re.DOTALL)
        lines.append(f"  /** {' '.join(sentence.split())} */\n  | {json.dumps(outcome.value)}")
    return "\n".join(["export type Outcome =", *lines, ";"])


def _of_options(text: str) -> str:
    """A sentence with the names that options have in TypeScript."""
    text = text.replace("codebook=", "codebook")
    return re.sub(r"\b(max|lifetime|min)_(epsilon|period)\b", lambda found: found[1] + found[2].capitalize(), text)


def words() -> str:
    """Sentences for people: what a counter means, what a decision was, and what previews and ledgers consist of."""
    notices = {name: _of_options(text) for name, text in BY_COUNT.items()}
    decisions = {decision.value: text for decision, text in _IN_WORDS.items() if decision is not Decision.IN_DOUBT}
    return "\n".join(
        [
            f"export const NOTICES: Record<string, string> = {json.dumps(notices, indent=2)};",
            f"export const DECISIONS: Record<string, string> = {json.dumps(decisions, indent=2)};",
            f"export const PHRASES = {json.dumps(PHRASES, indent=2, ensure_ascii=False)};",
        ]
    )


def modules() -> dict[Path, str]:
    """Each generated module, and what belongs into it."""
    makers = (limits, up_front, wire, reducers, refusals, outcomes, words)
    return {FOLDER / f"{make.__name__}.ts": f"{_HEAD}\n{make()}\n" for make in makers}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in modules().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
