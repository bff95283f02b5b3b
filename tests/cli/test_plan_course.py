"""The course of `hubbub plan`: until when a codebook with a cap over time collects, and from when there is room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from hubbub_cli.commands.plan import plan
from tests.support.codebooks import dark_mode, photo_app

METRIC = dark_mode(1.0, min_batch=300, missing=False)


def planned(folder: Path, *options: str, **collection: Any) -> str:
    file = folder / "metrics.toml"
    file.write_text(photo_app(METRIC, delta=1e-6, **collection))
    result = CliRunner().invoke(plan, [str(file), "--devices", "5000", *options])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_the_plan_says_when_collection_stops_and_when_there_is_room(tmp_path: Path) -> None:
    said = planned(tmp_path, total={"epsilon": 0.5, "delta": 1e-6, "over": "6d"})
    assert "total of epsilon 0.5 at delta 1e-06 over 6d" in said
    assert "collection stops after 3 periods" in said
    assert "room again 6 periods after the first" in said
    assert "it always fits" in planned(tmp_path, total={"epsilon": 2.0, "delta": 1e-6, "over": "6d"})
    assert "cannot be published" in planned(tmp_path, total={"epsilon": 0.01, "delta": 1e-6, "over": "6d"})


def test_the_course_in_json(tmp_path: Path) -> None:
    found = json.loads(planned(tmp_path, "--json", total={"epsilon": 0.5, "delta": 1e-6, "over": "6d"}))["total"]
    assert (found["window"], found["collects_for"], found["renews_after"]) == (6, 3, 6)
    assert [point["periods"] for point in found["course"]] == [1, 3]
    assert found["course"][-1]["epsilon"] <= 0.5
    assert json.loads(planned(tmp_path, "--json"))["total"] is None
