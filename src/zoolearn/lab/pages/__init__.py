"""Self-contained HTML pages of runs and studies, which need no network, open on their conclusion and print.

Charts are drawings inside the page; its script only switches between them, shows tooltips, and changes the theme.
"""

import base64
import html
import re
import shlex
from collections.abc import Collection, Sequence
from importlib.resources import files
from itertools import groupby

from zoolearn.lab.figures import Figure
from zoolearn.lab.frames import rows_as_csv, run_rows
from zoolearn.lab.pages.charts import chart_html
from zoolearn.lab.plots import file_names
from zoolearn.lab.run_figures import section_figures
from zoolearn.lab.sections import Section, accuracies, conclusion, find_common, overview, run_table, sections
from zoolearn.lab.tables import Table
from zoolearn.runs.results import Results

SLIDER_FROM = 5  # this many frames with numbers for names are chosen with a slider
MOST_ROWS = 20  # of a table that stands open


def page(title: str, results: Sequence[Results], studies: Sequence[Figure], command: Sequence[str] = ()) -> str:
    """The page as HTML: conclusions benchmark by benchmark, then the figures of studies."""
    parts = sections(results) if results else []
    names = [part.title for part in parts]
    groups = [(name, list(members)) for name, members in groupby(studies, key=lambda figure: figure.section)]
    keys = file_names([*names, *(name for name, _ in groups)])
    alone = len(keys) == 1
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{_own('page.css')}</style>",
            "</head>",
            "<body>",
            f'<header><h1>{html.escape(title)}</h1><button class="theme" type="button">Light or dark</button></header>',
            "" if alone else _overview(parts, [name for name, _ in groups], keys),
            *(_section(part, key, alone) for part, key in zip(parts, keys, strict=False)),
            *(_studies(name, figures, key) for (name, figures), key in zip(groups, keys[len(parts) :], strict=True)),
            f"<footer>Made by <code>{html.escape(shlex.join(command))}</code>.</footer>" if command else "",
            f"<script>{_own('page.js')}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _overview(parts: Sequence[Section], studies: Sequence[str], keys: Sequence[str]) -> str:
    """How much there is, what is highest on each benchmark, and where the studies are."""
    runs = [run for part in parts for run in part.runs]
    methods, benchmarks = ({getattr(run, name) for run in runs} for name in ("method", "benchmark"))
    summary = f"{_count(runs, 'run')} of {_count(methods, 'method')} on {_count(benchmarks, 'benchmark')}."
    table = _table(overview(parts), links=keys[: len(parts)]) if parts else ""
    named = zip(studies, keys[len(parts) :], strict=True)
    links = [f'<a href="#{key}">{html.escape(name or "Studies")}</a>' for name, key in named]
    return f'<p class="conclusion">{summary if parts else ""}</p>{table}<p>{", ".join(links)}</p>'


