"""Ids of codebooks and metrics: fixed by what a report means, and by nothing else."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.canonical import LARGEST_INTEGER, canonical_bytes, digest, read_json
from hubbub.codebook import Codebook
from hubbub.errors import CodebookError
from tests.support.paths import ROOT

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "tests" / "vectors" / "v1" / "codebook.json").read_bytes())
EXAMPLE = ROOT / "examples" / "metrics.toml"
FULL = VECTORS[0]["toml"]
NAMES = [
    "every-type",
    "smallest",
    "matrix",
    "unit",
    "mechanisms",
    "characters",
    "numbers",
    "reducers",
    "total",
    "distributions",
]


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_the_ids_of_version_1_never_change(vector: dict[str, Any]) -> None:
    codebook = Codebook.from_toml(vector["toml"])

    assert codebook.to_bytes().decode() == vector["compiled"]
    assert codebook.id.hex() == vector["codebook_id"]
    assert [m.id.hex() for m in codebook.metrics] == [m["id"] for m in vector["metrics"]]


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_an_id_is_sixteen_bytes_of_the_hash_of_a_label_and_the_identity(vector: dict[str, Any]) -> None:
    """With hashlib alone: what another implementation has to do."""
    for metric in vector["metrics"]:
        hashed = hashlib.sha256(b"hubbub-01 metric\0" + metric["identity"].encode("ascii")).hexdigest()
        assert metric["id"] == hashed[:32]


def test_a_unit_is_compiled_and_is_no_part_of_an_id() -> None:
    vector = VECTORS[NAMES.index("unit")]
    assert '"unit":"ms"' in vector["compiled"]
    assert "unit" not in json.loads(vector["metrics"][0]["identity"])


def recompiled(python: str, **environment: str) -> list[str]:
    """The compiled vectors as another interpreter makes them, from the core alone.

    Reading a matrix from TOML needs numpy, which the other one may lack: that vector is rebuilt only.
    """
    code = (
        "import json,sys; from hubbub.codebook import Codebook;"
        "compiled = [Codebook.from_compiled(v['compiled'].encode()) if 'matrix =' in v['toml']"
        " else Codebook.from_toml(v['toml']) for v in json.load(sys.stdin)];"
        "print(json.dumps([codebook.to_bytes().decode() for codebook in compiled]))"
    )
    printed = subprocess.run(
        [python, "-c", code],
        input=json.dumps(VECTORS),
        env={"PYTHONPATH": str(ROOT / "core"), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return cast("list[str]", json.loads(printed))


@pytest.mark.everyday("4711")
@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_ids_do_not_depend_on_the_hash_seed(seed: str) -> None:
    assert recompiled(sys.executable, PYTHONHASHSEED=seed) == [vector["compiled"] for vector in VECTORS]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_ids_do_not_depend_on_the_version_of_python(version: str) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"python{version} is not installed here")

    assert recompiled(python, PATH=os.environ["PATH"]) == [vector["compiled"] for vector in VECTORS]


@given(st.integers(0, 2**32))
def test_ids_do_not_depend_on_the_order_of_tables_and_keys(seed: int) -> None:
    rng = random.Random(seed)
    tables = [block.split("\n") for block in FULL.strip().split("\n\n")]
    for table in tables:
        table[1:] = rng.sample(table[1:], len(table) - 1)
    rng.shuffle(tables)

    shuffled = Codebook.from_toml("\n".join(line for table in tables for line in table))

    assert shuffled.to_bytes().decode() == VECTORS[0]["compiled"]


@given(st.integers(0, 2**32))
def test_a_compiled_codebook_is_rebuilt_from_any_order_of_its_members(seed: int) -> None:
    rng = random.Random(seed)

    def shuffled(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: shuffled(node[key]) for key in rng.sample(sorted(node), len(node))}
        return node

    document = shuffled(json.loads(VECTORS[0]["compiled"]))
    document["metrics"] = [shuffled(metric) for metric in document["metrics"]]

    assert Codebook.from_compiled(document).to_bytes().decode() == VECTORS[0]["compiled"]


@pytest.mark.parametrize(("written", "same"), [("0.3", "0.30"), ("0.3", "3e-1"), ("1", "1.0"), ("0.30", "0.300")])
def test_one_number_has_one_id_however_it_is_written(written: str, same: str) -> None:
    one, other = (Codebook.from_toml(FULL.replace("share = 0.3", f"share = {text}")) for text in (written, same))

    assert one == other


def test_a_composed_and_a_decomposed_letter_are_one_value() -> None:
    decomposed = FULL.replace("sépia", "se\u0301pia")

    assert decomposed != FULL
    assert Codebook.from_toml(decomposed).id == Codebook.from_toml(FULL).id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('owner = "ui-team@example.com"', 'owner = "someone@example.com"'),
        ('description = "Whether the dark theme is on"', 'description = "Dark?"'),
        ("expires = 2027-06-30", "expires = 2028-06-30"),
        ("expires = 2027-06-30", "expires = 2027-06-30\npublic = true"),
        ("min_batch = 1000", "min_batch = 2000"),
        ("enabled = false", "enabled = true"),
        ("device_epsilon = 6.5", "device_epsilon = 7"),
        ("delta = 1e-8", "delta = 1e-9"),
        ('period = "1d"', 'period = "1d"\ngrace = "6h"\nforward_horizon = "3d"\nhonest_fraction = 0.5'),
    ],
)
def test_an_edit_that_leaves_reports_their_meaning_leaves_every_metric_its_id(old: str, new: str) -> None:
    before, after = Codebook.from_toml(FULL), Codebook.from_toml(FULL.replace(old, new))

    assert [m.id for m in before.metrics] == [m.id for m in after.metrics]
    assert before.id != after.id


def test_what_is_not_public_is_written_as_before_and_what_is_is_a_note_that_devices_ignore() -> None:
    private = Codebook.from_toml(FULL)
    public = Codebook.from_toml(FULL.replace("expires = 2027-06-30", "expires = 2027-06-30\npublic = true"))
    assert Codebook.from_toml(FULL.replace("expires = 2027-06-30", "expires = 2027-06-30\npublic = false")) == private
    assert b"public" not in private.to_bytes()
    compiled = json.loads(public.to_bytes())
    (noted,) = [metric for metric in compiled["metrics"] if "notes" in metric]
    assert noted["notes"] == {"public": True}
    read = Codebook.from_compiled(public.to_bytes())
    assert [metric.name for metric in read.metrics if metric.public] == [noted["name"]]
    noted["notes"] = {"public": "yes"}  # anything else that stands there makes nothing public
    content = {name: value for name, value in compiled.items() if name != "id"}
    unclear = {**content, "id": digest("hubbub-01 codebook", content)[:16].hex()}
    assert not any(metric.public for metric in Codebook.from_compiled(unclear).metrics)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ('name = "photo-app"', 'name = "photo-ap"', 5),
        ('period = "1d"', 'period = "12h"', 5),
        ("[metrics.theme]", "[metrics.themes]", 1),
        ("epsilon = 2.0", "epsilon = 1.9", 1),
        ('"light", "dark"', '"dark", "light"', 1),
        ('other = "other"', 'other = "dark"', 1),
        ('missing = "light"', 'missing = "dark"', 1),
        ('missing = "light"', "", 1),
        ("bounds = [0, 5000]", "bounds = [0, 5001]", 1),
        ("share = 0.3", "share = 0.31", 1),
        ('reduce = "max"', 'reduce = "last"', 1),
        ('mechanism = { name = "laplace", steps = 16 }', 'mechanism = "duchi"', 1),
        ('mechanism = { name = "laplace", steps = 16 }', 'mechanism = { name = "laplace", steps = 64 }', 1),
    ],
)
def test_an_edit_of_what_a_report_means_makes_a_new_id(old: str, new: str, changed: int) -> None:
    assert old in FULL
    before, after = Codebook.from_toml(FULL), Codebook.from_toml(FULL.replace(old, new))

    assert len({m.id for m in after.metrics} - {m.id for m in before.metrics}) == changed


def test_an_edit_of_a_matrix_makes_a_new_id() -> None:
    edited = VECTORS[2]["toml"].replace("[[0.7, 0.4], [0.3, 0.6]]", "[[0.7, 0.41], [0.3, 0.59]]")

    assert Codebook.from_toml(edited).metric("asked").id.hex() != VECTORS[2]["metrics"][0]["id"]


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every scalar in a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else []
    return [found for key, item in items for found in leaves(item, (*path, key))] or [path]


@pytest.mark.everyday("metrics.0.*", "collection.*")
@pytest.mark.parametrize("path", leaves(json.loads(VECTORS[0]["compiled"])), ids=lambda p: ".".join(map(str, p)))
def test_a_compiled_codebook_with_any_member_changed_is_refused(path: tuple[Any, ...]) -> None:
    others: list[Any] = ["0", "tampered", 3, 86_400, True, None, [], {}]
    for new in others:
        document = json.loads(VECTORS[0]["compiled"])
        node = document
        for key in path[:-1]:
            node = node[key]
        if node[path[-1]] == new and type(node[path[-1]]) is type(new):
            continue
        node[path[-1]] = new
        with pytest.raises(CodebookError):
            Codebook.from_compiled(document)


@pytest.mark.parametrize("path", leaves(json.loads(VECTORS[1]["compiled"])), ids=lambda p: ".".join(map(str, p)))
def test_a_compiled_codebook_with_a_member_missing_is_refused(path: tuple[Any, ...]) -> None:
    document = json.loads(VECTORS[1]["compiled"])
    node = document
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]

    with pytest.raises(CodebookError):
        Codebook.from_compiled(document)


def test_a_compiled_codebook_with_a_member_added_is_refused() -> None:
    for path in [
        (),
        ("collection",),
        ("metrics", 0),
        ("metrics", 0, "mechanism"),
        ("metrics", 0, "mechanism", "parameters"),
    ]:
        document = json.loads(VECTORS[0]["compiled"])
        node = document
        for key in path:
            node = node[key]
        node["extra"] = 1
        with pytest.raises(CodebookError):
            Codebook.from_compiled(document)


def test_a_device_refuses_parameters_that_break_the_stated_epsilon_even_under_a_fitting_id() -> None:
    """An aggregator that lies about epsilon can compute ids; from_parameters is what stops it."""
    document = json.loads(VECTORS[1]["compiled"])
    document["metrics"][0]["mechanism"]["parameters"]["keep"] = str(2**64 - 1)
    identity = {
        k: v for k, v in document["metrics"][0].items() if k in json.loads(VECTORS[1]["metrics"][0]["identity"])
    }
    identity |= {"collection": "a", "period": 7 * 86_400}
    document["metrics"][0]["id"] = digest("hubbub-01 metric", identity)[:16].hex()
    content = {key: value for key, value in document.items() if key != "id"}
    document["id"] = digest("hubbub-01 codebook", content)[:16].hex()

    with pytest.raises(CodebookError, match="realise epsilon"):
        Codebook.from_compiled(document)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b"null", b"\xff", b'{"format":1,"format":1}', b'{"format":1.5}', b"[" * 10**5]
)
def test_bytes_that_are_no_compiled_codebook_are_refused(raw: bytes) -> None:
    with pytest.raises(CodebookError, match="compile"):
        Codebook.from_compiled(raw)


def test_the_example_survives_compiling_and_rebuilding() -> None:
    codebook = Codebook.load(EXAMPLE)

    assert Codebook.from_compiled(codebook.to_bytes()) == codebook
    assert Codebook.from_compiled(copy.deepcopy(codebook.compiled())) == codebook


def test_a_device_rebuilds_a_codebook_without_numpy() -> None:
    code = (
        "import sys; from hubbub.codebook import Codebook;"
        "c = Codebook.from_compiled(sys.stdin.buffer.read()); print(c.id.hex(), *sys.modules)"
    )
    for vector in VECTORS:
        raw = vector["compiled"].encode()
        done = subprocess.run([sys.executable, "-c", code], input=raw, capture_output=True, check=True)
        printed = done.stdout.decode().split()

        assert printed[0] == vector["codebook_id"]
        assert not {"numpy", "scipy", "pydantic", "click"} & set(printed)


# -- canonical JSON -------------------------------------------------------------------------------

documents = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(documents)
def test_canonical_bytes_are_ascii_and_read_back(document: Any) -> None:
    raw = canonical_bytes(document)

    assert raw.isascii()
    assert read_json(raw) == document
    assert canonical_bytes(read_json(raw)) == raw


@pytest.mark.parametrize("document", [1.5, {"a": [1.0]}, 2**53, -(2**53), {1: 2}, b"x", {"a": {1, 2}}])
def test_what_two_languages_could_read_differently_has_no_canonical_form(document: Any) -> None:
    with pytest.raises(ValueError, match=r"canonical|string"):
        canonical_bytes(document)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":1}',
        b"1.0",
        b"1e3",
        b"NaN",
        b"-Infinity",
        b"9007199254740992",
        b'"\xc3\xbc"',
        b"1 2",
        b'["\\ud800"]',
        b'{"\\udfff":1}',
        b"[" * 65 + b"]" * 65,
        b'{"a":' * 65 + b"1" + b"}" * 65,
    ],
)
def test_json_that_two_readers_could_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_json(raw)


def test_a_document_may_have_64_levels() -> None:
    """The limit is a number, so that no parser's own limit decides."""
    deepest = b'{"a":[' * 32 + b"0" + b"]}" * 32

    assert canonical_bytes(read_json(deepest)) == deepest
    with pytest.raises(ValueError, match="nested too deeply"):
        canonical_bytes([read_json(deepest)])


