"""The picture on the README: a zoo that grows, and what becomes of its first task, from recorded runs.

`python docs/front_picture.py results docs` (or `make figures`) writes it as SVG, once for light and once for dark
pages. It is plain text without fonts or numbers of the machine, so that the same runs give the same file anywhere.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from zoolearn.errors import DataError
from zoolearn.files import save_text
from zoolearn.lab.paper.compare import all_runs
from zoolearn.lab.presets import find_preset
from zoolearn.runs.results import Results

BENCHMARK = "split-cifar100"
BEYOND, REMARK = "preset beyond", "in bfloat16"
MEMBERS = 8  # that the left half shows
WIDTH, HEIGHT = 920, 384
CELL, LEFT, TOP = 34, 88, 76  # of the left half: from dot to dot, and the first dot
X, Y = (516, 738), (76, 314)  # of the right half: where episodes 1 and 20, 90 % and 30 % are
HIGHEST, LOWEST = 90, 30


class Colours(NamedTuple):
    """Of a picture on a light or a dark page."""

    text: str
    quiet: str
    faint: str
    zoo: str
    past: str
    isolated: str
    falling: str


THEMES = {
    "light": Colours("#1f2328", "#59636e", "#d8dee4", "#0969da", "#9cc9f5", "#6e7781", "#bc4c00"),
    "dark": Colours("#f0f6fc", "#9198a1", "#30363d", "#4493f8", "#2a5ea8", "#9198a1", "#f0883e"),
}


@dataclass(frozen=True)
class Curve:
    """Accuracy of the first task after each episode, in percent: mean and deviation over seeds."""

    label: str
    colour: str
    means: list[float]
    deviations: list[float]
    dashed: bool = False


def picture(runs: Iterable[Results], theme: str) -> str:
    """The whole picture as SVG."""
    known, colours = _chosen(runs), THEMES[theme]
    curves = [
        _curve(f"{BEYOND} *", colours.zoo, known[BEYOND], dashed=True),
        _curve("model zoo", colours.zoo, known["model-zoo"]),
        _curve("isolated nets", colours.isolated, known["isolated"]),
        _curve("fine-tuning", colours.falling, known["fine-tune"]),
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>{_description(curves)} (* {REMARK})</title>",
        *_growing([episode.tasks for episode in known["model-zoo"][0].episodes], known["model-zoo"][0].tasks, colours),
        *_axes(colours),
        *(part for curve in curves for part in _drawn(curve)),
        text(X[0] - 34, Y[1] + 62, f"* {REMARK}", colours.quiet),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _chosen(runs: Iterable[Results]) -> Mapping[str, list[Results]]:
    """The runs of one epoch that change nothing else, by method and seed, and those of preset `beyond` in bfloat16."""
    found: dict[str, list[Results]] = {name: [] for name in ("model-zoo", "isolated", "fine-tune", BEYOND)}
    preset = {"epochs": 1, "precision": "bfloat16", **find_preset("beyond", "model-zoo", BENCHMARK).spec.settings}
    for run in sorted(runs, key=lambda run: str(run.settings.get("seed"))):
        if run.benchmark != BENCHMARK or run.settings["benchmark"]:
            continue
        if run.method in found and run.spec.changes == {"epochs": 1}:
            found[run.method].append(run)
        elif run.method == "model-zoo" and run.spec.changes == preset:
            found[BEYOND].append(run)
    for name, of_name in found.items():
        if len(of_name) < 2:
            raise DataError(f"{len(of_name)} finished run(s) of {name} on {BENCHMARK} with one epoch; give at least 2")
    return found


def _curve(label: str, colour: str, runs: Sequence[Results], dashed: bool = False) -> Curve:
    columns = list(zip(*([100 * (row[0] or 0.0) for row in run.accuracy] for run in runs), strict=True))
    return Curve(label, colour, [fmean(each) for each in columns], [stdev(each) for each in columns], dashed)


def _description(curves: Sequence[Curve]) -> str:
    ends = ", ".join(f"{curve.label} {curve.means[0]:.1f} to {curve.means[-1]:.1f}" for curve in curves)
    return f"Left: each episode adds a member. Right: accuracy of the first task in percent, {ends}"


def _growing(drawn: Sequence[Sequence[str]], tasks: Sequence[str], colours: Colours) -> list[str]:
    """A column for each member: the tasks that it was trained on, and so votes on."""
    size = CELL * (MEMBERS - 1)
    parts = [
        text(16, 26, "A zoo grows by one small network an episode", colours.text, 15, weight="600"),
        text(16, 46, "Frozen members vote on the tasks they were trained on", colours.quiet),
        f'<rect x="{LEFT - 18}" y="{TOP - 14}" width="{size + 36}" height="28" rx="14" fill="{colours.faint}"/>',
    ]
    parts += [
        text(LEFT - 26, TOP + CELL * row + 4, f"task {row + 1}", colours.quiet, end=True) for row in range(MEMBERS)
    ]
    for member, names in enumerate(drawn[:MEMBERS]):
        x = LEFT + CELL * member
        rows = sorted(tasks.index(name) for name in names)
        parts.append(
            f'<line x1="{x}" y1="{TOP + CELL * rows[0]}" x2="{x}" y2="{TOP + CELL * rows[-1]}" '
            f'stroke="{colours.past}" stroke-width="3"/>'
        )
        parts += [
            f'<circle cx="{x}" cy="{TOP + CELL * row}" r="8" fill="{colours.zoo if row == member else colours.past}"/>'
            for row in rows
        ]
        parts.append(text(x, TOP + size + 32, str(member + 1), colours.quiet, middle=True))
    voters = sum(tasks[0] in names for names in drawn[:MEMBERS])
    parts.append(text(LEFT + size + 28, TOP - 2, f"{voters} of {MEMBERS}", colours.text))
    parts.append(text(LEFT + size + 28, TOP + 14, "vote on task 1", colours.text))
    below = TOP + size + 52
    return [
        *parts,
        text(LEFT - 26, TOP + size + 32, "member", colours.quiet, end=True),
        f'<circle cx="{LEFT}" cy="{below - 4}" r="6" fill="{colours.zoo}"/>',
        text(LEFT + 12, below, "the new task", colours.quiet),
        f'<circle cx="{LEFT + 116}" cy="{below - 4}" r="6" fill="{colours.past}"/>',
        text(LEFT + 128, below, "past tasks, hard ones more often", colours.quiet),
    ]


def _axes(colours: Colours) -> list[str]:
    parts = [
        text(X[0] - 34, 26, "The first task, while 19 others are learned", colours.text, 15, weight="600"),
        text(X[0] - 34, 46, "Split-CIFAR100, one epoch a task: accuracy in %, 3 seeds", colours.quiet),
    ]
    for percent in range(LOWEST, HIGHEST + 1, 10):
        y = _y(percent)
        parts.append(f'<line x1="{X[0]}" y1="{y}" x2="{X[1]}" y2="{y}" stroke="{colours.faint}"/>')
        parts.append(text(X[0] - 10, y + 4, str(percent), colours.quiet, end=True))
    parts += [text(_x(episode), Y[1] + 20, str(episode), colours.quiet, middle=True) for episode in (1, 5, 10, 15, 20)]
    return [*parts, text((X[0] + X[1]) / 2, Y[1] + 40, "episode", colours.quiet, middle=True)]


def _drawn(curve: Curve) -> list[str]:
    pairs = list(zip(curve.means, curve.deviations, strict=True))
    above = [f"{_x(at)},{_y(mean + deviation)}" for at, (mean, deviation) in enumerate(pairs, 1)]
    below = [f"{_x(at)},{_y(mean - deviation)}" for at, (mean, deviation) in enumerate(pairs, 1)]
    line = " ".join(f"{_x(at)},{_y(mean)}" for at, mean in enumerate(curve.means, 1))
    dashes = ' stroke-dasharray="6 4"' if curve.dashed else ""
    return [
        f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="{curve.colour}" fill-opacity="0.15"/>',
        f'<polyline points="{line}" fill="none" stroke="{curve.colour}" stroke-width="2.5"{dashes}/>',
        text(X[1] + 10, _y(curve.means[-1]) + 4.5, f"{curve.label} {curve.means[-1]:.1f}", curve.colour, weight="600"),
    ]


def _x(episode: int) -> float:
    return round(X[0] + (X[1] - X[0]) * (episode - 1) / 19, 1)


def _y(percent: float) -> float:
    return round(Y[0] + (Y[1] - Y[0]) * (HIGHEST - percent) / (HIGHEST - LOWEST), 1)


def text(
    x: float,
    y: float,
    words: str,
    colour: str,
    size: int = 13,
    *,
    weight: str = "",
    middle: bool = False,
    end: bool = False,
) -> str:
    """Words that begin at a place, or are around it, or end there."""
    anchor = ' text-anchor="middle"' if middle else ' text-anchor="end"' if end else ""
    bold = f' font-weight="{weight}"' if weight else ""
    larger = f' font-size="{size}"' if size != 13 else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{larger}{bold}{anchor}>{words}</text>'


def write(results: Path, folder: Path) -> None:
    """Writes `zoo-light.svg` and `zoo-dark.svg` from the runs below `results`."""
    runs = all_runs([results])
    for theme in THEMES:
        save_text(folder / f"zoo-{theme}.svg", picture(runs, theme))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
