"""What each idea of a warm start is worth, alone and left out of the whole, judged by training rows that were set aside.

Settings are chosen by this: no test row is read, so that a benchmark can judge the choice once, afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

from zoolearn.beyond.warm_start import WarmStart
from zoolearn.files import Json
from zoolearn.lab.figures import Figure, Panel, Plot, Series
from zoolearn.lab.groups import mean_accuracy
from zoolearn.lab.studies.setup import Setup, mean_and_error
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

VALIDATION = 20  # percent of the training rows, that judge

TRICKS: dict[str, dict[str, Json]] = {
    "heads fitted again": {"refit_heads": True},
    "heads for all tasks": {"all_tasks": True},
    "whitened pictures": {"whiten": True},
    "one softmax": {"open_softmax": True},
    "all layers": {"read_layers": True},
    "newest alone": {"supersede": True},
    "three chains": {"chains": 3},
    "mirror images": {"flip_tta": True},  # a setting of nets, not of a warm start
}
WHOLE, BARE = "all of them", "none of them"


def variants() -> dict[str, dict[str, Json]]:
    """The settings of every warm start that is compared, by what it is called."""
    whole = {name: value for trick in TRICKS.values() for name, value in trick.items()}
    off: dict[str, Json] = {name: type(value)() for name, value in asdict(WarmStart()).items()}
    off |= {"chains": 1, "other_tasks": WarmStart().other_tasks, "flip_tta": False}
    found = {BARE: off, WHOLE: {**off, **whole}}
    for name, trick in TRICKS.items():
        found[f"only {name}"] = {**off, **trick}
        found[f"without {name}"] = {**off, **whole, **{own: off[own] for own in trick}}
    return found


def specs(setup: Setup) -> list[RunSpec]:
    """Every variant with every seed."""
    return [_spec(setup, own, seed) for own in variants().values() for seed in setup.seeds]


def _spec(setup: Setup, own: Mapping[str, Json], seed: int) -> RunSpec:
    settings = {"tasks_per_episode": setup.tasks_per_episode, "grow": "warm-start", **own}
    return setup.spec("model-zoo", seed, validation=VALIDATION, **settings)


def figures(setup: Setup, outcome: Mapping[str, Results]) -> list[Figure]:
    """The gain of every idea over none of them, and what all of them lose without it."""
    runs = {name: [outcome[_spec(setup, own, seed).name] for seed in setup.seeds] for name, own in variants().items()}
    alone = _gains(runs, {name: (f"only {name}", BARE) for name in TRICKS}, 0)
    left_out = _gains(runs, {name: (WHOLE, f"without {name}") for name in TRICKS}, 1)
    titled = {f"alone, over {BARE}": alone, f"what {WHOLE} gain by it": left_out}
    panels = [Panel(title, [series], turned=True) for title, series in titled.items()]
    ends = ", ".join(f"{name} {mean_and_error(_accuracies(runs[name]))[0]:.2f} %" for name in (BARE, WHOLE))
    caption = (
        f"Points of average accuracy on {VALIDATION} % of the training rows, which no training saw; test rows were not read. "
        f"Differences are of runs of one seed; the bars are their standard errors. All train on as many rows; what they cost is "
        f"told by the processor seconds of a run with the idea and of one without. With {setup.conditions}: {ends}."
    )
    chart = Plot(panels, "points", share_y=False)
    return [setup.figure("tricks", "What each idea of a warm start is worth", caption, chart)]


def _gains(runs: Mapping[str, Sequence[Results]], pairs: Mapping[str, tuple[str, str]], colour: int) -> Series:
    cells, notes = [], []
    for better, worse in pairs.values():
        ours, theirs = runs[better], runs[worse]
        differences = zip(_accuracies(ours), _accuracies(theirs), strict=True)
        cells.append(mean_and_error([mine - other for mine, other in differences]))
        notes.append(_compare_seconds(ours, theirs))
    means, errors = [mean for mean, _ in cells], [error for _, error in cells]
    known = errors if None not in errors else ()
    return Series("gain", list(pairs), means, known, "points", colour, notes)


def _accuracies(runs: Sequence[Results]) -> list[float]:
    return [100 * mean_accuracy(run) for run in runs]


def _compare_seconds(ours: Sequence[Results], theirs: Sequence[Results]) -> str:
    """The mean seconds of processors; empty where older runs, which may be reused, did not count them."""
    spent = [[run.processor_seconds for run in runs if run.processor_seconds is not None] for runs in (ours, theirs)]
    whole = [len(known) for known in spent] == [len(ours), len(theirs)]
    return " / ".join(f"{fmean(known):.0f}" for known in spent) if whole else ""
