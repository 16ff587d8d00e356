"""Figures as files for print: pdf, png or svg, and the data of each as CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoolearn.errors import SettingsError
from zoolearn.files import replace_file, save_text
from zoolearn.lab.drawing import draw_map, draw_panel, draw_series, limits, natural_height, style
from zoolearn.lab.figures import Chart, Figure, Map, Panel, Plot
from zoolearn.runs.spec import short_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Format = Literal["pdf", "png", "svg"]
WIDTH = 6.5  # inches: the text of a page
LEGEND_LETTERS = 110  # that fit side by side below a figure of that width
INCH = 72


@dataclass(frozen=True)
class Print:
    """The format of figures: inches (None: by the chart), and replacements for titles, labels and names."""

    width: float = WIDTH
    height: float | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    title: bool = True

    def __post_init__(self) -> None:
        for name, inches in (("width", self.width), ("height", self.height)):
            if inches is not None and not 1 <= inches <= 100:
                raise SettingsError(f"the {name} of a figure is {inches:g} inches; give 1 to 100")

    def say(self, words: str) -> str:
        """A text with its replacement, if there is one."""
        return self.words.get(words, words)


def save_figures(figures: Sequence[Figure], folder: Path, kind: Format = "pdf", how: Print | None = None) -> list[Path]:
    """Draws every frame of each figure into the folder, with its data; returns the paths of the drawings."""
    how = how or Print()
    written = []
    with style(font_size=8):
        for name, figure in zip(file_names([figure.name for figure in figures]), figures, strict=True):
            save_text(folder / f"{name}.csv", figure.csv())
            frames = [f"{name}-{frame}" for frame in figure.frames] if len(figure.frames) > 1 else [name]
            for file, chart in zip(file_names(frames), figure.frames.values(), strict=True):
                drawing = draw(chart, how)
                if how.title:
                    drawing.suptitle(how.say(figure.title), fontsize=9, x=0.01, ha="left")
                with replace_file(folder / f"{file}.{kind}") as part:
                    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
                    drawing.savefig(part, format=kind, metadata=metadata)
                written.append(folder / f"{file}.{kind}")
    return written


def file_names(names: Sequence[str]) -> list[str]:
    """A unique file name for each, of letters, digits and dashes, also where case is ignored.

    >>> file_names(["map-zoo (replay=0.1), seed 0", "my/bench:a", "My bench a"])
    ['map-zoo-replay-0-1-seed-0', 'my-bench-a', 'My-bench-a-2']
    """
    taken: dict[str, str] = {}
    for name in names:
        plain = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in name)
        base = short_name("-".join(plain.split()) or "figure")
        number, unlike = 1, base
        while unlike.lower() in taken:
            number += 1
            unlike = f"{base}-{number}"
        taken[unlike.lower()] = unlike
    return list(taken.values())


def draw(chart: Chart, how: Print) -> Drawing:
    """A whole chart: its panels in a grid, one legend below them."""
    from matplotlib.figure import Figure as Drawing

    panels: Sequence[Panel | Map] = [chart] if isinstance(chart, Map) else chart.panels
    count = len(panels)
    columns = min(count, (chart.columns if isinstance(chart, Plot) else 1) or (5 if count > 4 else 4))
    rows = math.ceil(count / columns)
    width = INCH * how.width / columns
    height = natural_height(panels[0], width) / INCH if count == 1 else 1.45 * rows + 0.9
    drawing = Drawing(figsize=(how.width, how.height or height), layout="constrained")
    for place, panel in enumerate(panels):
        ax = drawing.add_subplot(rows, columns, place + 1)
        if isinstance(chart, Map):
            draw_map(ax, chart, width)
        elif isinstance(panel, Panel):
            draw_panel(ax, panel, chart, limits(chart), width)
            if place % columns or (rows > 2 and place // columns != (rows - 1) // 2):
                ax.set_ylabel("")
            if place + columns < count and len({other.x_label for other in chart.panels}) == 1:
                ax.set_xlabel("")
        for words, put in (
            (ax.get_title(), ax.set_title),
            (ax.get_xlabel(), ax.set_xlabel),
            (ax.get_ylabel(), ax.set_ylabel),
        ):
            put(how.say(words))
    _add_legend(drawing, panels, how)
    return drawing


def _add_legend(drawing: Drawing, panels: Sequence[Panel | Map], how: Print) -> None:
    series = {each.name: each for panel in panels if isinstance(panel, Panel) for each in panel.series}
    if len(series) < 2:
        return
    handles = [draw_series(drawing.axes[0], each, [], 5.5) for each in series.values()]
    for handle in handles:
        handle.remove()  # it is for the legend, and would ask for room in the panel
    names = [how.say(name) for name in series]
    columns = max(1, min(3, int(LEGEND_LETTERS * how.width / WIDTH) // (max(map(len, names)) + 6)))
    drawing.legend(handles, names, loc="outside lower left", ncols=columns, frameon=False)
