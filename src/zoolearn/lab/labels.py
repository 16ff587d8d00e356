"""Names for groups of runs, and the settings in which they differ or agree."""

import json
from collections.abc import Sequence

from zoolearn.lab.groups import Group, code_of, episodes_of
from zoolearn.lab.presets import preset_of
from zoolearn.lab.streams import SHOWN, short, tasks_of_groups
from zoolearn.runs.results import Results

LONGEST_LABEL = 28


def labels(groups: Sequence[Group]) -> list[str]:
    """A unique name for each group of a benchmark: the method, and what distinguishes it from others of the method.

    That is its settings that are not default, or the name of their preset if they are many, and a number if need
    be.
    """
    own = own_settings(groups)
    settings = shorten_settings(groups, own, own)
    methods = [(group.first.stream, group.first.method) for group in groups]
    names: list[tuple[str, str]] = []
    for group, method, shown, tasks in zip(groups, methods, settings, tasks_of_groups(groups), strict=True):
        name = f"{group.first.method} ({shown})" if shown and methods.count(method) > 1 else group.first.method
        name += "" if group.first.finished or not group.runs else f", {episodes_of(group.first)} episodes"
        same = sum(other == (tasks, name) or other[1].startswith(f"{name} #") for other in names if other[0] == tasks)
        names.append((tasks, f"{name} #{same + 1}" if same else name))
    return [name for _, name in names]


def shorten_settings(groups: Sequence[Group], settings: Sequence[str], otherwise: Sequence[str]) -> list[str]:
    """Settings, or the name of their preset if they are long, with the epochs if several have that name."""
    presets = [
        preset_of(group.first.spec) if len(shown) > LONGEST_LABEL else ""
        for group, shown in zip(groups, settings, strict=True)
    ]
    names = [(group.first.stream, group.first.method, preset) for group, preset in zip(groups, presets, strict=True)]
    short = []
    for group, shown, brief, name in zip(groups, settings, otherwise, names, strict=True):
        preset = name[-1]
        if preset and names.count(name) > 1:
            preset += f", epochs={group.first.settings.get('recipe', {}).get('epochs')}"
        short.append(shown if len(shown) <= LONGEST_LABEL else preset or brief)
    return short


def own_settings(groups: Sequence[Group]) -> list[str]:
    """The settings of each group that are not default and that not all groups of its method and benchmark share."""
    return _tell_apart(groups, [_find_changes(group.first) for group in groups], across_methods=False)


def _find_changes(run: Results) -> dict[str, str]:
    """Settings that are not default, and options of the benchmark, by the names of their flags."""
    shown = {*run.spec.changes, *run.spec.shown_options} - {"seed"}
    return {**{name: value for name, value in _shown_settings(run).items() if name in shown}, **_shown_code(run)}


def differing_settings(groups: Sequence[Group]) -> list[str]:
    """The settings of each group in which the groups of its benchmark differ."""
    return _tell_apart(
        groups, [{**_shown_settings(group.first), **_shown_code(group.first)} for group in groups], across_methods=True
    )


def _tell_apart(groups: Sequence[Group], flat: Sequence[dict[str, str]], across_methods: bool) -> list[str]:
    """The settings of each group in which others of its method differ or, with `across_methods`, of any method."""
    kinds = [(group.first.stream, group.first.method) for group in groups]
    shown = []
    for kind, mine in zip(kinds, flat, strict=True):
        names = []
        for name in mine:
            others = [
                settings.get(name)
                for other, settings in zip(kinds, flat, strict=True)
                if other == kind or (across_methods and other[0] == kind[0] and name in settings)
            ]
            if name != "seed" and len({*others}) > 1:
                names.append(name)
        shown.append(", ".join(f"{name}={short(mine[name])}" for name in names))
    return shown


def equal_settings(groups: Sequence[Group]) -> dict[str, str]:
    """The settings that every group has with one value."""
    flat = [_shown_settings(group.first) for group in groups]
    same = [path for path in flat[0] if path != "seed" and {mine.get(path) for mine in flat} == {flat[0][path]}]
    return {path: short(flat[0][path]) for path in same}


def settings_apart(run: Results, other: Results) -> list[str]:
    """The settings that both runs have, with different values."""
    mine, theirs = ({**_shown_settings(each), **_shown_code(each)} for each in (run, other))
    return [path for path in mine if path in theirs and path != "seed" and mine[path] != theirs[path]]


def _shown_settings(run: Results) -> dict[str, str]:
    """The settings of a run, with an order decided by a seed shown as "shuffled"."""
    settings = {**run.spec.settings, **run.spec.shown_options}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}


def _shown_code(run: Results) -> dict[str, str]:
    """Digests of the caller's code, for runs that names do not distinguish."""
    code = code_of(run).items()
    shown = {name if name.startswith("after") else f"source of {name}": digest[:SHOWN] for name, digest in code}
    return shown if run.parameters is None else {**shown, "parameters": str(run.parameters)}
