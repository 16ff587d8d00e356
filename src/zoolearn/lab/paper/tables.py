"""The numbers of the paper, in percent, each with the run that is to reproduce it."""

from collections.abc import Mapping
from dataclasses import replace

from zoolearn.files import Json
from zoolearn.lab.paper.others import every_method, list_published, smaller
from zoolearn.lab.paper.rows import Numbers, PaperTable, Row, accuracy_of, paper_b, three
from zoolearn.lab.published import PRESETS
from zoolearn.runs.spec import RunSpec

Settings = dict[str, Json]
ONE: Settings = {"epochs": 1}
MANY: Settings = {"epochs": 200}
WRN: Settings = {"backbone": "wrn-16-4"}
RESNET: Settings = {"backbone": "resnet18-s"}
LEARNERS: dict[str, tuple[str, Settings]] = {
    "isolated-small": ("isolated", {}),
    "model-zoo-small": ("model-zoo", {}),
    "model-zoo-small-10%": ("model-zoo", {"replay": 0.1}),
    "isolated-resnet": ("isolated", RESNET),
    "model-zoo-resnet": ("model-zoo", RESNET),
    "isolated": ("isolated", WRN),
    "model-zoo": ("model-zoo", WRN),
    "multi-head": ("multi-head", WRN),
}  # the paper's own


def _own_row(name: str, benchmark: str, epochs: Settings, numbers: Numbers) -> Row:
    method, settings = LEARNERS[name]
    b = paper_b(benchmark) if method == "model-zoo" else {}
    return Row(name, RunSpec(method, benchmark, {**settings, **b, **epochs}), numbers)


def _own_rows(benchmark: str, epochs: Settings, table: Mapping[str, Numbers]) -> tuple[Row, ...]:
    return tuple(_own_row(name, benchmark, epochs, numbers) for name, numbers in table.items())


def _main_rows() -> tuple[Row, ...]:
    """Table 1, the rows of the paper's own methods."""
    benchmarks = (
        *("rotated-mnist", "permuted-mnist", "split-mnist", "split-cifar10"),
        *("split-cifar100", "coarse-cifar100", "split-miniimagenet"),
    )
    table: dict[str, tuple[float | None, ...]] = {
        "isolated-small": (None, None, None, 96.88, 90.18, 69.07, 82.48),
        "model-zoo-small": (None, None, None, 96.85, 92.06, 73.72, 94.27),
        "model-zoo-small-10%": (None, None, None, 96.58, 89.76, 77.18, 84.6),
        "isolated-resnet": (None, None, None, None, 88.95, None, None),
        "model-zoo-resnet": (None, None, None, None, 93.15, None, None),
        "isolated": (99.64, 98.03, 99.98, 97.46, 91.90, 80.72, 86.28),
        "model-zoo": (99.66, 97.71, 99.97, 98.68, 94.99, 84.27, 96.84),
        "multi-head": (99.66, 98.16, 99.98, 98.11, 95.38, 83.19, 90.83),
    }
    return tuple(
        _own_row(name, benchmark, MANY, accuracy_of(value))
        for name, values in table.items()
        for benchmark, value in zip(benchmarks, values, strict=True)
        if value is not None
    )


def _others(benchmark: str, numbers: Mapping[str, Numbers]) -> tuple[Row, ...]:
    """The existing methods of a single-epoch table, with the settings of the preset `zoo-2022`."""
    presets = {
        preset.spec.method: preset.spec
        for preset in PRESETS
        if (preset.name, preset.spec.benchmark) == ("zoo-2022", "coarse-cifar100")
    }
    return tuple(
        Row(
            method,
            replace(presets[method], benchmark=benchmark),
            values,
            differs="the paper does not state the settings of this row; ours are those of TAG's authors"
            + (", without holding heads" if method == "ewc" else ""),
        )
        for method, values in numbers.items()
    )


