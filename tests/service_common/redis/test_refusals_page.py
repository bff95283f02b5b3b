"""The table in docs/design/redis-client.md: it has what refusals.RULES has, in the same order."""

from __future__ import annotations

from hubbub_service_common.redis.error_codes import RULES, Rule
from tests.support.paths import ROOT

PAGE = ROOT / "docs/design/redis-client.md"
DONE = {
    "in-full": "sends the text of the script",
    "elsewhere": "learns the slots again, from the node that it names, and sends it there at once",
    "ask": "sends it once to the node that is named, after `ASKING`",
    "later": "learns the slots again and tries again after a pause, for a second in all",
    "fail": "`StorageError` at once",
}


def done(rule: Rule) -> str:
    closed = "; the connection is closed, since its name may lead to another server" if rule.reconnect else ""
    return DONE[rule.action] + (f": {rule.advice}" if rule.advice else "") + closed


def test_the_page_shows_every_rule_as_it_is() -> None:
    table = PAGE.read_text().partition("| code | meaning |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert rows == [[f"`{code}`", rule.meaning, done(rule)] for code, rule in RULES.items()]
