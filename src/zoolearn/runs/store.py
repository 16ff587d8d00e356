"""A run on disk: append-only, one small record renamed into place per episode, so that a crash leaves the last one whole.

run.json                    method, benchmark, settings, data fingerprint; written once
sittings/0001.json          when the run was begun or continued, after how many episodes, and on what
episodes/0001.json          what episode 1 did and changed, and the checksums of the files that it wrote
members/0001.safetensors    the tensors of a saved field, in files that are never rewritten (test_votes/, net/ and so on likewise)
checkpoints/                a training under way
steps.jsonl                 losses and accuracies within trainings, if they were asked for; tensorboard/ likewise
results.json                all of it gathered, for people and programs to read
"""

import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from zoolearn.errors import SettingsError, StoreError, unknown_name
from zoolearn.files import Json, load_json, load_tensors, save_json, save_tensors
from zoolearn.methods.learner import Episode, Learner
from zoolearn.methods.registry import METHODS, learner_from
from zoolearn.runs.decode import decode
from zoolearn.runs.results import Costs, Results, Untold
from zoolearn.runs.state import State, restore

FORMAT = 3
PASSING = (".lock", ".heartbeat", "sittings", "steps.jsonl", "tensorboard")  # there before anything is saved


@dataclass(frozen=True)
class EpisodeRecord:
    """The record of an episode: what it did, the accuracies that it changed, the costs so far, its files."""

    episode: Episode
    accuracy: dict[str, float]
    costs: Costs
    learner: dict[str, Json]
    files: dict[str, str]  # checksums of the learner's state, by name
    untold: Untold | None = None  # measured in the last episode
    unique: dict[str, float] | None = None  # the same


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    @property
    def exists(self) -> bool:
        return (self.path / "run.json").exists()

    def begin(self, header: Mapping[str, Json], *, anyway: bool = False) -> list[str]:
        """Starts a new run, or checks that the one here is the same; one that has saved nothing may be replaced.

        With `anyway`, the caller's code may have changed; returns what has.
        """
        found = [entry.name for entry in self.path.iterdir()] if self.path.exists() else []
        saved = [name for name in found if name not in PASSING and not name.endswith(".part")]
        if self.exists and saved != ["run.json"]:
            changed = self.check_other(header, anyway=anyway)
            remove_leftovers(self.path)
            return changed
        if self.exists:
            self.header()  # raises on anything that must not be replaced
        elif saved:
            raise StoreError(
                f"{self.path} holds {saved[0]!r} but no run (run.json is missing); give a new or an empty folder"
            )
        remove_leftovers(self.path)
        for name in ("sittings", "tensorboard"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / "steps.jsonl").unlink(missing_ok=True)
        save_json(self.path / "run.json", {"format": FORMAT, **header}, indent=1)
        return []

    def sittings(self) -> list[dict[str, Json]]:
        """When the run was worked on, from which episode, and in which environment."""
        return [load_json(path) for path in sorted((self.path / "sittings").glob("[0-9]*.json"))]

    def begin_sitting(self, sitting: Mapping[str, Json]) -> None:
        """Records that the run is begun or resumed now."""
        number = 1 + max((int(path.stem) for path in (self.path / "sittings").glob("[0-9]*.json")), default=0)
        save_json(self.path / "sittings" / f"{number:04d}.json", sitting)

    def check_other(self, header: Mapping[str, Json], *, anyway: bool = False) -> list[str]:
        """Raises an error that names the differences if the run here is not the one that `header` describes.

        With `anyway`, the caller's code may differ; returns the changes.
        """
        before = self.header()
        changed = [f"the source of {name} was changed" for name in _find_changes(before["source"], header["source"])]
        if changed and not anyway:
            raise SettingsError(
                f"{self.path} was begun with other code: {'; '.join(changed)}. Restore it, use another folder, or go on "
                "with it (--continue-anyway), which is recorded"
            )
        _check_difference(self.path, {**before, "source": {}}, {**header, "source": {}})
        return changed

    def header(self) -> dict[str, Json]:
        """The description that the run began with."""
        if not self.exists:
            if (self.path / "zoo.json").exists():
                raise StoreError(
                    f"{self.path} is a zoo, not the folder of a run; open it with `zoolearn.open`, "
                    f"or see what it knows with `zoo show {self.path}`"
                )
            raise StoreError(f"{self.path} holds no run (run.json is missing); give the folder of a `zoo run`")
        header = load_json(self.path / "run.json")
        if header.pop("format", None) != FORMAT:
            raise StoreError(
                f"{self.path} has another format than this version's {FORMAT}; use the zoolearn that wrote it or a newer one"
            )
        return header

    def commit(
        self,
        number: int,
        episode: Episode,
        accuracy: dict[str, float],
        costs: Costs,
        snapshot: State,
        untold: Untold | None = None,
        unique: dict[str, float] | None = None,
        *,
        grows: bool,
        under_way: bool = False,
    ) -> None:
        """Makes an episode part of the run: its files first, then the record that names them."""
        files = {name: save_tensors(self._file(name), tensors) for name, tensors in snapshot.files.items()}
        record = EpisodeRecord(episode, accuracy, costs, dict(snapshot.info), files, untold, unique)
        save_json(self._path(number), msgspec.to_builtins(record))
        self.tidy(number, grows=grows, under_way=under_way)

    def tidy(self, number: int, *, grows: bool, under_way: bool = False) -> None:
        """Removes what is not needed after episode `number`: finished checkpoints, and nets that it replaced."""
        if not under_way:
            shutil.rmtree(self.checkpoints, ignore_errors=True)
        if not grows and number > 1:
            files = self._record(number).files
            for name in self._record(number - 1).files:
                if name not in files:
                    self._file(name).unlink(missing_ok=True)

    def strip(self) -> None:
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != Results.FILE:
                entry.unlink()

    def results(self) -> Results | None:
        """The content of results.json, None before the first episode; raises if it was damaged or altered."""
        if not (self.path / Results.FILE).exists():
            return None
        try:
            return Results.load(self.path)
        except StoreError as error:
            raise StoreError(f"{error}; or remove it: continuing the run writes it again") from error

    def episodes(self) -> list[EpisodeRecord]:
        numbers = sorted(int(path.stem) for path in (self.path / "episodes").glob("[0-9]*.json"))
        if numbers != list(range(1, len(numbers) + 1)):
            missing = next(number for number in range(1, len(numbers) + 2) if number not in numbers)
            raise StoreError(f"{self._path(missing)} is missing although later episodes are there; restore it")
        results = self.results()
        if results is not None and len(results.accuracy) > len(numbers):  # it is written after the record
            missing = len(numbers) + 1
            raise StoreError(f"{self._path(missing)} is missing although {Results.FILE} tells of it; restore it")
        return [self._record(number) for number in numbers]

    def snapshots(self, records: list[EpisodeRecord], *, grows: bool) -> list[State]:
        """The states saved in these episodes (in the last one, if each replaced the one before), checked."""
        found = []
        for record in records if grows else records[-1:]:
            files = {name: load_tensors(self._file(name), digest)[0] for name, digest in record.files.items()}
            found.append(State(record.learner, files))
        return found

    def _file(self, name: str) -> Path:
        folder, _, number = name.partition("/")
        if not (folder.isidentifier() and number.isdigit()):
            raise StoreError(
                f"{self.path} names a file {name!r}, which zoolearn does not write; the record was altered"
            )
        return self.path / folder / f"{number}.safetensors"

    def _record(self, number: int) -> EpisodeRecord:
        path = self._path(number)
        return decode(load_json(path), EpisodeRecord, str(path), "the record of an episode")

    def _path(self, number: int) -> Path:
        return self.path / "episodes" / f"{number:04d}.json"


