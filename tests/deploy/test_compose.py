"""The compose file as text: it is consistent, shares only what it must, and has no secret in it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.compose_engine import COMPOSE, mounts_of, read
from tests.deploy.network_namespaces import ROOT

DEPLOY = ROOT / "deploy"
DOCUMENT = read()
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
OURS = ("identity", "aggregator", "shuffler")
MADE = "./codebook.json"
"""What the operator makes with `hubbub codebook compile`."""
STORES = ("aggregator-redis", "shuffler-redis")


def secrets_of(name: str) -> set[str]:
    return {one if isinstance(one, str) else one["source"] for one in SERVICES[name].get("secrets", ())}


def volumes_of(name: str) -> dict[str, str]:
    """Named volumes of a service, and whether they can be written."""
    mounts = mounts_of(SERVICES[name])
    return {source: "rw" if writable else "ro" for source, _, writable in mounts if source in DOCUMENT["volumes"]}


def networks_of(name: str) -> set[str]:
    return set(SERVICES[name].get("networks", ()))


def test_all_that_is_named_exists_and_all_that_exists_is_used() -> None:
    for kind, used in (("secrets", secrets_of), ("volumes", volumes_of), ("networks", networks_of)):
        assert set().union(*(used(name) for name in SERVICES)) == set(DOCUMENT[kind]), kind
    for service in SERVICES.values():
        for source, _, _ in mounts_of(service):
            assert source in {*DOCUMENT["volumes"], MADE} or (DEPLOY / source).exists(), source


def test_the_aggregator_gets_the_file_that_was_compiled_for_it_and_nothing_in_its_place() -> None:
    """Nothing is compiled at a start: a newer image could choose another mechanism."""
    assert (MADE, "/etc/hubbub/codebook.json", False) in mounts_of(SERVICES["aggregator"])
    assert "HUBBUB_AGGREGATOR_CODEBOOK=/etc/hubbub/codebook.json" in (DEPLOY / "Dockerfile").read_text()
    bound = next(one for one in SERVICES["aggregator"]["volumes"] if isinstance(one, dict))
    assert bound["bind"] == {"create_host_path": False}
    assert f"--out deploy/{Path(MADE).name}" in COMPOSE.read_text()
    assert MADE.removeprefix(".") in (ROOT / ".gitignore").read_text()


def test_who_waits_for_health_waits_for_something_that_has_a_health_check() -> None:
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert SERVICES[name]["healthcheck"]["test"], name
            else:
                assert how["condition"] == "service_completed_successfully"
                assert SERVICES[name]["restart"] == "no", name
    assert set(SERVICES["shuffler"]["depends_on"]) == {"aggregator", "shuffler-redis"}
    assert set(SERVICES["aggregator"]["depends_on"]) == {"identity", "aggregator-redis"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_has_a_read_only_root_and_no_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["ulimits"] == {"core": 0}  # what is deleted cannot come back from a dump
    if name == "caddy":
        assert service["cap_add"] == ["NET_BIND_SERVICE"]
    else:
        assert "cap_add" not in service
        assert int(service["user"].split(":")[0]) > 0


def test_shuffler_and_aggregator_share_one_network_one_token_and_no_state() -> None:
    assert networks_of("shuffler") & networks_of("aggregator") == {"between"}
    assert DOCUMENT["networks"]["between"] == {"internal": True}
    assert secrets_of("shuffler") & secrets_of("aggregator") == {"forward_token"}
    assert not volumes_of("shuffler").keys() & volumes_of("aggregator").keys()
    assert volumes_of("shuffler")["trust"] == "ro"  # the public half of the identity, from the service that makes it


def test_each_redis_is_one_services_own() -> None:
    for first, second in combinations(STORES, 2):
        assert not networks_of(first) & networks_of(second)
        assert not secrets_of(first) & secrets_of(second)
        assert not volumes_of(first).keys() & volumes_of(second).keys()
    for store in STORES:
        (network,) = networks_of(store)
        assert DOCUMENT["networks"][network] == {"internal": True}
        assert {name for name in SERVICES if network in networks_of(name)} == {store, store.removesuffix("-redis")}
        assert "ports" not in SERVICES[store]


def test_redis_keeps_what_it_acknowledged() -> None:
    conf = dict(
        line.split(None, 1) for line in (DEPLOY / "redis/redis.conf").read_text().splitlines() if line[0] != "#"
    )
    assert conf["appendonly"] == "yes"
    assert conf["appendfsync"] == "always"
    assert conf["no-appendfsync-on-rewrite"] == "no"
    assert conf["maxmemory-policy"] == "noeviction"
    assert conf["save"] == '""'  # no second file with reports in it
    for store in STORES:
        assert re.fullmatch(r"redis:7\.\d+-bookworm", SERVICES[store]["image"])
        assert "temp-*" in SERVICES[store]["command"][2]


def test_nothing_is_published_beyond_this_machine_but_tls() -> None:
    for name, service in SERVICES.items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:") or (name, port) in {("caddy", "80:80"), ("caddy", "443:443")}


def test_it_is_labelled_for_what_it_is() -> None:
    assert COMPOSE.read_text().startswith("# SINGLE OPERATOR")
    assert SERVICES["aggregator"]["environment"]["HUBBUB_AGGREGATOR_SINGLE_OPERATOR"] == "true"


def test_caddy_is_optional_and_writes_down_nobody() -> None:
    assert SERVICES["caddy"]["profiles"] == ["tls"]
    caddyfile = (DEPLOY / "caddy/Caddyfile").read_text()
    assert re.search(r"^\s*exclude http$", caddyfile, re.MULTILINE)  # all of it: http.log, and http.handlers
    assert "output" not in caddyfile
    assert SERVICES["shuffler"]["environment"]["HUBBUB_SHUFFLER_PROXY_HOPS"] == "1"


def test_the_script_makes_every_secret_once_and_keeps_it_from_others(tmp_path: Path) -> None:
    made = tmp_path / "secrets"
    command = ["sh", str(DEPLOY / "make-secrets.sh"), str(made)]
    subprocess.run(command, check=True, capture_output=True)
    assert {path.name for path in made.iterdir()} == set(DOCUMENT["secrets"])
    assert all(given == {"file": f"./secrets/{name}"} for name, given in DOCUMENT["secrets"].items())
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    before = {path: path.read_text() for path in made.iterdir()}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in before)
    (made / "analyst_token").unlink()
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said == f"{made}/analyst_token\n"
    after = {path: path.read_text() for path in made.iterdir()}
    assert [path.name for path in before if before[path] != after[path]] == ["analyst_token"]
    tokens = [after[made / name] for name in DOCUMENT["secrets"] if name.endswith("_token")]
    assert len(set(tokens)) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", token) for token in tokens)
    for service in ("shuffler", "aggregator"):
        password = re.fullmatch(
            rf"redis://{service}:([0-9a-f]{{64}})@{service}-redis:6379/0", after[made / f"{service}_storage"]
        )
        assert password
        assert password[1] not in after[made / f"{service}_redis_acl"]


def test_without_randomness_no_secret_is_made(tmp_path: Path) -> None:
    (tmp_path / "od").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "od").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", str(DEPLOY / "make-secrets.sh"), str(tmp_path / "secrets")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert not list((tmp_path / "secrets").iterdir())


def test_secrets_are_never_committed() -> None:
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_compose_itself_takes_the_file(tmp_path: Path) -> None:
    """By the plugin, or by the version before it, which knows no name at the top."""
    if subprocess.run(["sh", "-c", "docker compose version"], capture_output=True, check=False).returncode == 0:
        command, text = ["docker", "compose"], COMPOSE.read_text()
    elif shutil.which("docker-compose"):
        command, text = ["docker-compose"], re.sub("^name: .*$", "", COMPOSE.read_text(), flags=re.MULTILINE)
    else:
        pytest.skip("no compose here: apt-get install docker-compose; the other tests look at the file themselves")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "compose.yml").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMPOSE_")}
    for profile in ([], ["--profile", "tls"]):
        done = subprocess.run(
            [*command, "--file", tmp_path / "deploy" / "compose.yml", *profile, "config"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "SINGLE_OPERATOR" in done.stdout


def test_caddy_itself_takes_its_file() -> None:
    if shutil.which("caddy") is None:
        pytest.skip("no caddy here: apt-get install caddy")
    names = {"SHUFFLER_NAME": "a.example.com", "AGGREGATOR_NAME": "b.example.com", "ACME_EMAIL": "ops@example.com"}
    check = ["caddy", "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / "caddy" / "Caddyfile")]
    done = subprocess.run(check, capture_output=True, text=True, env={**os.environ, **names}, check=False)
    assert "Valid configuration" in done.stdout + done.stderr
