"""What a page shows, asked of the page: charts, colours, focus, overflow, findings of axe."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["Chart", "axe", "background", "charts", "contrast", "focus", "overflow", "plain", "undrawn"]

Chart = dict[str, Any]

_CHARTS = """() => [...document.querySelectorAll("figure.chart")].map((figure) => {
  const box = figure.getBoundingClientRect();
  const picture = figure.querySelector("img, svg");
  const shown = picture ? picture.getBoundingClientRect() : {width: 0, height: 0};
  // a mark is what data draws, never an axis, a grid or a background
  const marks = [...figure.querySelectorAll("svg .mark, svg .data, svg.spark > *")];
  const drawn = marks.filter((mark) => {
    const {width, height} = mark.getBoundingClientRect();
    const style = getComputedStyle(mark);
    const inked = [style.fill, style.stroke].some((ink) => ink !== "none" && ink !== "rgba(0, 0, 0, 0)");
    return inked && style.visibility === "visible" && Number(style.opacity) > 0 && width + height > 0.5;
  });
  const image = figure.querySelector("img");
  return {
    caption: (figure.querySelector("figcaption")?.textContent ?? "").trim(),
    alternative: (picture?.getAttribute("aria-label") ?? picture?.getAttribute("alt")
      ?? document.getElementById(picture?.getAttribute("aria-labelledby") ?? "")?.textContent
      ?? figure.querySelector("svg > title, svg > desc")?.textContent ?? "").trim(),
    kind: picture ? picture.tagName.toLowerCase() : "none",
    marks: drawn.length,
    natural: image ? image.naturalWidth : null,
    width: shown.width, height: shown.height, room: box.width,
  };
})"""

_OVERFLOW = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  return [...document.body.querySelectorAll("*")]
    .filter((each) => each.getBoundingClientRect().right > room + 1)
    .filter((each) => { for (let up = each.parentElement; up; up = up.parentElement) {
        if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(up).overflowX)) return false; }
      return true; })
    .map((each) => `${each.tagName.toLowerCase()}.${each.getAttribute("class") ?? ""} ends at ` +
      `${Math.round(each.getBoundingClientRect().right)} of ${room}`).concat(["the page scrolls sideways"]);
}"""

_FOCUS = """() => {
  const found = document.activeElement;
  if (!found || found === document.body) return null;
  const style = getComputedStyle(found), box = found.getBoundingClientRect();
  return {
    tag: found.tagName.toLowerCase(), text: (found.innerText ?? found.value ?? "").trim(),
    href: found.getAttribute("href"), id: found.id,
    visible: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== "none",
    inside: box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0
      && box.left < innerWidth && box.top < innerHeight,
  };
}"""

_COLOURS = """(selector) => {
  const rgba = (text) => { const found = text.match(/[\\d.]+/g).map(Number);
    return found.length === 3 ? [...found, 1] : found; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat([1]);
  const behind = (element) => { const layers = [];
    for (let up = element; up; up = up.parentElement) {
      const colour = rgba(getComputedStyle(up).backgroundColor);
      layers.push(colour); if (colour[3] === 1) break; }
    const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((under, top) => over(top, under), canvas); };
  return [...document.querySelectorAll(selector)].filter((each) => each.getClientRects().length).map((each) => {
    const style = getComputedStyle(each), svg = each instanceof SVGElement;
    const ink = svg ? (style.fill !== "none" && rgba(style.fill)[3] > 0 ? style.fill : style.stroke) : style.color;
    const under = behind(svg ? each.closest("svg").parentElement : each);
    return {ink: over(rgba(ink), under), under, text: (each.textContent ?? "").trim().slice(0, 60)};
  });
}"""


def plain(words: str) -> str:
    """Without the narrow spaces that set digits apart, and with an ordinary minus."""
    return words.replace("\N{NARROW NO-BREAK SPACE}", "").replace("\N{MINUS SIGN}", "-")


def charts(page: Page) -> list[Chart]:
    """Every chart with its caption, its text alternative, its size and how many marks are really there."""
    found: list[Chart] = page.evaluate(_CHARTS)
    return found


def undrawn(chart: Chart) -> str | None:
    """Why a chart is not one, or None."""
    if chart["kind"] == "img" and not chart["natural"]:
        return "its picture did not load"
    if chart["width"] < 40 or chart["height"] < 10:
        return f"it is {chart['width']:.0f} x {chart['height']:.0f}"
    if chart["kind"] == "svg" and chart["marks"] == 0:
        return "it has no mark"
    if chart["width"] > chart["room"] + 1:
        return f"it is wider than its place: {chart['width']:.0f} of {chart['room']:.0f}"
    return next((f"it has no {part}" for part in ("caption", "alternative") if not chart[part]), None)


def overflow(page: Page) -> list[str]:
    """What makes the page scroll sideways."""
    found: list[str] = page.evaluate(_OVERFLOW)
    return found


def focus(page: Page) -> dict[str, Any] | None:
    """What has the keyboard, and whether one sees it."""
    found: dict[str, Any] | None = page.evaluate(_FOCUS)
    return found


def contrast(page: Page, selector: str) -> list[tuple[float, str]]:
    """Contrast ratio (WCAG 2.2, 1.4.3) and text of everything that matches, least first; colours as they are shown."""
    return sorted((_ratio(one["ink"], one["under"]), one["text"]) for one in page.evaluate(_COLOURS, selector))


def luminance(colour: list[float]) -> float:
    """WCAG 2.2, relative luminance: 0 black, 1 white."""
    parts = [c / 255 for c in colour[:3]]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _ratio(ink: list[float], under: list[float]) -> float:
    low, high = sorted((luminance(ink), luminance(under)))
    return (high + 0.05) / (low + 0.05)


def background(page: Page) -> float:
    """Luminance behind the text of the page."""
    found: list[dict[str, Any]] = page.evaluate(_COLOURS, "main")
    return luminance(found[0]["under"])


@cache
def _axe() -> str:
    """axe-core as the package ships it; evaluated, since the page's policy forbids a script tag."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


def axe(page: Page, *rules: str, inside_charts: bool = False) -> list[str]:
    """Findings that axe calls serious or critical, each with the first place where it is; of these rules, or of all."""
    page.evaluate(_axe())
    found: dict[str, Any] = page.evaluate(
        """([rules, exclude]) => axe.run({include: [["html"]], exclude}, {resultTypes: ["violations"],
          ...(rules.length ? {runOnly: {type: "rule", values: rules}} : {})})""",
        [rules, [] if inside_charts else [[".plot > *"]]],  # a year has thousands of marks, all made alike
    )
    return [
        f"{one['impact']}: {one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} places)"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
    ]
