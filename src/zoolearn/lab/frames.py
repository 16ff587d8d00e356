"""Runs as plain rows with unrounded numbers: for CSV, Parquet and data frames."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from zoolearn.errors import SettingsError
from zoolearn.files import Json, replace_file
from zoolearn.lab.groups import same_but_seeds
from zoolearn.lab.report import find_runs
from zoolearn.lab.streams import SHOWN, select_benchmarks, streams_of
from zoolearn.runs.results import Results

Row = dict[str, Json]


def frame(*paths: Path | str, benchmark: str | Sequence[str] = ()) -> Any:
    """The runs at or below the paths as a pandas or polars data frame, whichever is installed: a row for each run.

    They are on one benchmark, unless `benchmark` names several, or "all". Runs of one `group` differ in their seeds
    only. Measures are fractions; a setting has its full name (`recipe.epochs`), and is missing if a method does not
    have it.
    """
    wanted = [benchmark] if isinstance(benchmark, str) else benchmark
    rows = run_rows(select_benchmarks(list(find_runs(paths or ("runs",)).values()), wanted))
    try:
        import pandas
    except ImportError:
        try:
            import polars
        except ImportError as error:
            raise SettingsError("a data frame needs pandas or polars; install one: pip install pandas") from error
        return polars.DataFrame(rows, infer_schema_length=None)
    return pandas.DataFrame(rows)


def run_rows(results: Sequence[Results]) -> list[Row]:
    """A row for each run: its description, results and settings; all rows have the same columns."""
    groups = [sha256("".join(shared).encode()).hexdigest()[:SHOWN] for shared in same_but_seeds(results)]
    rows = [_row(*each) for each in zip(results, streams_of(results), groups, strict=True)]
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in columns} for row in _alike(rows, columns)]


def _row(run: Results, stream: str, group: str) -> Row:
    return {
        "method": run.method,
        "benchmark": stream,
        "seed": run.settings.get("seed"),
        "group": group,
        "tasks": len(run.tasks),
        "episodes": len(run.accuracy),
        "ended": "diverged" if run.diverged else "failed" if run.failed else "finished" if run.finished else None,
        **run.summary(),
        **{f"{phase}_seconds": seconds for phase, seconds in run.seconds.items()},
        "data": run.data,
        "source": json.dumps(run.code) if run.code else None,
        "parameters": run.parameters,
        "commit": run.environment.get("commit"),
        **{name: value for name, value in _flat(run.settings).items() if name != "seed"},
    }


def _flat(settings: Mapping[str, Json], above: str = "") -> Row:
    flat: Row = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[above + name] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _alike(rows: Sequence[Row], columns: Iterable[str]) -> Sequence[Row]:
    """The rows with strings throughout in columns that hold some, as typed columns need."""
    for name in columns:
        kinds = {type(row[name]) for row in rows if row.get(name) is not None}
        if len(kinds) > 1 and kinds != {int, float}:
            for row in rows:
                if row.get(name) is not None:
                    row[name] = row[name] if isinstance(row[name], str) else json.dumps(row[name])
    return rows


def rows_as_csv(rows: Sequence[Row]) -> str:
    """The rows as CSV with a header, numbers unrounded, missing values empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def save_parquet(file: Path, rows: Sequence[Row]) -> None:
    """Writes the rows as a Parquet file (extra `tables`)."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SettingsError("Parquet needs pyarrow; install it with: pip install 'zoolearn[tables]'") from error
    with replace_file(file) as part:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), part)
