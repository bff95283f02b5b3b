"""The TypeScript SDK as one file for a script tag: its bytes, its name, and the tag with its integrity hash (SRI)."""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from html import escape
from importlib import resources

import hubbub

__all__ = ["ScriptFile"]


class ScriptFile:
    """The file that is shipped with this version. Its name changes with its bytes, so it may be cached forever."""

    @cached_property
    def content(self) -> bytes:
        return (resources.files("hubbub_cli") / "data" / "hubbub.js").read_bytes()

    @property
    def name(self) -> str:
        return f"hubbub-{hubbub.__version__}-{hashlib.sha256(self.content).hexdigest()[:12]}.js"

    @property
    def integrity(self) -> str:
        """What a browser compares the file with: https://www.w3.org/TR/SRI/."""
        return f"sha384-{base64.b64encode(hashlib.sha384(self.content).digest()).decode()}"

    def tag(self, base: str = "/") -> str:
        """The tag for a page, where the file is served under `base`. Its lines fit into eighty columns."""
        address = escape(f"{base.rstrip('/')}/{self.name}")
        return f'<script src="{address}"\n  crossorigin="anonymous" integrity=\n"{self.integrity}"></script>'
