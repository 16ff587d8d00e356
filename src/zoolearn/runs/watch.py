"""The status of runs, read from their folders without touching them."""

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import time

from zoolearn.errors import StoreError
from zoolearn.runs.heartbeat import read_heartbeat
from zoolearn.runs.store import EpisodeRecord, RunFolder
from zoolearn.training.fit import Progress


@dataclass(frozen=True)
class RunStatus:
    """The status of a run, read from its folder."""

    path: Path
    method: str
    benchmark: str
    seed: int | None
    running: bool
    episodes: int
    tasks: int
    loss: float | None = None  # of the training under way, else of the last episode
    accuracy: float | None = None  # average over the tasks met
    seconds: float = 0.0  # spent in finished episodes
    seconds_left: float | None = None
    training: Progress | None = None  # the one under way
    problem: str = ""  # why its files cannot be read

    @property
    def state(self) -> str:
        """In a word: damaged, finished, running or stopped."""
        if self.problem:
            return "damaged"
        return "finished" if self.episodes == self.tasks else "running" if self.running else "stopped"


def find_folders(paths: Iterable[Path]) -> list[Path]:
    """The folders of runs, begun or finished, among the paths and below them."""
    found: dict[Path, None] = {}
    for path in paths:
        for file in sorted(path.rglob("run.json")):
            found.setdefault(file.parent)
    return list(found)


def read_status(path: Path, now: float | None = None) -> RunStatus:
    """What the folder of a run says at this moment."""
    folder = RunFolder(path)
    header = folder.header()
    records = folder.episodes()
    episodes = len(header.get("arrivals") or header["tasks"])
    running = _is_running(path)
    training = read_heartbeat(path) if running else None
    known: dict[str, float] = {}
    for record in records:
        known |= record.accuracy
    loss = training.loss if training else records[-1].episode.loss if records else None
    return RunStatus(
        path=path,
        method=header["method"],
        benchmark=header["benchmark"],
        seed=header["settings"].get("seed"),
        running=running,
        episodes=len(records),
        tasks=episodes,
        loss=loss,
        accuracy=fmean(known.values()) if known else None,
        seconds=_seconds(records),
        seconds_left=_seconds_left(records, episodes, _seconds_since(path, len(records), now) if running else 0.0),
        training=training,
    )


def _seconds(records: list[EpisodeRecord]) -> float:
    return sum(sum(record.episode.seconds.values()) for record in records)


def _seconds_left(records: list[EpisodeRecord], tasks: int, gone: float) -> float | None:
    """The remaining time at the pace so far: by tasks trained on, as many per episode as in the latest one."""
    trained = sum(len(record.episode.tasks) for record in records)
    if not trained:
        return None
    left = _seconds(records) / trained * len(records[-1].episode.tasks) * (tasks - len(records))
    return max(0.0, left - gone)


def _seconds_since(path: Path, episodes: int, now: float | None) -> float:
    """Seconds since the latest episode was written."""
    file = path / "episodes" / f"{episodes:04d}.json"
    try:
        return max(0.0, (time() if now is None else now) - file.stat().st_mtime)
    except OSError:
        return 0.0


def _is_running(path: Path) -> bool:
    """Whether the process named in the lock is alive; one on another machine is assumed to be.

    The lock itself is not tried: a run that starts in that moment would fail.
    """
    try:
        name = (path / ".lock").read_text(encoding="utf-8")
    except OSError:
        return False
    match = re.fullmatch(r"process (\d+) on (.*)", name.strip())
    if match is None:
        return False
    if match[2] != platform.node():
        return True
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_statuses(paths: Iterable[Path]) -> list[RunStatus]:
    """The status of all runs below the paths, also of those that cannot be read."""
    seen = []
    for path in find_folders(paths):
        try:
            seen.append(read_status(path))
        except StoreError as error:
            if not _is_running(path):  # else its files are being written at this moment
                seen.append(RunStatus(path, "", "", None, False, 0, 0, problem=str(error)))
    return seen
