"""Figures for print: the same figures as on a page, drawn by matplotlib (extra `plot`) as pdf, png or svg."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zoolearn.errors import SettingsError
from zoolearn.files import replacing
from zoolearn.lab.figures import Figure, Map, Plot, Series
from zoolearn.runs.spec import short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Format = Literal["pdf", "png", "svg"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B0508A", "#8F6400", "#2C8FBF", "#333333", "#7A5195")
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 2)), (0, (6, 2, 1, 2)))
MARKERS = "osD^vp*h"
WIDTH = 6.5  # inches: the text of a page
NEAR = 30  # times the smallest value: a logarithmic axis up to there has one decade, or hardly more
APART = 0.1  # between points of one category, whose width is 1
LEGEND_LETTERS = 110  # that fit side by side below a figure
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "figure.dpi": 200,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "zoolearn",  # the same figure, the same file
}


def save_figures(figures: Sequence[Figure], folder: Path, kind: Format = "pdf") -> list[Path]:
    """Writes a file for each frame of each figure into the folder; gives their paths."""
    matplotlib = _matplotlib()
    written = []
    with matplotlib.rc_context(STYLE):
        for figure in figures:
            for path, chart in _files(figure, folder, kind):
                drawing = draw_map(chart) if isinstance(chart, Map) else draw_plot(chart)
                drawing.suptitle(figure.title, fontsize=9, x=0.01, ha="left")
                with replacing(path) as part:
                    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
                    drawing.savefig(part, format=kind, metadata=metadata)
                written.append(path)
    return written


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise SettingsError(
            "figures for print need matplotlib; install it with: pip install 'zoolearn[plot]'"
        ) from error
    return matplotlib


def _files(figure: Figure, folder: Path, kind: str) -> Iterator[tuple[Path, Plot | Map]]:
    for name, chart in figure.frames.items():
        suffix = "-" + "".join(letter if letter.isalnum() else "-" for letter in name) if len(figure.frames) > 1 else ""
        while "--" in suffix:
            suffix = suffix.replace("--", "-")
        yield folder / f"{short_name(figure.name + suffix.rstrip('-'))}.{kind}", chart


def draw_plot(chart: Plot) -> Drawing:
    """Panels in a grid, one legend above them."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import EngFormatter, MaxNLocator

    count = len(chart.panels)
    columns = min(count, chart.columns or (4 if count <= 4 else 5))
    rows = math.ceil(count / columns)
    drawing = Drawing(figsize=(WIDTH, 3.6 if count == 1 else 1.45 * rows + 0.9), layout="constrained")
    apart = len({panel.x_label for panel in chart.panels}) > 1
    axes = drawing.subplots(rows, columns, squeeze=False, sharey=chart.share_y, sharex=not apart)
    handles: dict[str, Any] = {}
    for place, ax in enumerate(axes.flat):
        if place >= count:
            ax.set_visible(False)
            continue
        panel = chart.panels[place]
        for series in _side_by_side(ax, panel.series):
            handles.setdefault(series.name, _draw_series(ax, series, small=count > 4))
        ax.set_title(panel.title)
        if panel.log_x:
            _log_ticks(ax, [x for series in panel.series for x in series.x])
        elif all(isinstance(x, int) for series in panel.series for x in series.x):
            ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        elif not any(isinstance(x, str) for series in panel.series for x in series.x):
            ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        if chart.log_y:
            ax.set_yscale("log")
        if apart or place + columns >= count:
            ax.set_xlabel(panel.x_label)
            ax.tick_params(labelbottom=True)
        if place % columns == 0 and (rows < 3 or place // columns == (rows - 1) // 2):
            ax.set_ylabel(chart.y_label)
    if len(handles) > 1 or count > 1:
        ncols = max(1, min(3, LEGEND_LETTERS // (max(map(len, handles)) + 6)))
        drawing.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=ncols, frameon=False)
    return drawing


def _log_ticks(ax: Axes, values: Sequence[Any]) -> None:
    """A logarithmic axis with few labels that can be read: 1, 2 and 5 where there is little more than a decade."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    thousands = EngFormatter(sep="")
    near = bool(values) and max(values) < NEAR * min(values)
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if near else (1.0,), numticks=6))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: thousands(value) if value >= 1000 else f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _side_by_side(ax: Axes, many: Sequence[Series]) -> Sequence[Series]:
    """The series, with points of one category moved apart and the categories' names written on the axis."""
    if len(many) < 2 or not all(series.style == "points" and isinstance(x, str) for series in many for x in series.x):
        return many
    names = list(dict.fromkeys(str(x) for series in many for x in series.x))
    ax.set_xticks(range(len(names)), names)
    asides = [APART * (place - (len(many) - 1) / 2) for place in range(len(many))]
    return [
        replace(series, x=[names.index(str(x)) + aside for x in series.x])
        for series, aside in zip(many, asides, strict=True)
    ]


def _draw_series(ax: Axes, series: Series, *, small: bool) -> Any:
    colour = COLOURS[series.colour % len(COLOURS)]
    marker = "x" if series.style == "crosses" else MARKERS[series.colour % len(MARKERS)]
    x: list[Any] = list(series.x)
    y = [math.nan if value is None else value for value in series.y]
    spread = [value or 0.0 for value in series.spread] if any(series.spread) else None
    if series.style in ("points", "crosses"):
        size = 3.5 if small else 6
        return ax.errorbar(x, y, spread, fmt=marker, color=colour, ms=size, capsize=2, elinewidth=0.8, mew=1.2)
    if spread is not None:
        low, high = zip(*((value - half, value + half) for value, half in zip(y, spread, strict=True)), strict=True)
        ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    dash = "--" if series.style == "dashes" else DASHES[series.colour % len(DASHES)]
    (line,) = ax.plot(x, y, ls=dash, color=colour, lw=1.2, marker=marker if len(x) <= 12 and not small else "", ms=3.5)
    return line


def draw_map(chart: Map) -> Drawing:
    """Coloured cells; a dot where marked, the value where there is room."""
    from matplotlib.figure import Figure as Drawing

    shades = [
        [math.nan if value is None else value for value in row]
        for row in (chart.shades if chart.shades else chart.values)
    ]
    height = max(1.6, 0.22 * len(chart.rows) + 1.3)
    drawing = Drawing(figsize=(WIDTH, height), layout="constrained")
    ax = drawing.subplots()
    ax.grid(visible=False)
    known = [value for row in shades for value in row if not math.isnan(value)]
    limit = max(map(abs, known), default=1.0) or 1.0
    colours: dict[str, Any] = {"cmap": "PuOr", "vmin": -limit, "vmax": limit} if chart.centred else {"cmap": "cividis"}
    image = ax.imshow(shades, aspect="auto", interpolation="nearest", **colours)
    label = "less the row's median" if chart.shades else chart.value_label
    if chart.marks and chart.mark_label:
        label += f" ({chart.mark_style}: {chart.mark_label})"
    drawing.colorbar(image, ax=ax, label=label, fraction=0.04, pad=0.02)
    ax.set_yticks(range(len(chart.rows)), list(chart.rows))
    long = max(map(len, chart.columns)) > 4
    ax.set_xticks(
        range(len(chart.columns)),
        list(chart.columns),
        rotation=60 if long else 0,
        ha="right" if long else "center",
        rotation_mode="anchor" if long else "default",
    )
    ax.set_xlabel(chart.column_label)
    for row, values in enumerate(chart.values):
        for column, value in enumerate(values):
            if value is None:
                continue
            red, green, blue, _ = image.to_rgba(np.asarray(shades[row][column]))
            ink = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
            marked = bool(chart.marks) and chart.marks[row][column]
            if chart.marks and chart.mark_style == "dot":
                if marked:
                    ax.plot(column, row, "o", ms=3, mfc="white", mec="black", mew=0.5)
            elif len(chart.columns) <= 24:
                digits = 1 if len(chart.columns) > 12 or chart.centred else 2
                ax.text(
                    column,
                    row,
                    f"{value:.{digits}f}",
                    ha="center",
                    va="center",
                    fontsize=5,
                    color=ink,
                    weight="bold" if marked else "normal",
                )
    return drawing
