"""The colours of charts, light and dark: Okabe and Ito's, which people with any colour vision can tell apart.

A chart is drawn once, in the light colours. For a person who prefers dark, the style sheet of a page replaces them by
attribute selectors, and in a downloaded file `themed` does.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["AXIS", "BACKGROUND", "DARK", "GRID", "INK", "LINES", "MUTED", "Theme", "themed"]

Theme: TypeAlias = Literal["light", "dark"]

INK, MUTED, AXIS, GRID = "#1b1f24", "#57606a", "#8c959f", "#e3e6ea"
LINES = ("#0072b2", "#d55e00", "#009e73", "#b3588c", "#4d4d4d")
"""Blue, vermillion, bluish green, reddish purple and a grey; each has 3:1 or more against white."""
DARK = {
    INK: "#e6e9ec",
    MUTED: "#aab3bd",
    AXIS: "#6b7682",
    GRID: "#2d343c",
    LINES[0]: "#56b4e9",
    LINES[1]: "#f0a03c",
    LINES[2]: "#3ccba0",
    LINES[3]: "#e39cc6",
    LINES[4]: "#cfd4da",
}
BACKGROUND = {"light": "#ffffff", "dark": "#14181d"}


def themed(svg: str, theme: Theme) -> str:
    """A chart as a separate file: in the colours of a theme, on its background."""
    if theme == "dark":
        for light, dark in DARK.items():
            svg = svg.replace(f'"{light}"', f'"{dark}"')
    head, _, rest = svg.partition(">")
    return f'{head}><rect width="100%" height="100%" fill="{BACKGROUND[theme]}"/>{rest}'
