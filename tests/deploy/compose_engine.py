"""A small engine for compose.yml: containers made of namespaces, on the networks that the file names.

Of what an engine does, this does what the file relies on: read-only roots, users, secrets and volumes as mounts,
networks that lead nowhere else, start in the order of health. Port mappings and restarts are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.dockerfile import Image
from tests.deploy.network_namespaces import ROOT, Host, Lab
from tests.support.patience import PATIENCE, wait_for

__all__ = ["COMPOSE", "Composition", "mounts_of", "read"]

COMPOSE = ROOT / "deploy" / "compose.yml"


def read(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file with its variables filled in: `${NAME:-default}` is the only form that it uses."""
    values = environment or {}
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: values.get(found[1]) or found[2], COMPOSE.read_text())
    assert "${" not in text
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def mounts_of(service: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Source, target and whether it can be written, of every volume of a service, in the short form or the long one."""
    found = []
    for line in service.get("volumes", ()):
        if isinstance(line, dict):
            found.append((line["source"], line["target"], not line["read_only"]))
        else:
            source, target, *mode = line.split(":")
            found.append((source, target, mode != ["ro"]))
    return found


class Composition:
    """Every service without a profile, started in order; all of it ends with the stack."""

    def __init__(
        self, lab: Lab, stack: ExitStack, images: Mapping[str, Image], secrets: Path, document: dict[str, Any]
    ) -> None:
        self._lab, self._stack, self._images, self._secrets, self._document = lab, stack, images, secrets, document
        self.services = {name: one for name, one in document["services"].items() if not one.get("profiles")}
        self._state: dict[str, str] = {}
        for name in self.services:
            lab.host(name)
        for network in document["networks"]:
            members = [name for name, one in self.services.items() if network in one.get("networks", ())]
            lab.network(*members)

    def up(self) -> None:
        """Start what waits for nothing more, until all is started; the ones that must end have ended by then."""
        while waiting := [name for name in self.services if name not in self._state]:
            free = [name for name in waiting if all(map(self._met, self.services[name].get("depends_on", {}).items()))]
            assert free, f"{waiting} wait for each other"
            for name in free:
                self._start(name)

    def exec(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[int, str]:
        """A command in a container that runs; its exit code and what it said."""
        process = self._process(name, command, subprocess.PIPE, environment)
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said.decode()

    def log(self, name: str) -> str:
        return (self._lab.folder / f"{name}.log").read_text()

    def _met(self, dependency: tuple[str, dict[str, str]]) -> bool:
        name, how = dependency
        if name not in self._state:
            return False
        return self._state[name] == {"service_completed_successfully": "ended"}.get(how["condition"], "healthy")

    def _start(self, name: str) -> None:
        service, image = self.services[name], self._image(name)
        written = self._stack.enter_context((self._lab.folder / f"{name}.log").open("wb"))
        process = self._process(name, [*image.entrypoint, *service["command"]], written)
        if service.get("restart") == "no":
            assert process.wait(PATIENCE) == 0, self.log(name)
            self._state[name] = "ended"
            return
        self._stack.callback(process.wait, PATIENCE)
        self._stack.callback(process.terminate)
        test = service["healthcheck"]["test"]
        check = test[1:] if test[0] == "CMD" else ["sh", "-c", test[1]]

        def healthy() -> bool:
            assert process.poll() is None, self.log(name)
            return self.exec(name, check)[0] == 0

        wait_for(healthy, step=0.5)
        self._state[name] = "healthy"

    def _process(
        self, name: str, command: Sequence[str], log: Any, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        service, host = self.services[name], self._lab.hosts[name]
        return self._image(name).start(
            command,
            environment={**service.get("environment", {}), **(environment or {})},
            user=service["user"],
            mounts={**self._volumes(name), **self._mounted_secrets(service), "/etc/hosts": (host.hosts, False)},
            read_only=service["read_only"],
            tmpfs=service["tmpfs"],
            network=["nsenter", f"--net=/run/netns/{host.namespace}"],
            log=log,
        )

    def _image(self, name: str) -> Image:
        return self._images[self.services[name]["image"].partition(":")[0]]

    def _volumes(self, name: str) -> dict[str, tuple[Path, bool]]:
        found = {}
        for source, target, writable in mounts_of(self.services[name]):
            named = source in self._document["volumes"]
            path = self._volume(source, target, name) if named else (COMPOSE.parent / source).resolve()
            found[target] = path, writable
        return found

    def _volume(self, volume: str, target: str, name: str) -> Path:
        """A new one belongs to whom the image says."""
        path = self._lab.folder / "volumes" / volume
        if not path.exists():
            path.mkdir(parents=True, mode=0o700)
            owner = (self._image(name).upper / target.lstrip("/")).stat()
            os.chown(path, owner.st_uid, owner.st_gid)
        return path

    def _mounted_secrets(self, service: dict[str, Any]) -> dict[str, tuple[Path, bool]]:
        found = {}
        for given in service.get("secrets", ()):
            one = given if isinstance(given, dict) else {"source": given, "target": given}
            file = self._secrets / Path(self._document["secrets"][one["source"]]["file"]).name
            found[f"/run/secrets/{one['target']}"] = file, False
        return found


def beside(host: Host, user: int, script: Path, *arguments: str) -> tuple[int, str]:
    """A script of the tests on the host of a service, as an app would run there."""
    return host.run([sys.executable, script, *arguments], user=user, needs=[ROOT])
