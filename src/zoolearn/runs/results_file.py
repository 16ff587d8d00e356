"""Writes `results.json` of a running run, at a bounded cost.

The file holds the whole accuracy matrix, so writing it costs more with every episode. It is written after each of the
first episodes, later as often as takes at most one percent of the time, and whenever the run ends or is stopped, also
by an error or Ctrl-C. Every episode is kept in its own record (`episodes/`) before that: a killed run loses nothing,
and the same command updates the file.
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import msgspec

from zoolearn.runs.results import Results

FIRST_EPISODES = 32  # more than any of the paper's benchmarks has
LONGEST_SHARE = 0.01  # of the time since the last writing


class ResultsFile:
    """Decides when the results are written into a folder."""

    def __init__(self, results: Results, folder: Path) -> None:
        self.results, self.folder = results, folder
        self.rows = self.count = len(results.accuracy)  # in the file, and with a record of their own
        self.costs, self.untold, self.unique = results.costs, results.untold, results.unique
        self.cost, self.written = 0.0, perf_counter()

    def update(self) -> None:
        """Notes that the latest episode is recorded, and writes the file if that is cheap enough."""
        self.count = len(self.results.accuracy)
        self.costs, self.untold, self.unique = self.results.costs, self.results.untold, self.results.unique
        waited = perf_counter() - self.written
        if self.count <= FIRST_EPISODES or self.cost <= LONGEST_SHARE * waited:
            self._write(self.results)

    def complete(self) -> None:
        """Writes recorded episodes that are not in the file yet."""
        if self.rows < self.count:
            rows, records = self.results.accuracy[: self.count], self.results.episodes[: self.count]
            costs = msgspec.structs.asdict(self.costs)
            self._write(
                replace(self.results, accuracy=rows, episodes=records, untold=self.untold, unique=self.unique, **costs)
            )

    def _write(self, results: Results) -> None:
        started = perf_counter()
        results.save(self.folder)
        self.rows = len(results.accuracy)
        self.written = perf_counter()
        self.cost = self.written - started
