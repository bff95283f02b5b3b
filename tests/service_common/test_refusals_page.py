"""docs/design/redis-client.md says of every refusal of a Redis what the client does then, and of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub_service_common.redis.refusals import RULES

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "redis-client.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("` "): (cells[1].strip(), cells[2].strip())
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(cells := line.strip("|").split("|")) == 3
}
SAYS = {
    "in-full": "sends the text",
    "elsewhere": "sends it there at once",
    "ask": "after `ASKING`",
    "later": "tries again after a pause",
    "fail": "`StorageError` at once",
}


def test_the_page_has_every_code_and_no_other() -> None:
    assert {name for name in ROWS if name.isupper()} == set(RULES)


@pytest.mark.parametrize("code", RULES)
def test_a_row_says_what_the_rule_says(code: str) -> None:
    (meaning, does), rule = ROWS[code], RULES[code]
    assert meaning == rule.meaning
    assert SAYS[rule.action] in does
    assert rule.advice in does
    assert ("connection is closed" in does) == rule.reconnect
