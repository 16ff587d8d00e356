"""What a benchmark found: a table on the screen and the same in JSON, with the environment record."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from zoolearn.runs.environment import environment


@dataclass
class Table:
    """Named columns, one list a row; `notes` say what is compared with what."""

    title: str
    columns: list[str]
    rows: list[list[object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def publish(name: str, tables: list[Table], folder: Path) -> None:
    """Prints the tables of a benchmark and writes them to `folder/NAME.json`."""
    console = Console(width=140)
    for table in tables:
        shown = RichTable(
            *table.columns, title=f"{name}: {table.title}", title_justify="left", box=None, padding=(0, 2)
        )
        for row in table.rows:
            shown.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
        console.print(shown)
        for note in table.notes:
            console.print(f"  {note}", style="dim")
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "environment": environment(),
        "load": os.getloadavg(),
        "tables": [asdict(table) for table in tables],
    }
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
