"""The browser that the tests drive: the system's Chromium, or a reason why there is none."""

from __future__ import annotations

import os
import shutil

__all__ = ["FLAGS", "NO_BROWSER", "find"]

NO_BROWSER = (
    "no browser: there is no Chromium here (scripts/chromium.sh says why); install chromium, or set HUBBUB_CHROMIUM"
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",  # containers and continuous integration run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",  # texts have the same width on every machine
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # a page that asks elsewhere must not get there
]


def find() -> str | None:
    """Where Chromium is: HUBBUB_CHROMIUM if it is set, else whatever is on PATH."""
    if told := os.environ.get("HUBBUB_CHROMIUM"):
        return told if os.access(told, os.X_OK) else None
    return next((path for name in _NAMES if (path := shutil.which(name))), None)
