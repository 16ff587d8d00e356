"""A chart in a page: SVG drawings laid out by the page, a legend, and tooltips in `<title>` elements."""

import html
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from zoolearn.lab.drawing import (
    COLOURS,
    INK,
    LESS,
    MARKERS,
    MORE,
    RULE,
    draw_contents,
    draw_map,
    draw_panel,
    limits,
    natural_height,
    places,
    style,
)  # fmt: skip
from zoolearn.lab.figures import Chart, Map, Panel, Plot, Series

FONT = 12
WIDE, NARROW = 960, 350  # of a drawing for desks and of one for phones; the page shows one of them
PAIR, FEW, MANY = 440, 320, 200  # of one panel of two or four, of a few, and of many
MANY_PANELS = 7
PAD = 3  # points around all
GLYPHS = dict(zip(MARKERS, "●■◆▲▼⬟★⬢", strict=True))
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
UNSEEN = (f"{SVG}metadata", f"{SVG}style", f"{SVG}clipPath")
VARIABLES = {
    **{colour: f"var(--series-{place})" for place, colour in enumerate(COLOURS)},
    INK: "var(--ink)", RULE: "var(--line)", MORE: "var(--more)", LESS: "var(--less)",
}  # fmt: skip


def chart_html(chart: Chart, key: str, label: str) -> str:
    """The chart, called `label` for screen readers; `key` tells its parts from those of other charts."""
    if isinstance(chart, Map):
        return _draw_in_sizes(chart, chart, key, label)
    series = {each.name: each for panel in chart.panels for each in panel.series}
    legend = "".join(map(_legend_entry, series.values())) if len(series) > 1 else ""
    if len(chart.panels) == 1:
        drawn = _draw_in_sizes(chart.panels[0], chart, key, label)
    else:
        count = len(chart.panels)
        width = PAIR if count in (2, 4) else FEW if count < MANY_PANELS else MANY
        drawn = f'<div class="panels" style="--panel:{width}px">{"".join(_panels(chart, width, key, label))}</div>'
    return (f'<ul class="legend">{legend}</ul>' if legend else "") + drawn


def _draw_in_sizes(panel: Panel | Map, chart: Chart, key: str, label: str) -> str:
    sizes = {"wide": WIDE, "narrow": NARROW}.items()
    return "".join(f'<div class="{kind}">{_draw_svg(panel, chart, w, key + kind, label)}</div>' for kind, w in sizes)


def _legend_entry(series: Series) -> str:
    glyph = {"crosses": "✕", "dashes": "┄"}.get(series.style) or GLYPHS[MARKERS[series.colour % len(MARKERS)]]
    colour = f"var(--series-{series.colour % len(COLOURS)})"
    return f'<li><i style="color:{colour}">{glyph}</i> {html.escape(series.name)}</li>'


def _draw_svg(panel: Panel | Map, chart: Chart, width: float, key: str, label: str) -> str:
    with style(FONT if width > MANY else FONT - 2):
        ax = _axes(panel, width)
        if isinstance(panel, Map):
            draw_map(ax, panel, width).set_gid("tips-0")
            tips = [_cell_tips(panel)]
        elif isinstance(chart, Plot):
            draw_panel(ax, panel, chart, limits(chart), width)
            tips = _invite_all(ax, panel)
        _lay_out(ax)
        return _for_page(_print_svg(ax), tips, key, label)


def _panels(chart: Plot, width: float, key: str, label: str) -> Iterator[str]:
    """A drawing for each panel. If all have the same axes, these are drawn once, which takes most of the time."""
    shown = limits(chart)
    if None in shown:
        for place, panel in enumerate(chart.panels):
            yield _draw_svg(panel, chart, width, f"{key}{place}-", f"{label}: {panel.title}")
        return
    with style(FONT if width > MANY else FONT - 2):
        ax = _axes(chart.panels[0], width)
        draw_panel(ax, chart.panels[0], chart, shown, width)
        _lay_out(ax)
        _clear(ax)
        axes = _print_svg(ax)
        for part in (ax.xaxis, ax.yaxis, *ax.spines.values(), ax.patch, ax.figure.patch):
            part.set_visible(False)
        for place, panel in enumerate(chart.panels):
            draw_contents(ax, panel, width)
            tips = _invite_all(ax, panel)
            yield _for_page(_print_svg(ax), tips, f"{key}{place}-", f"{label}: {panel.title}", axes)
            _clear(ax)


def _clear(ax: Any) -> None:
    """Takes away all but the axes."""
    ax.set_title("")
    for artist in (*ax.lines, *ax.collections):
        artist.remove()


def _axes(panel: Panel | Map, width: float) -> Any:
    from matplotlib.figure import Figure as Drawing

    return Drawing(figsize=(width / 72, natural_height(panel, width) / 72), dpi=72).add_subplot()