def _few_samples() -> tuple[Row, ...]:
    """Table A3, with the paper's net and with the small one."""
    table = {
        "rotated-mnist": (98.17, 98.47, 98.44),
        "split-mnist": (97.11, 99.47, 98.98),
        "permuted-mnist": (84.59, 86.36, 86.04),
        "split-cifar10": (82.09, 85.73, 84.17),
        "split-cifar100": (80.04, 87.93, 86.27),
        "coarse-cifar100": (65.34, 69.05, 66.80),
    }
    nets: tuple[tuple[str, Settings, str, str], ...] = (
        ("", {**WRN, **MANY}, "", ""),
        ("-small", MANY, "net", "small-conv instead of WRN-16-4"),
        ("-small-50", {"epochs": 50}, "net, epochs", "small-conv instead of WRN-16-4, 50 epochs instead of 200"),
        ("-small-20", {"epochs": 20}, "net, epochs", "small-conv instead of WRN-16-4, 20 epochs instead of 200"),
    )
    rows = []
    for benchmark, values in table.items():
        for suffix, settings, apart, differs in nets:
            for method, value in zip(("isolated", "multi-head", "model-zoo"), values, strict=True):
                b = paper_b(benchmark) if method == "model-zoo" else {}
                spec = RunSpec(method, benchmark, {**settings, **b}, {"samples_per_class": 100})
                replaced = {"stands_in_for": method, "apart": apart} if suffix else {}
                rows.append(Row(f"{method}{suffix}", spec, accuracy_of(value), differs, **replaced, bootstraps=True))
    return tuple(rows)


def _zoo_rows(
    name: str, setting: str, values: Mapping[str, Json], numbers: Mapping[str, tuple[float, ...]]
) -> tuple[Row, ...]:
    """Model Zoo with other values of one setting, by how they are written; numbers are those of each benchmark."""
    return tuple(
        Row(f"{name}-{label}", RunSpec("model-zoo", benchmark, {**ONE, setting: value}), accuracy_of(number))
        for benchmark, row in numbers.items()
        for (label, value), number in zip(values.items(), row, strict=True)
    )


REPLAY_ROWS = _zoo_rows(
    "replay",
    "replay",
    {f"{percent}%": percent / 100 for percent in (0, 1, 5, 10, 100)},
    {
        "split-cifar100": (71.91, 70.48, 71.33, 71.97, 73.67),
        "split-miniimagenet": (65.80, 67.18, 70.71, 74.22, 81.05),
    },
)
TASKS_ROWS = _zoo_rows(
    "b",
    "tasks_per_episode",
    {str(b): b for b in (1, 2, 5, 7, 9)},
    {
        "split-cifar100": (71.91, 72.26, 73.67, 73.97, 74.13),
        "split-miniimagenet": (65.02, 67.33, 81.05, 88.76, 84.9),
    },
)


def _ensemble_rows(benchmark: str, zoo: float, ensemble: float) -> tuple[Row, ...]:
    differs = "5 nets a task, about the cost of Model Zoo; the paper's ensemble is called 100x"
    five = RunSpec("isolated", benchmark, {**ONE, "networks": 5})
    return (
        Row("model-zoo", RunSpec("model-zoo", benchmark, ONE), accuracy_of(zoo)),
        Row("ensemble-of-isolated", five, accuracy_of(ensemble), differs, apart="nets"),
    )


# Accuracy, forgetting and forward transfer of the paper's own methods and of others.
ONE_EPOCH: dict[str, dict[str, Numbers]] = {
    "split-cifar100": {
        "isolated-small": three(71.6, 0.0, 71.6),
        "model-zoo-small": three(73.67, 0.20, 71.91),
        "isolated": three(50.43, 0.0, 50.43),
        "model-zoo": three(57.67, 0.81, 56.58),
        "model-zoo-small-10%": three(71.09, 0.69, 70.5),
    },
    "coarse-cifar100": {
        "isolated-small": three(58.719, 0.0, 58.71),
        "model-zoo-small": three(60.3, 0.370, 59.13),
        "isolated": three(41.28, 0.0, 41.28),
        "model-zoo": three(46.98, 0.38, 44.43),
    },
    "split-miniimagenet": {
        "isolated-small": three(65.8, 0.0, 65.8),
        "model-zoo-small": three(81.049, 1.278, 66.57),
        "isolated": three(40.2, 0.0, 40.25),
        "model-zoo": three(64.12, 0.27, 48.34),
    },
}
OTHERS_ONE_EPOCH: dict[str, dict[str, Numbers]] = {
    "split-cifar100": {},
    "coarse-cifar100": {
        "fine-tune": three(34.52, 19.88, 53.30),
        "ewc": three(34.71, 18.60, 52.19),
        "a-gem": three(37.23, 16.96, 52.72),
        "er": three(41.36, 14.29, 54.87),
        "stable-sgd": three(37.27, 12.07, 48.43),
        "tag": three(43.33, 12.39, 55.1),
    },
    "split-miniimagenet": {
        "fine-tune": three(46.69, 16.653, 62.35),
        "ewc": three(47.93, 14.26, 61.34),
        "a-gem": three(51.86, 10.102, 61.13),
        "er": three(55.41, 9.52, 64.03),
        "stable-sgd": three(49.28, 9.76, 57.79),
        "tag": three(58.38, 5.15, 63.00),
    },
}
MANY_EPOCHS: dict[str, Numbers] = {
    "isolated-small": three(90.18, 0.0, 91.18),
    "model-zoo-small": three(92.28, 0.17, 90.0),
    "model-zoo-small-10%": three(89.76, 0.22, 89.8),
    "isolated": three(91.9, 0.0, 91.0),
    "model-zoo": three(94.99, 0.21, 94.02),
}