def remove_leftovers(folder: Path) -> None:
    """Deletes what an interrupted `replacing` left behind, and safetensors when it was writing for it."""
    for pattern in (".*.part", ".tmp*"):
        for part in folder.rglob(pattern):
            part.unlink(missing_ok=True)


def load(path: Path | str, names: Mapping[str, Callable[..., Any]] | None = None) -> Learner:
    """The learner of a run, ready to predict; it needs no data.

    `names` gives the caller's own backbone, functions or class of learners by the names that the run has for them.

    >>> load("nowhere")
    Traceback (most recent call last):
    ...
    zoolearn.errors.StoreError: nowhere holds no run (run.json is missing); give the folder of a `zoo run`
    """
    folder = RunFolder(Path(path))
    header = folder.header()
    name, own = header["method"], names or {}
    if name not in METHODS and name not in own:
        raise StoreError(f"{path}: {unknown_name('method', name, METHODS)}; pass your own as names={{{name!r}: ...}}")
    method: Any = own[name] if name in own else METHODS[name]
    learner: Learner = learner_from(method, header["settings"], names)
    records = folder.episodes()
    if not records:
        raise StoreError(f"{path} has not finished its first episode; continue the run first")
    restore(learner, folder.snapshots(records, grows=learner.grows))
    return learner


def check_unseen(folder: Path) -> None:
    """Raises if a folder does not exist: on another machine that means it is not shared."""
    if not folder.is_dir():
        raise StoreError(
            f"{platform.node()} sees no folder {folder}; run folders must be on storage that all machines share"
        )


def _find_changes(before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _check_difference(path: Path, before: Mapping[str, Json], now: Mapping[str, Json]) -> None:
    flat_before, flat_now = _flat(before), _flat(now)
    differences = [
        f"{name} was {flat_before.get(name, 'not set')}, now {flat_now.get(name, 'not set')}"
        for name in flat_before | flat_now
        if flat_before.get(name) != flat_now.get(name) and not name.startswith("environment.")
    ]
    if differences:
        named = [text for text in differences if not text.startswith("data was")]
        listed = named or ["the data of the benchmark is not what the run began with"]
        raise SettingsError(f"{path} was begun with other settings: {'; '.join(listed)}. Use them, or another folder")


def _flat(content: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    flat: dict[str, Json] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, "" if name in ("settings", "recipe") else f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