def _count(things: Collection[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _all_of(runs: Collection[object]) -> str:
    return f"All {len(runs)} runs" if len(runs) > 1 else "The run"


def _section(part: Section, key: str, alone: bool) -> str:
    """The conclusion, one figure, one table; then the other figures, every run and the commands, folded."""
    drawn = [_figure(figure, f"{key}-{place}") for place, figure in enumerate(section_figures(part), 1)]
    table = accuracies(part)
    same = find_common(part)
    runs = [run for _, group in part.named for run in group.runs]
    commands = "\n".join(dict.fromkeys(run.made_by for run in part.runs))
    every = f"{_table(run_table(part))}<p>{_download(key, rows_as_csv(run_rows(runs)))}</p>" if runs else ""
    return "".join(
        [
            f'<section id="{key}"><h2>{html.escape(part.title)}</h2>',
            f'<p class="conclusion">{_sentence(part)}</p>',
            *drawn[:1],
            _table(table, 0, MOST_ROWS),
            _fold(f"{len(table.rows) - MOST_ROWS} more", _table(table, MOST_ROWS)) if table.rows[MOST_ROWS:] else "",
            f'<p class="note">The same in all: {html.escape(same)}.</p>' if same else "",
            *(f'<p class="note">{html.escape(note)}</p>' for note in table.notes),
            _fold(_count(drawn[1:], "more figure"), "".join(drawn[1:]), is_open=alone) if drawn[1:] else "",
            _fold(f"{_all_of(runs)}: accuracy, forgetting, cost", every) if runs else "",
            _fold("How it was made", f"<pre>{html.escape(commands)}</pre>"),
            "</section>",
        ]
    )


def _sentence(part: Section) -> str:
    """The conclusion, with the name that it begins with in bold."""
    name = part.finished[0][0] if part.finished else ""
    return f"<b>{html.escape(name)}</b>{html.escape(conclusion(part).removeprefix(name))}"


def _studies(name: str, figures: Sequence[Figure], key: str) -> str:
    drawn = "".join(_figure(figure, f"{key}-{place}", figure.commands) for place, figure in enumerate(figures, 1))
    found = " ".join(filter(None, (figure.headline() for figure in figures)))
    summary = f'<p class="conclusion">{html.escape(found)}</p>' if found else ""
    return f'<section id="{key}"><h2>{html.escape(name or "Studies")}</h2>{summary}{drawn}</section>'


def _fold(summary: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{html.escape(summary)}</summary>{content}</details>"


def _table(table: Table, first: int = 0, end: int | None = None, links: Sequence[str] = ()) -> str:
    """Rows of the table; `links` are where the first cell of each row leads."""
    head = "".join(f"<th{_kind(table, place)}>{html.escape(name)}</th>" for place, name in enumerate(table.header))
    rows = "".join(
        f"<tr>{''.join(_cell(table, row, place, links) for place in range(len(table.header)))}</tr>"
        for row in range(len(table.rows))[first:end]
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _kind(table: Table, place: int) -> str:
    return ' class="label"' if place < table.labels else ""


def _cell(table: Table, row: int, place: int, links: Sequence[str]) -> str:
    """What a row is about, its settings smaller; or a value, its deviation smaller and the best one bold."""
    words = table.rows[row][place]
    split = re.fullmatch(r"(.+?) ([(\[].+|± .+)", words)
    shown = _breakable(split[1]) + f" <small>{_breakable(split[2])}</small>" if split else _breakable(words)
    if links and place == 0:
        shown = f'<a href="#{links[row]}">{shown}</a>'
    return f"<td{_kind(table, place)}>{f'<b>{shown}</b>' if (row, place) in table.best else shown}</td>"


def _breakable(words: str) -> str:
    """Words that may go on in the next line after a `=` or `_`, where there is little room."""
    return html.escape(words).replace("=", "=<wbr>").replace("_", "_<wbr>")


def _figure(figure: Figure, key: str, commands: Sequence[str] = ()) -> str:
    names = list(figure.frames)
    chosen = names.index(figure.first) if figure.first in names else 0
    frames = "".join(
        f'<div class="frame"{"" if place == chosen else " hidden"}>{chart_html(chart, f"{key}-{place}-", figure.title)}</div>'
        for place, chart in enumerate(figure.frames.values())
    )
    made = _fold("How it was made", f"<pre>{html.escape(chr(10).join(commands))}</pre>") if commands else ""
    return (
        f'<figure id="{key}"><h3>{html.escape(figure.title)}</h3>{_chooser(figure, chosen)}{frames}'
        f"<figcaption>{html.escape(figure.caption)} {_download(key, figure.csv())}</figcaption>{made}</figure>"
    )


def _chooser(figure: Figure, chosen: int) -> str:
    names = list(figure.frames)
    if len(names) < 2:
        return ""
    label = html.escape(figure.choice)
    if len(names) >= SLIDER_FROM and all(name.replace(".", "", 1).isdigit() for name in names):
        known = html.escape("|".join(names))
        slider = f'<input type="range" min="0" max="{len(names) - 1}" value="{chosen}" data-names="{known}">'
        return f'<label class="choice">{label}: <output>{html.escape(names[chosen])}</output> {slider}</label>'
    options = "".join(
        f'<option value="{place}"{" selected" if place == chosen else ""}>{html.escape(name)}</option>'
        for place, name in enumerate(names)
    )
    return f'<label class="choice">{label} <select>{options}</select></label>'


def _download(name: str, content: str) -> str:
    data = base64.b64encode(content.encode()).decode()
    return f'<a download="{name}.csv" href="data:text/csv;charset=utf-8;base64,{data}">Data (CSV)</a>'


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