def _one_epoch(name: str, where: str, title: str, benchmark: str) -> PaperTable:
    rows = _own_rows(benchmark, ONE, ONE_EPOCH[benchmark]) + _others(benchmark, OTHERS_ONE_EPOCH[benchmark])
    return PaperTable(name, where, f"{title}, one epoch", rows)


def _weighing_row(weigh: str, settings: Settings, accuracy: float) -> Row:
    return Row(weigh, RunSpec("model-zoo", "coarse-cifar100", {**WRN, **settings, **MANY}), accuracy_of(accuracy))


MULTI_EPOCH_ROWS = _own_rows("split-cifar100", MANY, MANY_EPOCHS)
ENSEMBLE_ROWS = _ensemble_rows("split-cifar100", 73.67, 71.46) + _ensemble_rows("split-miniimagenet", 81.05, 67.26)
WEIGHING_ROWS = (_weighing_row("boosted", {}, 84.27), _weighing_row("uniform", {"weigh": "uniform"}, 83.60))
_TABLES = (
    PaperTable("table-1-accuracy", "Table 1", "Average accuracy, 200 epochs: the paper's own methods", _main_rows()),
    _one_epoch("table-2-single-epoch", "Table 2, right", "Split-CIFAR100", "split-cifar100"),
    PaperTable("table-2-multi-epoch", "Table 2, left", "Split-CIFAR100, 200 epochs", MULTI_EPOCH_ROWS),
    PaperTable("ablation-replay", "Figure 4, left", "How much is replayed, one epoch", REPLAY_ROWS),
    PaperTable("ablation-tasks-per-episode", "Figure 4, middle", "Tasks per episode (b), one epoch", TASKS_ROWS),
    PaperTable(
        *("ablation-ensemble", "Figure 4, right", "Model Zoo against an ensemble of Isolated, one epoch"), ENSEMBLE_ROWS
    ),
    _one_epoch("table-a1-coarse-single-epoch", "Table A1", "Coarse-CIFAR100", "coarse-cifar100"),
    _one_epoch("table-a2-miniimagenet-single-epoch", "Table A2", "Split-miniImageNet", "split-miniimagenet"),
    PaperTable("table-a3-100-samples", "Table A3", "100 samples of each class, 200 epochs, bootstraps", _few_samples()),
    PaperTable(
        *("table-a4-weighing", "Table A4", "Boosted against uniform draws, Coarse-CIFAR100, 200 epochs"), WEIGHING_ROWS
    ),
    PaperTable(
        "published-rows",
        "Others' papers",
        "Every preset: the numbers that methods were published with",
        list_published(),
        of_paper=False,
    ),
    PaperTable(
        "smaller-budgets",
        "Others' papers",
        "What was run with another net, fewer epochs or fewer tasks than were published",
        smaller(),
        of_paper=False,
    ),
    PaperTable(
        "every-method",
        "Table 1, Split-MNIST",
        "Every method with one net (mlp) and one budget (3 epochs, batch 64); the paper quotes other nets and budgets",
        every_method(),
        of_paper=False,
    ),
)

TABLES: dict[str, PaperTable] = {table.name: table for table in _TABLES}

FIGURES: dict[str, str] = {
    "Figure 1, left (accuracy over episodes)": "zoo report RUNS --html page.html",
    "Figure 1, right, and A6 to A8 (task by task)": "zoo report RUNS --html page.html",
    "Figure 2 and A2 (more and more tasks)": "zoo study together coarse-cifar100",
    "Figure A1 and A3 (pairwise competition)": "zoo study competition coarse-cifar100",
    "Figure A4 (what each episode drew)": "zoo report RUNS --html page.html",
}