def _lay_out(ax: Any) -> None:
    """Gives axes the room that their labels need, by counting letters: the page's font decides their size.

    matplotlib's own layout measures them in another font, several times, and takes longer than everything else.
    """
    width, height = (72 * inches for inches in ax.figure.get_size_inches())
    font = ax.title.get_size()
    across, up = ([label.get_text() for label in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis))
    letter, line = 0.6 * font, 1.2 * font
    leans = any(label.get_rotation() for label in ax.xaxis.get_ticklabels())
    left = letter * max(map(len, up), default=0) + (line if ax.get_ylabel() else 0) + 2 * PAD
    right = PAD if leans else letter * len(across[-1] if across else "") / 2 + PAD
    labels = 0.87 * letter * max(map(len, across), default=0) + 0.5 * line if leans else line if across else 0
    bottom = labels + line * len(ax.get_xlabel().splitlines()) + 2 * PAD
    top = (line if ax.get_title() else 0) + PAD
    ax.set_position((left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height))


def _print_svg(ax: Any) -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.BytesIO()
    canvas: Any = FigureCanvasSVG(ax.figure)
    canvas.print_svg(out, metadata={"Date": None})  # as `savefig`, which draws twice
    return out.getvalue()


def _invite_all(ax: Any, panel: Panel) -> list[list[str]]:
    return [_invite(ax, panel, series, number) for number, series in enumerate(panel.series)]


def _invite(ax: Any, panel: Panel, series: Series, number: int) -> list[str]:
    """Invisible marks, large enough to point at, with a tooltip for each value."""
    at = [place for place, value in enumerate(series.y) if value is not None]
    along, values = [places(panel, series)[place] for place in at], [series.y[place] for place in at]
    pair = (values, along) if panel.turned else (along, values)
    ax.plot(*pair, ls="", marker="o", ms=13, mew=0, alpha=0, clip_on=False, gid=f"tips-{number}")
    return [_point_tip(panel, series, place) for place in at]


def _point_tip(panel: Panel, series: Series, place: int) -> str:
    spread = series.spread[place] if series.spread else None
    value = f"{series.y[place]:.4g}" + (f" ± {spread:.2g}" if spread is not None else "")
    x = series.x[place]
    where = x if isinstance(x, str) else f"{panel.x_label} {x:,.4g}"
    note = series.notes[place] if series.notes else ""
    return "\n".join(filter(None, [series.name, f"{where}: {value}", note]))


def _cell_tips(chart: Map) -> list[str]:
    tips = []
    for row, values in enumerate(chart.values):
        for column, value in enumerate(values):
            if value is None:
                continue
            spread = chart.spread[row][column] if chart.spread else None
            shade = chart.shades[row][column] if chart.shades else None
            lines = [
                f"{chart.rows[row]}, {chart.column_label} {chart.columns[column]}",
                f"{chart.value_label}: {value:.2f}" + (f" ± {spread:.2f}" if spread is not None else ""),
                f"against the median of its row: {shade:+.2f}" if shade is not None else "",
                chart.mark_label if chart.marks and chart.marks[row][column] else "",
                chart.notes[row][column] if chart.notes else "",
            ]
            tips.append("\n".join(filter(None, lines)))
    return tips


def _for_page(svg: bytes, tips: Sequence[Sequence[str]], key: str, label: str, below: bytes = b"") -> str:
    """The drawing in the colours and fonts of the page, with unique ids and tooltips; `below` lies another."""
    ElementTree.register_namespace("", SVG[1:-1])
    root = ElementTree.fromstring(svg)  # noqa: S314 (our own drawing)
    if below:
        root[:0] = ElementTree.fromstring(below)  # noqa: S314
    for number, lines in enumerate(tips):
        group = root.find(f".//{SVG}g[@id='tips-{number}']")
        for shape, words in zip([] if group is None else _shapes(group), lines, strict=True):
            if words:
                ElementTree.SubElement(shape, f"{SVG}title").text = words
    _tidy(root, key)
    width, height = root.get("viewBox", "").split()[2:]
    seen = {"viewBox": f"0 0 {width} {height}", "style": f"max-width:{width}px"}
    root.attrib = {**seen, "role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _shapes(element: ElementTree.Element) -> list[ElementTree.Element]:
    if element.tag == f"{SVG}defs":
        return []
    if element.tag in (f"{SVG}use", f"{SVG}path"):
        return [element]
    return [shape for child in element for shape in _shapes(child)]


def _tidy(element: ElementTree.Element, key: str) -> None:
    """Removes what cannot be seen, and shortens the rest."""
    for child in list(element):
        _tidy(child, key)
        empty = child.tag in (f"{SVG}g", f"{SVG}defs") and not len(child)
        if empty or child.tag in UNSEEN or child.get("style") in ("fill: none", "fill: #ffffff"):
            element.remove(child)
    named = element.attrib.pop("id", None)
    if named and element.tag == f"{SVG}path":
        element.set("id", key + named)
    if LINK in element.attrib:
        element.set("href", f"#{key}{element.attrib.pop(LINK)[1:]}")
    element.attrib.pop("clip-path", None)
    if "(-0 " in element.get("transform", ""):
        del element.attrib["transform"]
    for name, value in element.attrib.items():
        if name not in ("id", "href"):
            short = re.sub(r"(\.\d\d)\d+", r"\1", value).replace("  ", " ")
            short = re.sub(r"font-family: [^;]*; |; stroke-line(cap|join): \w+", "", short)
            element.set(name, re.sub(r"#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), short))
    if not (element.text or "").strip():
        element.text = None
    element.tail = None
