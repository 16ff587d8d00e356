"""Which benchmark runs are on, and the choice of one: numbers of several are never mixed.

Benchmarks are known by name; if one name stands for several sets of data, as may be with the caller's own, they are
distinguished by the digest of the data.
"""

import re
from collections.abc import Sequence

from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.groups import Group, same_but_seeds
from zoolearn.runs.results import Results

LONGEST_VALUE = 24
LONGEST_NUMBER = 8  # what a search proposes has 17 digits
SHOWN = 8  # characters of a digest
ALL = "all"


def tasks_of(run: Results) -> str:
    """The benchmark, and how it was cut: what runs must share to be compared.

    >>> cut = {"benchmark": {"first_tasks": 4, "task_order": 1}}
    >>> tasks_of(Results(method="er", benchmark="toys", tasks=["a"], settings=cut))
    'toys, first tasks 4'
    """
    options = run.spec.shown_options
    cuts = [f"{name.replace('_', ' ')} {short(str(value))}" for name, value in options.items() if name != "task_order"]
    return ", ".join([run.stream, *cuts])


def tasks_of_groups(groups: Sequence[Group]) -> list[str]:
    """The tasks of each group, with their data if one name stands for several."""
    pairs = [(tasks_of(group.first), group.data) for group in groups]
    return [tasks + word for (tasks, _), word in zip(pairs, _words_for_data(pairs), strict=True)]


def streams_of_groups(groups: Sequence[Group]) -> list[str]:
    """The benchmark of each group."""
    pairs = [(tasks_of(group.first), group.data) for group in groups]
    return [group.first.stream + word for group, word in zip(groups, _words_for_data(pairs), strict=True)]


def streams_of(results: Sequence[Results]) -> list[str]:
    """The benchmark of each run."""
    pairs = [(tasks_of(run), data) for run, (_, data) in zip(results, same_but_seeds(results), strict=True)]
    return [run.stream + word for run, word in zip(results, _words_for_data(pairs), strict=True)]


def _words_for_data(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The data of each entry in words, if others have the same tasks with other data; else empty."""
    known: dict[str, set[str]] = {}
    for tasks, data in pairs:
        known.setdefault(tasks, set()).update({data} - {""})
    return [f", data {data[:SHOWN] or 'unknown'}" if len(known[tasks]) > 1 else "" for tasks, data in pairs]


def select_benchmarks(results: Sequence[Results], wanted: Sequence[str]) -> list[Results]:
    """The runs on the wanted benchmarks, in that order, or on `all`; raises if none is named and there are several."""
    names = streams_of(results)
    there = [*dict.fromkeys(names)]
    if ALL in wanted:
        return list(results)
    for name in wanted:
        if name not in there and not _alike(name, results, names):
            raise SettingsError(unknown_name("benchmark", name, there))
    chosen = [name for want in wanted for name in ([want] if want in there else _alike(want, results, names))]
    if len(chosen or there) > max(1, len(wanted)):
        shown = "; ".join(chosen or there)
        raise SettingsError(
            f"these runs are on {len(chosen or there)} benchmarks ({shown}), whose numbers must not be put together; choose "
            "with --benchmark NAME... (in Python benchmark=NAME), or say that all are meant: --benchmark all"
        )
    order = [*dict.fromkeys(chosen)] or there
    return [run for each in order for run, name in zip(results, names, strict=True) if name == each]


def _alike(name: str, results: Sequence[Results], names: Sequence[str]) -> list[str]:
    """The benchmarks of this name, with any data."""
    return [*dict.fromkeys(full for run, full in zip(results, names, strict=True) if run.stream == name)]


def short(value: str) -> str:
    """A value of a setting, shortened."""
    if len(value) > LONGEST_NUMBER and re.fullmatch(r"-?\d+\.\d+", value):
        return f"{float(value):.4g}"
    return value if len(value) <= LONGEST_VALUE else f"…{value[1 - LONGEST_VALUE :]}"