def test_a_codebook_that_is_too_deep_for_a_bundle_is_refused() -> None:
    """Not only when it is signed: an aggregator would keep it, and could sign no bundle any more."""

    def noted(levels: int) -> dict[str, Any]:
        return renewed(lambda d: d.update(notes={"a": json.loads("[" * levels + "]" * levels)}))

    deepest = canonical_bytes(noted(59))

    assert canonical_bytes({"codebooks": [{"codebook": Codebook.from_compiled(deepest).compiled()}]})
    with pytest.raises(CodebookError, match="nested too deeply"):
        Codebook.from_compiled(canonical_bytes(noted(60)))


def test_equal_documents_of_two_kinds_have_two_hashes() -> None:
    assert digest("a", {}) != digest("b", {})


def renewed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first vector after a change, under the id that its author would compute for it."""
    document = json.loads(VECTORS[0]["compiled"])
    change(document)
    content = {name: member for name, member in document.items() if name != "id"}
    return {**content, "id": digest("hubbub-01 codebook", content)[:16].hex()}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: d["metrics"][1].update(of_a_later_version=1), id="member"),
        pytest.param(lambda d: d["metrics"][1].update(type="of a later version"), id="type"),
        pytest.param(lambda d: d["metrics"][1]["mechanism"].update(name="of a later version"), id="mechanism"),
        pytest.param(lambda d: d["metrics"][1].update(reduce="of a later version"), id="reducer"),
        pytest.param(lambda d: d["metrics"][1].update(epsilon="2"), id="epsilon"),
        pytest.param(lambda d: d["metrics"][1].update(id="00" * 16), id="id"),
        pytest.param(lambda d: d["metrics"][1].update(notes="text"), id="notes"),
    ],
)
def test_a_device_refuses_a_metric_that_it_does_not_understand_and_no_other(
    change: Callable[[dict[str, Any]], object],
) -> None:
    document = renewed(change)
    received, whole = Codebook.received(document), Codebook.from_compiled(json.loads(VECTORS[0]["compiled"]))

    refused = whole.metrics[1]
    assert list(received.refused) == [refused.name]
    assert received.metrics == tuple(metric for metric in whole.metrics if metric is not refused)
    assert received.to_bytes() == canonical_bytes(document)
    with pytest.raises(CodebookError):
        Codebook.from_compiled(document)


@pytest.mark.parametrize("path", [(), ("collection",), ("metrics", 0)], ids=["codebook", "collection", "metric"])
def test_what_later_versions_note_may_be_ignored_and_is_kept_as_it_came(path: tuple[Any, ...]) -> None:
    def note(document: dict[str, Any]) -> None:
        node: Any = document
        for key in path:
            node = node[key]
        node["notes"] = {"colour": ["red", 7]}

    document, whole = renewed(note), Codebook.from_compiled(json.loads(VECTORS[0]["compiled"]))
    received = Codebook.from_compiled(document)

    assert (received.collection, received.metrics) == (whole.collection, whole.metrics)
    assert received.to_bytes() == canonical_bytes(document)
    assert received.id.hex() == document["id"] != whole.id.hex()


@pytest.mark.parametrize("place", ["", "collection"])
def test_a_device_refuses_a_codebook_that_says_more_of_all_metrics_than_it_understands(place: str) -> None:
    document = renewed(lambda d: (d[place] if place else d).update(of_a_later_version=1))

    with pytest.raises(CodebookError):
        Codebook.received(document)


def test_a_delay_is_no_part_of_a_metric_s_id_and_left_out_where_it_is_not_stated() -> None:
    toml = VECTORS[1]["toml"]
    stated = Codebook.from_toml(toml.replace('grace = "6h"', 'grace = "6h"\ndelay = "10m"'))
    usual = Codebook.from_toml(toml)

    assert (usual.collection.longest_delay, stated.collection.longest_delay) == (3 * 3_600_000, 600_000)
    assert [m.id for m in stated.metrics] == [m.id for m in usual.metrics]
    assert '"delay":600' in stated.to_bytes().decode()
    assert "delay" not in usual.to_bytes().decode()
    assert Codebook.from_compiled(stated.to_bytes()) == stated
    with pytest.raises(CodebookError, match="half the grace"):
        Codebook.from_toml(toml.replace('grace = "6h"', 'grace = "6h"\ndelay = "181m"'))
