"""Model Zoo with one thing changed at a time, and its references: the paper's ablations as one kind of study."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from zoolearn.files import Json
from zoolearn.lab.figures import Figure, Map, Number, Panel, Plot, Series
from zoolearn.lab.studies.setup import Setup, mean_and_error
from zoolearn.runs.results import Results
from zoolearn.runs.spec import RunSpec


@dataclass(frozen=True)
class Variant:
    """One column of an ablation: its label, a method and what is set differently."""

    label: str
    method: str = "model-zoo"
    settings: Mapping[str, Json] = field(default_factory=dict)

    def spec(self, setup: Setup, seed: int) -> RunSpec:
        return setup.spec(self.method, seed, **self.settings)


@dataclass(frozen=True)
class Ablation:
    """Variants to compare, and what the comparison is about."""

    kind: str
    title: str
    axis: str
    caption: str
    variants: Callable[[Setup], Sequence[Variant]]

    def specs(self, setup: Setup) -> list[RunSpec]:
        return [variant.spec(setup, seed) for variant in self.variants(setup) for seed in setup.seeds]

    def figures(self, setup: Setup, outcome: Mapping[str, Results]) -> list[Figure]:
        """Average accuracy of every variant, and the same task by task."""
        variants = self.variants(setup)
        runs = [[outcome[variant.spec(setup, seed).name] for seed in setup.seeds] for variant in variants]
        return [self._averages(setup, variants, runs), self._by_task(setup, variants, runs)]

    def _averages(self, setup: Setup, variants: Sequence[Variant], runs: Sequence[Sequence[Results]]) -> Figure:
        series = []
        for colour, (measure, label) in enumerate(
            (("average_accuracy", "at the end"), ("forward_transfer", "just learned"))
        ):
            cells = [_percent([run.summary()[measure] for run in seeds]) for seeds in runs]
            means, errors = [mean for mean, _ in cells], [error for _, error in cells]
            x = [variant.label for variant in variants]
            series.append(Series(label, x, means, errors if len(setup.seeds) > 1 else (), "points", colour))
        caption = f"{self.caption} With {setup.conditions}; the bars are one standard error."
        return setup.figure(self.kind, self.title, caption, Plot([Panel("", series, self.axis)], "average accuracy, %"))

    def _by_task(self, setup: Setup, variants: Sequence[Variant], runs: Sequence[Sequence[Results]]) -> Figure:
        tasks, labels = range(len(setup.tasks)), [variant.label for variant in variants]
        cells = [[_percent([run.accuracy[-1][task] for run in seeds]) for task in tasks] for seeds in runs]
        means, errors = ([[cell[part] for cell in row] for row in cells] for part in (0, 1))
        spread = errors if len(setup.seeds) > 1 else ()
        chart = Map(labels, setup.tasks, means, self.axis, "task", "accuracy, %", spread=spread)
        caption = f"Test accuracy of each task at the end, mean over seeds ({setup.conditions})."
        return setup.figure(f"{self.kind}-by-task", f"{self.title.rstrip('?')}, task by task", caption, chart)


def _percent(fractions: Sequence[float | None]) -> tuple[Number, Number]:
    """Mean and standard error in percent; nothing where a method has no answer, as Multi-Head before the end."""
    known = [100 * fraction for fraction in fractions if fraction is not None]
    return mean_and_error(known) if len(known) == len(fractions) else (None, None)


def _b(setup: Setup) -> dict[str, Json]:
    return {"tasks_per_episode": setup.tasks_per_episode}


REPLAY = Ablation(
    "replay",
    "How much of the past must be kept",
    "replay",
    "Average accuracy of Model Zoo when this share of each past task's training data is kept.",
    lambda setup: [
        Variant(f"{percent} %", settings={**_b(setup), "replay": percent / 100}) for percent in (0, 1, 5, 10, 100)
    ],
)

TASKS_PER_EPISODE = Ablation(
    "tasks-per-episode",
    "How many tasks an episode should train on",
    "b",
    "Average accuracy of Model Zoo whose episodes train on up to b tasks, the new one included.",
    lambda setup: [
        Variant(str(b), settings={"tasks_per_episode": b}) for b in (1, 2, 5, 7, 9) if b <= len(setup.tasks)
    ],
)

WEIGHING = Ablation(
    "weighing",
    "How past tasks should be drawn",
    "weights",
    "Average accuracy of Model Zoo that draws past tasks by the paper's weights, by those of its authors' code, or all alike.",
    lambda setup: [
        Variant(name, settings={**_b(setup), "weigh": name, **stream})
        for name, stream in {
            "boosted": {},
            "released": {"stream_tasks": len(setup.tasks), "stream_classes": setup.classes},
            "uniform": {},
        }.items()
    ],
)

ENSEMBLE = Ablation(
    "ensemble",
    "Is it only the ensemble?",
    "learner",
    "Model Zoo against ensembles of isolated nets: one net a task, and as many nets a task as an episode of the zoo trains "
    "on tasks, which costs as much or a little more.",
    lambda setup: [
        Variant("isolated", "isolated"),
        Variant(f"{setup.tasks_per_episode} isolated", "isolated", {"networks": setup.tasks_per_episode}),
        Variant("model zoo", settings=_b(setup)),
    ],
)

SAMPLES = Ablation(
    "samples",
    "With few samples of each class",
    "learner",
    "Isolated nets, one Multi-Head net and Model Zoo; each seed draws its own samples.",
    lambda setup: [
        Variant("isolated", "isolated"),
        Variant("multi-head", "multi-head"),
        Variant("model zoo", settings=_b(setup)),
    ],
)
