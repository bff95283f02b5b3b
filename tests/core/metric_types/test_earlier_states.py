"""Reducer states of the first releases: a device goes on with them, byte for byte."""

from __future__ import annotations

import json

import pytest

from hubbub.codebook import Codebook
from hubbub.reduce import REDUCERS, State, Value
from hubbub.simulation import InsecureRandomness
from tests.core.codebook.test_ids import VECTORS

KEPT: list[tuple[str, str, Value, str]] = [
    ("first", '{"count":1,"value":"light"}', "dark", '{"count":2,"value":"light"}'),
    ("last", '{"count":3,"value":true}', False, '{"count":4,"value":false}'),
    ("sum", '{"count":2,"value":40.5}', 1.5, '{"count":3,"value":42.0}'),
    ("max", '{"count":2,"value":7.0}', 3.0, '{"count":3,"value":7.0}'),
    ("max", '{"count":1,"value":false}', True, '{"count":2,"value":true}'),
    ("mean", '{"count":1,"value":10.0}', 20.0, '{"count":2,"value":15.0}'),
    ("reservoir", '{"count":4,"value":"dark"}', "dark", '{"count":5,"value":"dark"}'),
]
"""Reducer, the text in the state file, a value that is recorded now, and the text after it."""


@pytest.mark.parametrize(("reduce", "kept", "value", "after"), KEPT)
def test_a_kept_state_is_gone_on_with(reduce: str, kept: str, value: Value, after: str) -> None:
    state: State = json.loads(kept)
    more = REDUCERS[reduce].add(state, value, InsecureRandomness(1))
    assert json.dumps(more, separators=(",", ":")) == after
    assert REDUCERS[reduce].result(more) == json.loads(after)["value"]


def test_every_metric_of_the_vectors_takes_what_was_kept_for_it() -> None:
    """A kept value is not checked again before it is randomized, so every type must still take it."""
    examples: dict[str, Value] = {"boolean": True, "category": "dark", "mean": 12.5}
    for metric in Codebook.from_compiled(VECTORS[0]["compiled"].encode()).metrics:
        kept = examples[metric.type]
        assert metric.recorded(kept) == kept
        metric.input_of(kept)
