"""Credentials of replicas: what docs/how-to/redis.md says lets a replica follow, and is needed for it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import redis

from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from tests.support.paths import ROOT
from tests.support.patience import wait_for
from tests.support.redis_server import one_server

PAGE = (ROOT / "docs/how-to/redis.md").read_text()
OF_THE_SERVICE, OF_THE_REPLICA = "a-password-of-the-service", "a-password-of-a-replica"


def digest(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()


def users() -> str:
    """The page's ACL, with passwords."""
    default, service = re.findall(r"^user (?:default|shuffler) .*$", PAGE, re.MULTILINE)
    (replica,) = re.findall(r"^user replica .*$", PAGE, re.MULTILINE)
    service = re.sub(r"#\$\(.*\)", f"#{digest(OF_THE_SERVICE)}", service)
    return "\n".join([default, service, replica.replace("#DIGEST", f"#{digest(OF_THE_REPLICA)}"), ""])


def options() -> list[str]:
    """The page's lines for redis.conf."""
    found = re.findall(r"^(masteruser|masterauth) (\S+)$", PAGE, re.MULTILINE)
    return [part for name, value in found for part in (f"--{name}", value.replace("PASSWORD", OF_THE_REPLICA))]


def link(port: int) -> Any:
    with redis.Redis(port=port, username="shuffler", password=OF_THE_SERVICE, protocol=2) as client:
        return client.info("replication")["master_link_status"]


@pytest.mark.parametrize("told", [True, False], ids=["as the page says", "without the two lines"])
def test_a_replica_follows_with_the_credentials_of_the_page_and_not_without(tmp_path: Path, told: bool) -> None:
    acl = tmp_path / "users.acl"
    acl.write_text(users())
    common = ["--aclfile", str(acl), *(options() if told else [])]
    with one_server(tmp_path / "primary", *common, "--repl-diskless-sync-delay", "0") as primary:
        follows = ["--replicaof", "127.0.0.1", str(primary.port)]
        with one_server(tmp_path / "replica", *common, *follows) as replica:
            if not told:
                log = tmp_path / "replica" / "log"
                wait_for(lambda: "NOPERM" in log.read_text())
                assert link(replica.port) == "down"
                return
            wait_for(lambda: link(replica.port) == "up")
            url = f"redis://shuffler:{OF_THE_SERVICE}@127.0.0.1:{primary.port}"
            client = RedisClient(url, replicas=1)
            client.one(command("SET", b"key", "value"))
            client.close()
