"""A Dockerfile, built and run without an engine: its own commands, in an overlay over this machine's file system.

The base image is this machine, where `python` is the interpreter that runs the tests. Instructions that this file does
not know are an error, so that nothing in a Dockerfile is silently left out.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import IO

from tests.deploy.network_namespaces import closed_to_others

__all__ = ["Image", "base", "build", "context_of", "instructions"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_RUN = ("LABEL", "EXPOSE")
_FROM_OUTSIDE = ("PIP_", "SSL_", "REQUESTS_CA_BUNDLE", "HTTP", "http", "NO_PROXY", "no_proxy")
"""Variables by which this machine finds packages: a network's own affair, as in an engine's settings."""


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction and what follows it, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(found[0].upper(), found[1]) for line in whole.splitlines() if (found := line.split(None, 1))]


def context_of(root: Path) -> list[Path]:
    """What the .dockerignore lets into a build, relative to the root; the last rule that fits decides."""
    rules = [line for line in (root / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    def ignored(path: str) -> bool:
        out = False
        for rule in rules:
            pattern = rule.removeprefix("!").removeprefix("**/")
            places = [path, *map(str, Path(path).parents)]
            parts = Path(path).parts if "**/" in rule else ()
            if any(fnmatch.fnmatch(place, pattern) for place in (*places, *parts)):
                out = not rule.startswith("!")
        return out

    return [Path(path) for path in listed if not ignored(path) and (root / path).is_file()]


@dataclass
class Image:
    """One stage: what it wrote, and how it is to be run."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        mounts: Mapping[str, tuple[Path, bool]] | None = None,
        read_only: bool = True,
        tmpfs: Sequence[str] = ("/tmp",),  # noqa: S108  of the container
        network: Sequence[str] = (),
        log: IO[bytes] | int | None = None,
    ) -> subprocess.Popen[bytes]:
        """The command in a container's place. `mounts`: where, what and whether it may be written there.

        `tmpfs`: where, and behind a colon how, as compose writes it.

        `network`: the words of a command that leads into another network namespace.
        """
        run_as = dict(zip(("reuid", "regid"), (user or self.user).split(":"), strict=True))
        rights = [f"--{name}={number}" for name, number in run_as.items()]
        rights += ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        layer = Path(mkdtemp(dir=self.folder))
        layer.chmod(0o755)
        steps = [*_root("../upper:/"), *_mounted(mounts or {})]
        for at, _, how in (line.partition(":") for line in tmpfs):
            steps.append(f"mount -t tmpfs -o {how or 'mode=1777'} tmpfs root{at}")
        if read_only:
            steps.append("mount -o remount,ro root")
        inside = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(['setpriv', *rights, *command])}"
        steps.append(f"exec chroot root sh -c {shlex.quote(inside)}")
        return subprocess.Popen(
            [*network, "unshare", "--mount", "sh", "-euc", "\n".join(steps)],
            cwd=layer,
            env={"PATH": PATH, "HOME": "/nowhere", **self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT if log is not None else None,
        )

    def do(self, command: str) -> None:
        """One RUN, as root."""
        outside = {name: value for name, value in os.environ.items() if name.startswith(_FROM_OUTSIDE)}
        inside = f"cd {shlex.quote(self.workdir)} && {command}"
        steps = [*_root("/"), f"exec chroot root sh -euc {shlex.quote(inside)}"]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-euc", "\n".join(steps)],
            cwd=self.folder,
            env={"PATH": PATH, "HOME": "/root", **outside, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout}{done.stderr}"

    def place(self, target: str) -> Path:
        """Where a path of the image is kept."""
        return self.upper / (Path(self.workdir) / target).relative_to("/")


def _root(lower: str) -> list[str]:
    """A file system of its own over these layers, in the folder where one is; what is written is in its `upper`."""
    return [
        "mount --make-rprivate /",
        "mkdir -p upper work root",
        f"mount -t overlay overlay -o lowerdir={lower},upperdir=upper,workdir=work root",
        *(f"mount --rbind /{name} root/{name}" for name in ("dev", "proc")),
    ]


def _mounted(mounts: Mapping[str, tuple[Path, bool]]) -> list[str]:
    steps = []
    for target, (source, writable) in mounts.items():
        what, where = shlex.quote(str(source)), shlex.quote(f"root{target}")
        make = (
            f"mkdir -p {where}" if source.is_dir() else f"mkdir -p $(dirname {where}); [ -e {where} ] || touch {where}"
        )
        steps += [make, f"mount --bind {what} {where}"]
        if not writable:
            steps.append(f"mount -o remount,bind,ro {where}")
    return steps


def build(dockerfile: Path, root: Path, folder: Path) -> Image:
    """The last stage. The folder must be on a file system that can lie over this machine's, such as /dev/shm."""
    context = folder / "context"
    for path in context_of(root):
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, context / path)
    stages: dict[str, Image] = {}
    image = Image(folder)
    for name, rest in instructions(dockerfile.read_text()):
        if name == "FROM":
            found = re.fullmatch(r"python:3\.\d+-slim-bookworm(?: AS (\w+))?", rest)
            assert found, f"FROM {rest}: another base image is another machine"
            stage = found[1] or "last"
            image = stages[stage] = base(folder / stage)
        elif name == "RUN":
            image.do(rest)
        elif name == "COPY":
            _copy(image, rest.split(), context, stages)
        elif name == "ENV":
            pairs = re.findall(r"(\w+)=(\S+)", rest)
            image.environment |= {key: _expanded(value, image.environment) for key, value in pairs}
        elif name == "WORKDIR":
            image.workdir = rest
            image.place(rest).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            image.user = rest
        elif name == "HEALTHCHECK":
            image.health = json.loads(rest.partition("CMD ")[2])
        elif name in ("ENTRYPOINT", "CMD"):
            setattr(image, {"ENTRYPOINT": "entrypoint", "CMD": "command"}[name], json.loads(rest))
        else:
            assert name in _NOT_RUN, f"{name} is not known here"
    return image


def _expanded(value: str, environment: Mapping[str, str]) -> str:
    return value.replace("$PATH", environment.get("PATH", PATH))


def base(folder: Path) -> Image:
    """This machine as the official image of Python: `python` is ours, and everyone may use it."""
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    image = Image(folder, {"PATH": f"{python.parent}:{PATH}"})
    image.upper.mkdir(parents=True)
    for closed in closed_to_others(python):
        (image.upper / closed.relative_to("/")).mkdir(mode=0o755, parents=True, exist_ok=True)
    if not (python.parent / "python").exists():
        (image.upper / python.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        (image.upper / python.parent.relative_to("/") / "python").symlink_to(python.name)
    return image


def _copy(image: Image, words: list[str], context: Path, stages: Mapping[str, Image]) -> None:
    source = context
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].upper
    *names, target = words
    for name in names:
        found, place = source / name.lstrip("/"), image.place(target)
        assert found.exists(), f"COPY {name}: it is not in the build; see .dockerignore"
        place.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, place, symlinks=True, dirs_exist_ok=True)
        else:
            place = place / found.name if target.endswith("/") else place
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, place)
