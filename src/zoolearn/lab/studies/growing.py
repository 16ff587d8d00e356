"""Tasks that grow: each is met with all but two of its classes, which come alone later, at random times.

A seed deals classes and parts. *After* is the accuracy of a task right after a part of it came, mean over these; *end* that of
all tasks in the last episode; *newest* and *first* are of the rows of the class that came last and of those that were there
from the start. *Others* is what the other tasks gain in an episode in which a task grows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.lab.figures import Figure, Number, Panel, Plot, Series
from zoolearn.lab.presets import preset_settings
from zoolearn.lab.studies.setup import Setup, mean_and_error
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec

TASKS_PER_EPISODE = 2
SOME = 0.1  # of the rows, where not all are kept
WARM: dict[str, Json] = {"grow": "warm-start", "all_tasks": False}


@dataclass(frozen=True)
class Variant:
    """A learner, and whether its tasks come in parts or whole."""

    method: str
    settings: Mapping[str, Json]
    in_parts: bool = True

    def spec(self, setup: Setup, seed: int) -> RunSpec:
        """Its run with this seed, which deals the parts too."""
        own = {"tasks_per_episode": TASKS_PER_EPISODE} if self.method == "model-zoo" else {}
        spec = setup.spec(self.method, seed, **{**own, **self.settings})
        if not self.in_parts:
            return spec
        parts = {"arrivals": [setup.classes - 2, 1, 1], "arrivals_seed": seed}
        return RunSpec(spec.method, spec.benchmark, spec.settings, {**spec.options, **parts}, seed)


def variants() -> dict[str, Variant]:
    """All that is compared, by what it is called."""
    beyond = preset_settings("beyond", "model-zoo")
    zoos = {"zoo": {}, "warm zoo": WARM, "zoo, preset beyond": beyond}
    found: dict[str, Variant] = {}
    for name, settings in zoos.items():
        found[name] = Variant("model-zoo", settings)
        found[f"{name}, a tenth kept"] = Variant("model-zoo", {**settings, "replay": SOME})
        found[f"{name}, nothing kept"] = Variant("model-zoo", {**settings, "replay": 0.0})
        found[f"{name}, all at once"] = Variant("model-zoo", settings, in_parts=False)
        found[f"{name}, a tenth kept, all at once"] = Variant("model-zoo", {**settings, "replay": SOME}, in_parts=False)
    for name, settings in (("zoo", {}), ("zoo, preset beyond", beyond)):
        statistics = {**settings, "replay": SOME, "keep_statistics": True}
        found[f"{name}, a tenth kept, and statistics"] = Variant("model-zoo", statistics)
    for kept, name in ((1.0, "isolated"), (SOME, "isolated, a tenth kept")):
        found[name] = Variant("isolated", {"replay": kept})
    return {**found, "fine-tune": Variant("fine-tune", {}), "one net at the end": Variant("multi-head", {})}


def specs(setup: Setup) -> list[RunSpec]:
    """Every variant with every seed."""
    if setup.classes < 4:
        raise SettingsError(
            f"tasks of {setup.benchmark} have {setup.classes} classes; to come in three parts a task needs 4 or more"
        )
    return [variant.spec(setup, seed) for seed in setup.seeds for variant in variants().values()]


@dataclass(frozen=True)
class Measures:
    """What a run shows, in percent; None where it has no answer, or where nothing grew."""

    after: Number
    after_newest: Number
    after_first: Number
    end: Number
    end_newest: Number
    end_first: Number
    others: Number


def measure(run: Results) -> Measures:
    """What a run with tasks in parts shows; of one with whole tasks, how it ends."""
    arrivals = enumerate(run.arrivals if run.accuracy else ())
    growths = [(episode, name) for episode, name in arrivals if name in run.arrivals[:episode]]
    after = [run.accuracy[episode][run.tasks.index(name)] for episode, name in growths]
    apart = [run.episodes[episode].by_arrival[name] for episode, name in growths if run.episodes[episode].by_arrival]
    ends = [*run.episodes[-1].by_arrival.values()]
    return Measures(
        _percent(after),
        _percent([shares[-1] for shares in apart]),
        _percent([shares[0] for shares in apart]),
        _percent(run.accuracy[-1]),
        _percent([shares[-1] for shares in ends]),
        _percent([shares[0] for shares in ends]),
        _percent([change for episode, name in growths for change in _others(run, episode, name)]),
    )


def _others(run: Results, episode: int, grown: str) -> list[Number]:
    """What each other task that was met before gained in an episode."""
    pairs = zip(run.tasks, run.accuracy[episode], run.accuracy[episode - 1], strict=False)
    return [None if now is None or then is None else now - then for name, now, then in pairs if name != grown]


def _percent(shares: Sequence[Number]) -> Number:
    known = [share for share in shares if share is not None]
    return 100 * fmean(known) if known and len(known) == len(shares) else None


def figures(setup: Setup, outcome: Mapping[str, Results]) -> list[Figure]:
    """Accuracy after a growth and at the end, of all classes, the newest and the first; and what growths do to other tasks."""
    runs = {}
    for name, variant in variants().items():
        runs[name] = [measure(outcome[variant.spec(setup, seed).name]) for seed in setup.seeds]
    classes = {"all classes": "", "the newest": "_newest", "the first": "_first"}
    panels = []
    for title, when in (("after a growth", "after"), ("at the end", "end")):
        series = [_series(runs, name, when + part, n) for n, (name, part) in enumerate(classes.items())]
        panels.append(Panel(title, series, turned=True))
    both = Plot(panels, "%")
    change = Plot([Panel("", [_series(runs, "change", "others", 0)], turned=True)], "points")
    grown = "Accuracy of a task right after it grew, and of all tasks at the end."
    others = "Change of the accuracy of the other tasks in an episode in which a task grew, mean."
    return [
        _figure(setup, "", "Tasks that grow", grown, both),
        _figure(setup, "-others", "What the growth of a task does to others", others, change),
    ]


def _figure(setup: Setup, suffix: str, title: str, caption: str, plot: Plot) -> Figure:
    dealt = f"Every task begins with {setup.classes - 2} classes; two more come alone, at random times."
    return setup.figure(f"growing{suffix}", title, f"{caption} {dealt} Test rows; {setup.conditions}.", plot)


def _series(runs: Mapping[str, Sequence[Measures]], label: str, field: str, colour: int) -> Series:
    cells = {}
    for name, measures in runs.items():
        known = [value for each in measures if (value := getattr(each, field)) is not None]
        if len(known) == len(measures):
            cells[name] = mean_and_error(known)
    errors = [error for _, error in cells.values()]
    spread = errors if None not in errors else ()
    return Series(label, [*cells], [mean for mean, _ in cells.values()], spread, "points", colour)
