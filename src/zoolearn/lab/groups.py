"""Groups of runs that differ only in their seeds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from zoolearn.runs.results import Results
from zoolearn.runs.spec import DATA_SEEDS, ORDERS


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seeds, and have come equally far."""

    runs: tuple[Results, ...]
    lost: tuple[Results, ...] = ()  # others like them, which diverged or failed
    data: str = ""  # the digest of their data, if known

    @property
    def first(self) -> Results:
        """A run with the group's method, benchmark and settings."""
        return (self.runs or self.lost)[0]

    def values(self, measure: str = "average_accuracy") -> list[float | None]:
        """A measure of each run; None if it has none."""
        return [run.summary()[measure] for run in self.runs]

    def recorded(self, measure: str) -> list[float]:
        """A measure of those runs that recorded it: older ones may lack it."""
        return [value for value in self.values(measure) if value is not None]

    def mean(self, measure: str = "average_accuracy") -> float | None:
        """The mean over runs; None if one has no value, or there is none."""
        known = [value for value in self.values(measure) if value is not None]
        return fmean(known) if known and len(known) == len(self.runs) else None

    @property
    def seeds(self) -> str:
        """The number of runs, of orders if there are several, and of runs that diverged or failed."""
        return count_seeds(self.runs) + self.losses

    @property
    def losses(self) -> str:
        """How many diverged or failed, after a comma; empty if none did."""
        diverged = sum(bool(run.diverged) for run in self.lost)
        known = {"diverged": diverged, "failed": len(self.lost) - diverged}
        whole = len(self.runs) + len(self.lost)
        return "".join(f", {count} of {whole} {how}" for how, count in known.items() if count)


def mean_accuracy(run: Results) -> float:
    """The average accuracy of a run; 0 if it has none."""
    return run.summary()["average_accuracy"] or 0.0


def count_seeds(runs: Sequence[Results]) -> str:
    """The number of runs and, if they differ in orders, of orders."""
    orders = len({order_of(run) for run in runs})
    if orders < 2:
        return str(len(runs))
    return f"{orders} orders" if orders == len(runs) else f"{len(runs)}, {orders} orders"


def order_of(run: Results) -> str:
    """The order of tasks, classes and pixels of a run, as one string."""
    return json.dumps([run.meetings, *(run.spec.options.get(name) for name in ORDERS)])


def group_by_settings(results: Sequence[Results], lost: bool = False) -> list[Group]:
    """Groups of runs by settings, sorted by benchmark; each seed counts once.

    Groups whose runs all diverged or failed are left out unless `lost`: they have no values.
    """
    found = [group for group in group_runs(one_per_seed(results)) if group.runs or lost]
    return sorted(found, key=lambda group: group.first.stream)


def one_per_seed(results: Sequence[Results]) -> list[Results]:
    """Of equal runs the one that has come furthest, or the newest."""
    furthest: dict[tuple[tuple[str, str], str], Results] = {}
    for place, (run, identity) in enumerate(zip(results, same_but_seeds(results), strict=True)):
        seed = seeds_of(run) if "seed" in run.settings else f"unknown {place}"
        kept = furthest.get((identity, seed))
        if kept is None or (len(run.accuracy), newness(run)) > (len(kept.accuracy), newness(kept)):
            furthest[identity, seed] = run
    return list(furthest.values())


def newness(run: Results) -> tuple[bool, str]:
    """A sort key for equal runs: a known commit first, then the later one."""
    begun = str(run.sittings[0].get("begun", "")) if run.sittings else ""
    return isinstance(run.environment.get("commit"), str), begun


def seeds_of(run: Results) -> str:
    """The seeds of learner, samples and order as one string, with the order itself, which may be made in Python."""
    return json.dumps([run.spec.seed, run.meetings, *(run.spec.options.get(name) for name in DATA_SEEDS)])


def group_runs(results: Sequence[Results]) -> list[Group]:
    """Groups of runs by everything but seeds, and by how far they have come."""
    alike: dict[tuple[tuple[str, str], int], list[Results]] = {}
    lost: dict[tuple[str, str], list[Results]] = {}
    for run, identity in zip(results, same_but_seeds(results), strict=True):
        if run.diverged or run.failed:
            lost.setdefault(identity, []).append(run)
        else:
            alike.setdefault((identity, len(run.accuracy)), []).append(run)
    furthest = dict(sorted(alike, key=lambda key: key[1]))
    groups = [
        Group(tuple(runs), tuple(lost.pop(identity, ())) if furthest[identity] == length else (), identity[1])
        for (identity, length), runs in alike.items()
    ]
    return [*groups, *(Group((), tuple(runs), data) for (_, data), runs in lost.items())]


def same_but_seeds(results: Sequence[Results]) -> list[tuple[str, str]]:
    """What runs must share to be averaged: everything but seeds and orders decided by them; and the data.

    Older records lack their data; it is taken to be that of similar runs, if all of these have the same.
    """
    families = [json.dumps([run.spec.family, sorted(run.tasks), code_of(run), run.parameters]) for run in results]
    known: dict[str, set[str]] = {}
    for run, family in zip(results, families, strict=True):
        known.setdefault(family, set()).update({run.data} - {""})
    return [
        (family, run.data or (*known[family], "")[0] if len(known[family]) < 2 else run.data)
        for run, family in zip(results, families, strict=True)
    ]


def code_of(run: Results) -> dict[str, str]:
    """Digests of the caller's code, except the function of a benchmark, whose data are compared instead."""
    return {name: digest for name, digest in run.code.items() if not (run.data and name.startswith("benchmark "))}


def episodes_of(run: Results) -> str:
    """The progress of a run, as met/all tasks."""
    return f"{len(run.accuracy)}/{len(run.meetings)}"
