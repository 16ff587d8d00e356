"""Draws panels and maps with matplotlib (extra `plot`), the same for files and for pages.

Vega-Lite drew the same at the same size (27 kB for 25), but its interactive page carries 0.41 MB of script that take
4.3 s to bundle, from a package of 84 MB; a drawing needs no script, opens at once and prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from zoolearn.errors import SettingsError
from zoolearn.lab.figures import Map, Number, Panel, Plot, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart with any kind of colour vision, and a marker for each.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0508a", "#8f6400", "#2c8fbf", "#555555", "#7a5195")
MARKERS = "osD^vp*h"
INK, RULE = "#1d2430", "#d9dee6"
MORE, LESS = "#2a7fbe", "#d9731a"  # of a map: the stronger, the further from nothing
NEAR = 30  # times the smallest value: a logarithmic axis up to there has one decade, or hardly more
NARROW, SMALL = 400, 260  # points: the width of a phone, and of one panel of many
STYLE: dict[Any, Any] = {
    "axes.titlesize": "medium",
    "axes.titley": 1.0,  # else it is looked for around all ticks
    "legend.fontsize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "axes.edgecolor": RULE,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    **{f"{axis}tick.{which}.size": 0 for axis in "xy" for which in ("major", "minor")},
    "figure.dpi": 200,
    "text.parse_math": False,  # names are names
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "zoolearn",  # the same figure, the same file
}
Range = tuple[float, float] | None
Limits = tuple[Range, Range]


@contextmanager
def style(font_size: float) -> Iterator[None]:
    """Applies our matplotlib style inside `with`; raises an error that names the extra if matplotlib is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise SettingsError("charts need matplotlib; install it with: pip install 'zoolearn[plot]'") from error
    with matplotlib.rc_context({**STYLE, "font.size": font_size}):
        yield


def natural_height(panel: Panel | Map, width: float) -> float:
    """The height in points of a readable drawing of this width."""
    narrow = width < NARROW
    if isinstance(panel, Map):
        return 56 + len(panel.rows) * (16 if narrow else 21) + (4.5 * _longest(panel.columns) if _leans(panel) else 0)
    if panel.turned:
        return 64 + len(_rows(panel)) * (34 if narrow else 21)
    return 150 if width < SMALL else 250 if width < 600 else 330


def limits(chart: Plot) -> Limits:
    """The axis limits that panels share: all points with their spread, at most 100 percent."""
    if any(panel.turned for panel in chart.panels):
        return None, None
    many = [series for panel in chart.panels for series in panel.series]
    xs = [x for series in many for x in series.x if not isinstance(x, str)]
    alike = len(chart.panels) > 1 and len({(panel.x_label, panel.log_x) for panel in chart.panels}) == 1
    along = _around(xs) if alike and xs and not chart.panels[0].log_x else None
    pairs = [pair for series in many for pair in _known(series)]
    if not chart.share_y or chart.log_y or not pairs:
        return along, None
    low, high = _around([value + side * half for value, half in pairs for side in (-1, 1)])
    if chart.y_label.endswith("%"):
        high = min(high, max(100.0, *(value + half for value, half in pairs)))
    return along, (low, high)


def _around(values: Sequence[float]) -> tuple[float, float]:
    room = 0.06 * (max(values) - min(values) or 1)
    return min(values) - room, max(values) + room


def _known(series: Series) -> list[tuple[float, float]]:
    pairs = zip(series.y, series.spread or [None] * len(series.y), strict=True)
    return [(value, half or 0.0) for value, half in pairs if value is not None]


def draw_panel(ax: Axes, panel: Panel, chart: Plot, shown: Limits, width: float) -> None:
    """Draws series with axes and labels; no point is cut at the edge."""
    draw_contents(ax, panel, width)
    ax.grid(visible=False, axis="y" if panel.turned else "x")
    if panel.turned:
        _name_rows(ax, panel, width)
        ax.set_xlabel(chart.y_label)
        return
    _number_columns(ax, [x for series in panel.series for x in series.x], panel.log_x, width)
    if chart.log_y:
        ax.set_yscale("log")
    elif not chart.share_y:
        ax.set_ylim(bottom=0)
    elif width < SMALL:
        ax.locator_params(axis="y", nbins=3)
    ax.set(**{name: wanted for name, wanted in zip(("xlim", "ylim"), shown, strict=True) if wanted is not None})
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(chart.y_label)


