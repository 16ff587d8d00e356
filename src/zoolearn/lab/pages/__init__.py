"""Self-contained pages: runs, figures and studies in one HTML file that needs no network and is small enough to mail.

The charts are drawn in the reader's browser by plotly.js (its `cartesian` bundle, MIT licence, in the folder `plotly`),
which the page carries compressed: about 0.66 MB, whatever the number of figures.
"""

import base64
import csv
import gzip
import html
import io
import json
import shlex
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby

from zoolearn.files import Json
from zoolearn.lab.figures import Figure
from zoolearn.lab.tables import Table

PLOTLY_VERSION = "4.1.1"
NOTICE = f"Charts by plotly.js {PLOTLY_VERSION}, copyright 2012-2026 Plotly, Inc., MIT licence."
SLIDER_FROM = 5  # so many frames with numbers for names are chosen with a slider


def page(
    title: str, tables: Sequence[tuple[str, Table]], figures: Sequence[Figure], command: Sequence[str] = ()
) -> str:
    """The page as HTML: tables first, then the figures by section."""
    sections = [(name, list(members)) for name, members in groupby(figures, key=lambda figure: figure.section)]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en" data-theme="light">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{_own('page.css')}</style>",
            "</head>",
            "<body>",
            f"<header><div><h1>{html.escape(title)}</h1></div>",
            '<button id="theme" type="button" aria-label="light or dark">Dark</button></header>',
            _navigation(sections),
            *(_table(name, table) for name, table in tables),
            *(_section(name, members) for name, members in sections),
            _footer(command),
            f'<script type="application/json" id="figures">{_json([figure.to_json() for figure in figures])}</script>',
            *(_library() if figures else ()),
            f"<script>{_own('page.js')}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _navigation(sections: Sequence[tuple[str, Sequence[Figure]]]) -> str:
    links = [f'<a href="#{_identifier(name)}">{html.escape(name)}</a>' for name, _ in sections if name]
    return f"<nav>{''.join(links)}</nav>" if len(links) > 1 else ""


def _table(name: str, table: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=label' if place < table.labels else ''}>{html.escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )

    rows = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in table.rows)
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in table.notes)
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows((table.header, *table.rows))
    return (
        f'<section><h2 id="{_identifier(name)}">{html.escape(name)}</h2>'
        f'<div class="wide"><table><thead><tr>{cells(table.header, "th")}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'{notes}<div class="tools">{_download(_identifier(name), lines.getvalue())}</div></section>'
    )


def _section(name: str, figures: Sequence[Figure]) -> str:
    heading = f'<h2 id="{_identifier(name)}">{html.escape(name)}</h2>' if name else ""
    return f"<section>{heading}{''.join(map(_figure, figures))}</section>"


def _figure(figure: Figure) -> str:
    commands = "\n".join(figure.commands)
    made = (
        f"<details><summary>How it was made</summary><pre>{html.escape(commands)}</pre></details>" if commands else ""
    )
    return (
        f'<figure id="{html.escape(figure.name)}"><h3>{html.escape(figure.title)}</h3>{_chooser(figure)}'
        f'<div class="chart" id="chart-{html.escape(figure.name)}" role="img" aria-label="{html.escape(figure.title)}"></div>'
        f"<figcaption>{html.escape(figure.caption)}</figcaption>"
        f'<div class="tools">{_download(figure.name, figure.csv())}</div>{made}</figure>'
    )


def _chooser(figure: Figure) -> str:
    if len(figure.frames) < 2:
        return ""
    names = list(figure.frames)
    chosen = names.index(figure.first) if figure.first in names else 0
    identity, label = html.escape(figure.name), html.escape(figure.choice)
    if len(names) >= SLIDER_FROM and all(name.replace(".", "", 1).isdigit() for name in names):
        slider = f'<input type="range" data-figure="{identity}" min="0" max="{len(names) - 1}" value="{chosen}">'
        value = f'<b id="value-{identity}">{html.escape(names[chosen])}</b>'
        return f'<div class="tools"><label>{label}: {value} {slider}</label></div>'
    options = "".join(
        f'<option value="{place}"{" selected" if place == chosen else ""}>{html.escape(name)}</option>'
        for place, name in enumerate(names)
    )
    return f'<div class="tools"><label>{label} <select data-figure="{identity}">{options}</select></label></div>'


def _download(name: str, content: str) -> str:
    data = base64.b64encode(content.encode()).decode()
    return f'<a class="button" download="{html.escape(name)}.csv" href="data:text/csv;charset=utf-8;base64,{data}">Data (CSV)</a>'


def _footer(command: Sequence[str]) -> str:
    made = f" Made by <code>{html.escape(shlex.join(command))}</code>." if command else ""
    return f"<footer>{html.escape(NOTICE)}{made}</footer>"


def _identifier(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def _json(content: Json) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _library() -> tuple[str, ...]:
    return (f"<!-- {NOTICE} -->", f'<script type="text/plain" id="library">{_packed_library()}</script>')


@cache
def _packed_library() -> str:
    source = files(__package__).joinpath("plotly/plotly-cartesian.min.js").read_bytes()
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode()
