"""`python -m benchmarks [NAME...] [--quick] [--out DIR]`: runs benchmarks by name, or all; prints tables, writes JSON."""

import argparse
import os
from importlib import import_module
from pathlib import Path

NAMES = (
    "train-loop", "methods", "whole-run", "growth", "growing", "prediction", "input-pipeline", "workers", "jobs", "peers", "start-up", "serve",
    "leak", "scale", "year", "sure", "uneven", "features",
)  # fmt: skip


def main() -> None:
    """Each benchmark is a module with `measure(quick) -> list of tables`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and sizes: is all in order?")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="where the JSON goes")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown benchmark {sorted(unknown)[0]!r}; one of: {', '.join(NAMES)}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    from benchmarks.tables import publish

    for name in options.names:
        tables = import_module(f"benchmarks.{name.replace('-', '_')}").measure(quick=options.quick)
        publish(name, tables, options.out)


if __name__ == "__main__":
    main()