def draw_contents(ax: Axes, panel: Panel, width: float) -> None:
    """All of a panel but its axes."""
    for series in panel.series:
        draw_series(ax, series, places(panel, series), 3.5 if width < SMALL else 5.5, panel.turned)
    ax.set_title(cut(panel.title, width / 5.5))


def draw_series(ax: Axes, series: Series, places: Sequence[Any], size: float, turned: bool = False) -> Any:
    """Draws points, or a line with markers; returns the handle for a legend."""
    single, dashed = series.style in ("points", "crosses"), series.style == "dashes"
    colour, marker = COLOURS[series.colour % len(COLOURS)], MARKERS[series.colour % len(MARKERS)]
    y = [math.nan if value is None else float(value) for value in series.y][: len(places)]
    spread = [value or 0.0 for value in series.spread] if any(series.spread) and places else None
    if spread is not None and single:
        across: dict[str, Any] = {"xerr" if turned else "yerr": spread}
        (_, _, (bars,)) = ax.errorbar(*_turn(places, y, turned), **across, fmt="none", ecolor=colour)
        bars.set_clip_on(False)
    elif spread is not None:
        low, high = zip(*((value - half, value + half) for value, half in zip(y, spread, strict=True)), strict=True)
        ax.fill_between(places, low, high, color=colour, alpha=0.18, lw=0)
    (line,) = ax.plot(
        *_turn(places, y, turned),
        ls="" if single else "--" if dashed else "-",
        color=colour,
        lw=1.6,
        marker="x" if series.style == "crosses" else "" if dashed else marker,
        markevery=1 if single else max(1, len(places) // 6),
        ms=size if single else 0.8 * size,
        clip_on=False,
    )
    return line


def _turn(places: Sequence[Any], values: Sequence[float], turned: bool) -> tuple[Sequence[Any], Sequence[Any]]:
    return (values, places) if turned else (places, values)


def _rows(panel: Panel) -> list[str]:
    return list(dict.fromkeys(str(x) for series in panel.series for x in series.x))


def places(panel: Panel, series: Series) -> Sequence[Any]:
    """The positions of a series along its axis: numbers, names, or the row of its name."""
    rows = _rows(panel) if panel.turned else []
    return [rows.index(str(x)) for x in series.x] if panel.turned else series.x


def _name_rows(ax: Axes, panel: Panel, width: float) -> None:
    """Names from top to bottom, beside their row, or above it if there is little room."""
    names = _rows(panel)
    ax.set_ylim(len(names) - 0.4, -0.6 if width >= NARROW else -0.9)
    ax.hlines(range(len(names)), 0, 1, transform=ax.get_yaxis_transform(), color=RULE, lw=0.6, zorder=0)
    if width >= NARROW:
        ax.set_yticks(range(len(names)), [cut(name, width / 18) for name in names])
        return
    ax.set_yticks([])
    for row, name in enumerate(names):
        ax.text(0, row - 0.36, cut(name, width / 7), transform=ax.get_yaxis_transform(), va="center")


def _number_columns(ax: Axes, xs: Sequence[float | str], log: bool, width: float) -> None:
    """Few readable labels; on a logarithmic axis 1, 2 and 5 if it spans hardly more than a decade."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    numbers = [x for x in xs if not isinstance(x, str)]
    thousands = EngFormatter(sep="")
    if log:
        ax.set_xscale("log")
        near = bool(numbers) and max(numbers) < NEAR * min(numbers)
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if near else (1.0,), numticks=6))
        ax.xaxis.set_minor_locator(NullLocator())  # unseen, and slow
    elif len(numbers) == len(xs):
        whole = all(isinstance(x, int) for x in numbers)
        ax.xaxis.set_major_locator(MaxNLocator(3 if width < SMALL else 6, integer=whole))
    else:
        return
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value) if value >= 1000 else f"{value:g}"))


def cut(name: str, letters: float) -> str:
    """A name cut to the room there is.

    >>> cut("model-zoo", 9), cut("model-zoo", 6)
    ('model-zoo', 'model…')
    """
    return name if len(name) <= letters else f"{name[: int(letters) - 1]}…"


def _longest(names: Sequence[str]) -> int:
    return min(20, max(map(len, names)))


def _leans(chart: Map) -> bool:
    """Whether the names of columns are too long to stand side by side."""
    return _longest(chart.columns) > 6


def draw_map(ax: Axes, chart: Map, width: float) -> Any:
    """Draws cells coloured by strength, none where a value is missing; returns them row by row.

    Colours are transparent, so that they read on light and on dark pages alike.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgb

    columns, rows = range(len(chart.columns)), range(len(chart.rows))
    known = [
        (column - 0.5, row - 0.5, value)
        for row, values in enumerate(strengths(chart))
        for column, value in enumerate(values)
        if value is not None
    ]
    more, less = to_rgb(MORE), to_rgb(LESS)
    cells = PolyCollection(
        [((x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)) for x, y, _ in known],
        facecolors=[(*(more if value >= 0 else less), abs(value)) for _, _, value in known],
        lw=0,
    )
    ax.grid(visible=False)
    ax.spines["bottom"].set_visible(False)
    ax.add_collection(cells, autolim=False)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(rows, [cut(name, width / 15) for name in chart.rows])
    letter = 0.6 * _font_size()
    room = (width - letter * min(_longest(chart.rows), width / 15)) / len(columns)
    leaning: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if _leans(chart) else {}
    every = math.ceil(letter * (1.8 if leaning else _longest(chart.columns) + 1) / room)
    ax.set_xticks(columns[::every], [cut(name, 20) for name in chart.columns[::every]], **leaning)
    dots = bool(chart.marks) and (chart.mark_style == "dot" or room < 2.5 * letter)
    key = wrap(_key(chart, "dot" if dots else "bold"), int(room * len(columns) / letter))
    ax.set_xlabel("\n".join([chart.column_label, *key]))
    if dots:
        _dot_cells(ax, chart)
    elif room >= 2.5 * letter:
        _write_cells(ax, chart, 2 if room > 5.7 * letter and not chart.centred else 1 if room > 3.6 * letter else 0)
    return cells


def _font_size() -> float:
    import matplotlib

    return float(matplotlib.rcParams["font.size"])


def _shades(chart: Map) -> Sequence[Sequence[Number]]:
    return chart.shades or chart.values


def strengths(chart: Map) -> list[list[Number]]:
    """The strength of each cell's colour, up to 0.9; negative for losses."""
    known = [value for row in _shades(chart) for value in row if value is not None] or [0.0]
    if chart.centred:
        most = max(map(abs, known)) or 1.0
        return [[None if value is None else 0.9 * value / most for value in row] for row in _shades(chart)]
    low, span = min(known), (max(known) - min(known)) or 1.0
    return [[None if value is None else 0.1 + 0.8 * (value - low) / span for value in row] for row in _shades(chart)]


def _key(chart: Map, mark: str) -> str:
    """The legend of colours and marks."""
    known = [value for row in _shades(chart) for value in row if value is not None] or [0.0]
    label = f"{chart.value_label} less the row's median" if chart.shades else chart.value_label
    low, high = min(known), max(known)
    signed, plain = f"blue above 0, orange below, {low:+.2f} to {high:+.2f}", f"{low:.2f} light, {high:.2f} dark"
    words = signed if chart.centred else plain
    marks = f"; {mark}: {chart.mark_label}" if chart.marks and chart.mark_label else ""
    return f"{label}: {words}{marks}"


def _dot_cells(ax: Axes, chart: Map) -> None:
    marked = [
        (column, row)
        for row, marks in enumerate(chart.marks)
        for column, mark in enumerate(marks)
        if mark and chart.values[row][column] is not None
    ]
    if marked:
        ax.plot(*zip(*marked, strict=True), "o", ms=4, mfc="white", mec="black", mew=0.6, clip_on=False)


def _write_cells(ax: Axes, chart: Map, digits: int) -> None:
    for row, values in enumerate(chart.values):
        for column, value in enumerate(values):
            if value is not None:
                weight = "bold" if chart.marks and chart.marks[row][column] else "normal"
                ax.text(column, row, f"{value:z.{digits}f}", ha="center", va="center", weight=weight, size="small")
