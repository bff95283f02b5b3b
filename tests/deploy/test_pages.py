"""Commands on the pages about deployment: typed in order, in their own file system, they do what the page says."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.deploy.conftest import SHARED_MEMORY
from tests.deploy.dockerfile import Image, base, context_of
from tests.deploy.network_namespaces import ROOT, why_not

PAGES = ROOT / "docs" / "how-to"
SYSTEMCTL = """#!/bin/sh
# systemd does not run here. Of what it does at a start, this does the state directory and what the service makes in it.
case "$*" in "enable --now hubbub-aggregator")
  install -d -m 0700 -o hubbub-aggregator -g hubbub-aggregator /var/lib/hubbub-aggregator
  runuser -u hubbub-aggregator -- /opt/hubbub/bin/hubbub keys new --state-dir /var/lib/hubbub-aggregator >/dev/null ;;
esac
"""


def blocks(page: str, language: str = "sh") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def machine() -> Iterator[Image]:
    """A machine to try commands on: this one, with a clone of the repository and a systemctl that says nothing."""
    if why_not():
        pytest.skip(why_not())
    folder = Path(mkdtemp(prefix="hubbub-pages-", dir=SHARED_MEMORY))
    folder.chmod(0o755)
    try:
        image = base(folder / "machine")
        clone = image.place("/clone")
        for path in [*context_of(ROOT), *(path.relative_to(ROOT) for path in (ROOT / "deploy").rglob("*.*"))]:
            if (ROOT / path).is_file():
                (clone / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, clone / path)
        (clone / "examples").mkdir()
        shutil.copy(ROOT / "examples" / "metrics.toml", clone / "examples")
        stubs = image.place("/usr/local/sbin")
        stubs.mkdir(parents=True)
        for name, text in (("systemctl", SYSTEMCTL), ("curl", "#!/bin/sh\n")):
            (stubs / name).write_text(text)
            (stubs / name).chmod(0o755)
        image.environment["PATH"] = f"/usr/local/sbin:{image.environment['PATH']}"
        image.workdir = "/clone"
        yield image
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_the_steps_for_two_operators_can_be_followed(machine: Image) -> None:
    page = (PAGES / "run-the-services.md").read_text()
    two = page.partition("## Two operators")[2].partition("### 5.")[0]
    for block in re.findall(r"^```sh\n(.*?)^```", two, re.MULTILINE | re.DOTALL):
        machine.do(block)
    there = machine.upper
    for path, mode in (
        ("etc/hubbub/shuffler", 0o700),
        ("etc/hubbub/shuffler-tls", 0o750),
        ("etc/hubbub/aggregator-tls", 0o750),
        ("etc/hubbub/shuffler/forward-token", 0o600),
        ("etc/hubbub/aggregator/analyst-token", 0o600),
        ("etc/hubbub/aggregator/shuffler-token", 0o600),
        ("etc/hubbub/shuffler.env", 0o644),
        ("etc/hubbub/codebook.json", 0o644),
        ("var/lib/hubbub-aggregator/identity.key", 0o600),
    ):
        assert stat.S_IMODE((there / path).stat().st_mode) == mode, path
    users = (there / "etc/passwd").read_text()
    assert "hubbub-aggregator:" in users
    assert "hubbub-shuffler:" in users
    for service in ("shuffler", "aggregator"):
        assert (there / f"etc/systemd/system/hubbub-{service}.service").exists()


@pytest.mark.full
def test_an_authority_of_ones_own_is_made_as_the_page_says(machine: Image) -> None:
    make = next(block for block in blocks("tls.md") if "req -x509" in block)
    left = next(block for block in blocks("tls.md") if "-checkend" in block)
    machine.do(f"mkdir -p /authority && cd /authority\n{make}\n{left}")
    assert (machine.upper / "authority/tls-certificate.pem").exists()


@pytest.mark.full
def test_a_renewed_certificate_is_put_where_the_unit_looks_and_its_service_may_read_it(machine: Image) -> None:
    hook = next(block for block in blocks("tls.md") if "RENEWED_LINEAGE" in block)
    user = "install -D -m 0644 deploy/systemd/hubbub-shuffler.sysusers.conf /etc/sysusers.d/hubbub-shuffler.conf\n"
    user += "systemd-sysusers\ninstall -d -m 0750 -g hubbub-shuffler /etc/hubbub/shuffler-tls\n"
    renewed = "mkdir -p /renewed && echo chain > /renewed/fullchain.pem && echo key > /renewed/privkey.pem\n"
    machine.do(f"{user}{renewed}export RENEWED_LINEAGE=/renewed\n{hook}")
    unit = (ROOT / "deploy" / "systemd" / "hubbub-shuffler.service").read_text()
    for name, content in (("CERTIFICATE", "chain"), ("KEY", "key")):
        where = re.search(rf"^Environment=HUBBUB_SHUFFLER_TLS_{name}=(.*)$", unit, re.MULTILINE)
        assert where
        machine.do(f'test "$(runuser -u hubbub-shuffler -- cat {where[1]})" = {content}')


@pytest.mark.full
def test_the_users_of_redis_are_made_as_the_page_says(machine: Image) -> None:
    make = next(block for block in blocks("redis.md") if "users.acl" in block)
    machine.do(f"mkdir -p /redis && cd /redis\n{make}")
    acl, storage = (machine.upper / "redis/users.acl").read_text(), (machine.upper / "redis/storage").read_text()
    script = (ROOT / "deploy" / "make-secrets.sh").read_text()
    rights = re.search(r"user \$service on #\$digest (.*)", script)
    assert rights
    assert acl.rstrip().endswith(rights[1])
    assert re.fullmatch(r"redis://shuffler:[0-9a-f]{64}@127\.0\.0\.1:6379/0", storage)


@pytest.mark.parametrize("page", ["run-the-services.md", "tls.md", "redis.md", "monitor.md"])
def test_every_file_of_ours_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"(?<!/)\b(?:deploy|scripts|examples)/[\w./-]+\w", (PAGES / page).read_text()))
    made = {"deploy/secrets", "deploy/secrets/analyst_token", "deploy/secrets/shuffler_admin_token"}
    made.add("deploy/codebook.json")
    assert named - made
    for path in named - made:
        assert (ROOT / path).exists(), path
