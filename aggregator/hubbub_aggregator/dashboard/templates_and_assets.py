"""Templates, and the static files that every page links to by their hash."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import hubbub
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.palette import AXIS, DARK, GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import MOST_MARGIN

__all__ = ["asset", "asset_hash", "render"]

_FILES = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
PAGES = (
    ("overview", "Overview"),
    ("privacy", "Privacy"),
    ("operations", "Operations"),
    ("collected", "What is collected"),
)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hubbub_aggregator.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Jinja has its own `length`
    environment.filters |= {name: getattr(formatting, name) for name in formatting.__all__ if name != "length"}
    environment.globals |= {"pages": PAGES, "software": f"hubbub {hubbub.__version__}", "hash": asset_hash}
    return environment


def render(template: str, **shown: Any) -> str:
    return _environment().get_template(template).render(**shown)


@lru_cache(maxsize=4)
def asset(name: str) -> tuple[bytes, str] | None:
    """A static file and its media type; None for any other name. The style sheet gets the colours of the charts."""
    if name not in _FILES:
        return None
    text = (resources.files("hubbub_aggregator.dashboard") / "static" / name).read_text("utf-8")
    if name.endswith(".css"):
        text = text.replace("/* charts */", _chart_colours()).replace("/* margins */", _chart_margins())
    return text.encode(), _FILES[name]


@lru_cache(maxsize=1)
def asset_hash() -> str:
    """Changes with any of the files, so that browsers may keep them for good."""
    joined = b"".join(found[0] for name in _FILES if (found := asset(name)) is not None)
    return hashlib.sha256(joined).hexdigest()[:16]


def style() -> Markup:
    """The style sheet, for a page that must stand alone."""
    found = asset("dashboard.css")
    return Markup(found[0].decode() if found else "")  # noqa: S704  our own file


def _chart_margins() -> str:
    """A class for each margin that a chart may have: the policy of the pages forbids styles of single elements."""
    return "\n".join(
        f".{side}-{size} {{ --{side}: {size}px; }}"
        for side in ("left", "right")
        for size in range(0, MOST_MARGIN + 1, 8)
    )


def _chart_colours() -> str:
    """Charts have the light colours as attributes. These rules replace them in dark mode."""
    names = {INK: "ink", MUTED: "muted", AXIS: "axis", GRID: "grid"} | {c: f"line-{i}" for i, c in enumerate(LINES)}
    rules = [
        f'.plot [{part}="{colour}"] {{ {part}: var(--{name}); }}'
        for colour, name in names.items()
        for part in ("fill", "stroke")
    ]
    light = "".join(f" --{name}: {colour};" for colour, name in names.items())
    dark = "".join(f" --{name}: {DARK[colour]};" for colour, name in names.items())
    return "\n".join([f":root {{{light} }}", f"@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}", *rules])
