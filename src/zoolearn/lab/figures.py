"""Figures as plain data: `drawing` draws them for pages and for print, CSV holds them unrounded.

A `Figure` holds one chart, or several to choose from (its frames). A chart is a `Plot` (panels of series) or a `Map` (a
coloured matrix). Accuracies are in percent.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
from msgspec import Struct

from zoolearn.errors import DataError
from zoolearn.files import Json
from zoolearn.runs.decode import decode

Number = float | None
Style = Literal["line", "points", "crosses", "dashes"]


@dataclass(frozen=True)
class Series:
    """Points in order; `spread` is a deviation or an error around each (None: unknown)."""

    name: str
    x: Sequence[int | float | str]
    y: Sequence[Number]
    spread: Sequence[Number] = ()
    style: Style = "line"
    colour: int = 0  # a place in the palette, so that one method has one colour in all panels
    notes: Sequence[str] = ()  # one for each point, shown on hover

    def __post_init__(self) -> None:
        for name in ("x", "y", "spread", "notes"):
            if (values := getattr(self, name)) and len(values) != len(self.x):
                raise DataError(f"series {self.name!r} has {len(self.x)} points but {len(values)} in {name}")


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    series: Sequence[Series]
    x_label: str = ""
    log_x: bool = False
    turned: bool = False  # names from top to bottom, what is measured to the right


class Plot(Struct, frozen=True, tag="plot", tag_field="kind"):
    """Panels side by side that share what is measured upwards."""

    panels: Sequence[Panel]
    y_label: str
    log_y: bool = False
    share_y: bool = True
    columns: int | None = None  # of panels, where that means something

    def headline(self) -> str:
        """The highest of named points, and the next."""
        series = self.panels[0].series[0] if len(self.panels) == 1 and self.panels[0].series else None
        if series is None or not all(isinstance(x, str) for x in series.x):
            return ""
        spread = series.spread or [None] * len(series.x)
        known = [(y, x, half) for x, y, half in zip(series.x, series.y, spread, strict=True) if y is not None]
        shown = [
            f"{x} ({y:.2f}{'' if half is None else f' ± {half:.2f}'})"
            for y, x, half in sorted(known, key=lambda point: -point[0])[:2]
        ]
        return f"{' before '.join(shown)}, {series.name}" if len(shown) == 2 else ""

    def table(self) -> tuple[list[str], list[list[Json]]]:
        header = ["panel", "series", "x", "y", "spread", "note"]
        return header, [list(row) for row in self._rows()]

    def _rows(self) -> Iterator[tuple[Json, ...]]:
        for panel in self.panels:
            for series in panel.series:
                for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                    spread = series.spread[place] if series.spread else None
                    yield panel.title, series.name, x, y, spread, series.notes[place] if series.notes else ""


class Map(Struct, frozen=True, tag="map", tag_field="kind"):
    """A matrix drawn as coloured cells: `rows` from top to bottom, `columns` from left to right.

    `shades` are what is coloured where that is not the value itself; `centred` shades mean good above 0 and bad below.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number]]
    row_label: str
    column_label: str
    value_label: str
    spread: Sequence[Sequence[Number]] = ()
    shades: Sequence[Sequence[Number]] = ()
    centred: bool = False
    marks: Sequence[Sequence[bool]] = ()  # cells with a dot, or in bold
    mark_label: str = ""
    mark_style: Literal["dot", "bold"] = "dot"
    notes: Sequence[Sequence[str]] = ()  # shown on hover

    def __post_init__(self) -> None:
        for name in ("values", "spread", "shades", "marks", "notes"):
            cells = getattr(self, name)
            if cells and [len(row) for row in cells] != [len(self.columns)] * len(self.rows):
                raise DataError(f"the {name} of a map are not {len(self.rows)} rows of {len(self.columns)} columns")

    def headline(self) -> str:
        """How many cells are marked above and below zero, where that is what cells tell."""
        if not self.centred or not self.marks:
            return ""
        cells = [
            (value, mark)
            for values, marks in zip(self.values, self.marks, strict=True)
            for value, mark in zip(values, marks, strict=True)
            if value is not None
        ]
        above, below = (sum(mark and side * value > 0 for value, mark in cells) for side in (1, -1))
        return f"of {len(cells)}, {above} above zero and {below} below, {self.mark_label}"

    def table(self) -> tuple[list[str], list[list[Json]]]:
        """Header and rows of the data, a line for each cell that has a value."""
        extras = [name for name in ("spread", "shades", "marks", "notes") if getattr(self, name)]
        header = [self.row_label, self.column_label, self.value_label, *extras]
        return header, [
            [row, column, self.values[r][c], *(getattr(self, name)[r][c] for name in extras)]
            for r, row in enumerate(self.rows)
            for c, column in enumerate(self.columns)
            if self.values[r][c] is not None
        ]


Chart = Plot | Map


@dataclass(frozen=True)
class Figure:
    """A named chart with its caption, or several under the names that `choice` chooses between."""

    name: str  # of its files
    title: str
    caption: str
    frames: Mapping[str, Chart]
    choice: str = ""
    commands: Sequence[str] = ()
    section: str = ""
    first: str = ""  # the frame to show first
    extra: Mapping[str, Json] = field(default_factory=dict)  # single numbers worth keeping with the figure

    def headline(self) -> str:
        """In one sentence what a chart of named points or of gains and losses shows; nothing for others."""
        chart = next(iter(self.frames.values()), None)
        found = chart.headline() if chart is not None and len(self.frames) == 1 else ""
        return f"{self.title.rstrip('?')}: {found}." if found else ""

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        header: list[str] = []
        for name, chart in self.frames.items():
            columns, rows = chart.table()
            lead = [self.choice] if len(self.frames) > 1 else []
            if [*lead, *columns] != header:
                header = [*lead, *columns]
                writer.writerow(header)
            writer.writerows([*([name] if lead else []), *row] for row in rows)
        return out.getvalue()

    def to_json(self) -> dict[str, Json]:
        content = msgspec.to_builtins(self, enc_hook=float)  # of numpy's numbers
        return {**content, "frames": [{"name": name, **chart} for name, chart in content["frames"].items()]}

    @classmethod
    def from_json(cls, content: Json, where: str) -> "Figure":
        """The inverse of `to_json`; an error names where it was read."""
        what, listed = "a figure", content.get("frames") if isinstance(content, dict) else None
        frames: dict[str, Chart] = {}
        for place, frame in enumerate(decode(listed, list[Frame], where, what)):
            frames[frame.name] = decode(listed[place], Chart, where, what)  # type: ignore[arg-type, index]
        return replace(decode({**content, "frames": {}}, cls, where, what), frames=frames)


class Frame(Struct):
    """What a frame of a figure begins with in a file; its chart follows."""

    name: str


def percents(fractions: Iterable[Number]) -> list[Number]:
    """Fractions as percentages.

    >>> percents([0.75, None])
    [75.0, None]
    """
    return [None if fraction is None else 100 * fraction for fraction in fractions]
