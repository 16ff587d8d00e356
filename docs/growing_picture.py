"""The picture of docs/growing.md: zoos whose tasks grew beside those that met them whole, and rivals, from recorded runs.

`python docs/growing_picture.py results docs` (or `make figures`) writes it as SVG, once for light and once for dark
pages, and prints its numbers as a table.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from front_picture import THEMES, Colours, text

from zoolearn.errors import DataError
from zoolearn.files import save_text
from zoolearn.lab.paper.compare import all_runs
from zoolearn.lab.studies.growing import Measures, measure, variants
from zoolearn.lab.studies.setup import Setup
from zoolearn.runs.results import Results
from zoolearn.runs.spec import write_flags

SETUP = Setup(study="growing", benchmark="coarse-cifar100", tasks=(), epochs=1, precision="bfloat16")
ROWS = {
    "zoo": "zoo, grown",
    "zoo, all at once": "zoo, five classes at once",
    "isolated": "isolated nets, grown",
    "fine-tune": "fine-tuning, grown",
    "zoo, a tenth kept": "zoo, a tenth kept, grown",
    "zoo, a tenth kept, and statistics": "zoo, a tenth and statistics, grown",
    "zoo, a tenth kept, all at once": "zoo, a tenth kept, at once",
    "isolated, a tenth kept": "isolated nets, a tenth kept, grown",
    "zoo, preset beyond": "beyond, grown",
    "zoo, preset beyond, all at once": "beyond, five classes at once",
    "zoo, preset beyond, a tenth kept": "beyond, a tenth kept, grown",
    "zoo, preset beyond, a tenth kept, and statistics": "beyond, a tenth and statistics, grown",
    "zoo, preset beyond, a tenth kept, all at once": "beyond, a tenth kept, at once",
}
WIDTH, STEP, TOP = 760, 26, 92
X = (280, 640)  # of 0 and 100 %


@dataclass(frozen=True)
class Row:
    """A learner, what its runs show, one a seed, and flags of theirs that were deleted since."""

    label: str
    measures: Sequence[Measures]
    deleted: str = ""

    def mean(self, what: str) -> float | None:
        """Over seeds; None where a run has no such number."""
        values = [getattr(each, what) for each in self.measures]
        return None if None in values else fmean(values)


def rows_of(runs: Iterable[Results]) -> list[Row]:
    """A row for each learner that there are runs of, and as many seeds as there are.

    Where there are none yet, those with settings that were deleted since stand in, with a star.
    """
    finished = [run for run in runs if run.benchmark == SETUP.benchmark and run.finished]
    now = {run.spec.identity: run for run in finished if not run.spec.deleted}
    then = {run.spec.without_deleted.identity: run for run in finished if run.spec.deleted}
    known = variants()
    rows = []
    for name, label in ROWS.items():
        wanted = [known[name].spec(SETUP, seed).identity for seed in SETUP.seeds]
        found = [now[each] for each in wanted if each in now]
        old = [then[each] for each in wanted if each in then]
        if found:
            rows.append(Row(label, [measure(run) for run in found]))
        elif old:
            flags = " ".join(write_flags(old[0].spec.deleted))
            rows.append(Row(f"{label} *", [measure(run) for run in old], flags))
    if not rows:
        raise DataError(
            f"no finished runs of the study of growing tasks on {SETUP.benchmark}; give a folder that has some"
        )
    return rows


def picture(rows: Sequence[Row], theme: str) -> str:
    """The whole picture as SVG: a line of dots for each row."""
    flags = remark(rows)
    colours, height = THEMES[theme], TOP + STEP * len(rows) + (60 if flags else 40)
    told = ", ".join(f"{row.label} {row.mean('end'):.1f}" for row in rows)
    bottom = TOP + STEP * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>Accuracy of twenty tasks of five classes at the end, in percent: {told}</title>",
        text(16, 26, "Tasks met with three classes, then grown by one twice", colours.text, 15, weight="600"),
        text(16, 46, "20 superclasses of CIFAR-100 at the end, one epoch: accuracy in %", colours.quiet),
        *_key(colours),
    ]
    for percent in range(0, 101, 20):
        x = _x(percent)
        parts.append(f'<line x1="{x}" y1="{TOP - 10}" x2="{x}" y2="{bottom}" stroke="{colours.faint}"/>')
        parts.append(text(x, bottom + 18, str(percent), colours.quiet, middle=True))
    parts += [part for place, row in enumerate(rows) for part in _line(row, TOP + STEP * place + 8, colours)]
    parts += [text(16, bottom + 42, flags, colours.quiet)] if flags else []
    return "\n".join([*parts, "</svg>"]) + "\n"


def remark(rows: Sequence[Row]) -> str:
    """What the star of some rows means; empty without one."""
    flags = ", ".join(sorted({row.deleted for row in rows if row.deleted}))
    return f"* with {flags}, deleted since" if flags else ""


def _key(colours: Colours) -> list[str]:
    said = (
        (16, "all classes", colours.zoo),
        (112, "the newest", colours.falling),
        (206, "the first three", colours.isolated),
    )
    return [
        part
        for x, words, colour in said
        for part in (f'<circle cx="{x + 5}" cy="64" r="5" fill="{colour}"/>', text(x + 16, 68, words, colours.quiet))
    ]


def _line(row: Row, y: int, colours: Colours) -> list[str]:
    seeds = len(row.measures)
    parts = [text(X[0] - 16, y + 4, row.label, colours.text, end=True)]
    for what, colour, size in (
        ("end_newest", colours.falling, 4),
        ("end_first", colours.isolated, 4),
        ("end", colours.zoo, 6),
    ):
        if (value := row.mean(what)) is not None:
            parts.append(f'<circle cx="{_x(value)}" cy="{y}" r="{size}" fill="{colour}"/>')
    told = f"{row.mean('end'):.1f}, {seeds} seed{'' if seeds == 1 else 's'}"
    return [*parts, text(X[1] + 16, y + 4, told, colours.zoo, weight="600")]


def _x(percent: float) -> float:
    return round(X[0] + (X[1] - X[0]) * percent / 100, 1)


def table(rows: Sequence[Row]) -> str:
    """The numbers as Markdown."""
    lines = ["| learner | seeds | after a growth | end | others |", "|:--|--:|--:|--:|--:|"]
    for row in rows:
        after, end = (
            " / ".join(
                "-" if (value := row.mean(what)) is None else f"{value:.1f}"
                for what in (first, f"{first}_newest", f"{first}_first")
            )
            for first in ("after", "end")
        )
        others = row.mean("others")
        change = "-" if others is None else f"{others:+.2f}"
        lines.append(f"| {row.label} | {len(row.measures)} | {after} | {end} | {change} |")
    return "\n".join(lines)


def write(results: Path, folder: Path) -> None:
    """Writes `growing-light.svg` and `growing-dark.svg` from the runs below `results`, and prints the table."""
    rows = rows_of(all_runs([results]))
    for theme in THEMES:
        save_text(folder / f"growing-{theme}.svg", picture(rows, theme))
    print(table(rows))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
