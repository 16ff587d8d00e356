"""`docs/beyond.md`, written from run folders alone: each setting of Model Zoo past the paper beside the paper's, and its price."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from zoolearn.files import Json
from zoolearn.lab.figures import Plot, Series
from zoolearn.lab.groups import Group, group_by_settings, mean_accuracy
from zoolearn.lab.judge import Judged
from zoolearn.lab.paper.equal import APART
from zoolearn.lab.paper.judged import describe_judged
from zoolearn.lab.paper.rows import ROWS_OF_A_TASK
from zoolearn.lab.published import PRESETS
from zoolearn.lab.studies.study import Study
from zoolearn.lab.studies.tricks import TRICKS
from zoolearn.lab.tables import Table, choose, human, markdown, mean, percent
from zoolearn.runs.results import Results
from zoolearn.runs.spec import DATA_SEEDS, RunSpec, write_flags

STREAMS = ("split-cifar100", "coarse-cifar100", "split-cifar10", "split-miniimagenet")
# What makes two runs cost alike; the rest of the settings are tricks.
BUDGET = ("epochs", "tasks_per_episode", "replay", "backbone", "precision")
MEASURES = ("seeds", "accuracy", "gain", "forgetting", "forward")
LONG = 100  # tasks from which on a stream is shown stretch by stretch
STRETCHES = 5
FLOAT_BYTES = 4  # of a weight
FIRST = (STREAMS[0], "1", "100%")  # what the page opens with
COSTS = ("trained", "asked", "passes", "parameters", "stored", "MB", "minutes", "processor")


def beyond(runs: Sequence[Results], records: Sequence[Judged] = (), studies: Iterable[Study] = ()) -> str:
    """The page as Markdown."""
    zoos = _zoos(runs)
    sections: dict[tuple[str, str], list[Group]] = {}
    for group in group_by_settings([*zoos, *_beginnings(zoos)]):
        sections.setdefault((group.first.benchmark, _budget(group.first)), []).append(group)
    everything = sorted(sections.items(), key=lambda section: section[0])
    parts = [
        "# Beyond the paper",
        "",
        *_list_one_pass([group for _, groups in everything for group in groups]),
        "That members begin where the last one ended, heads fitted again and for all tasks, and mirror images were chosen by test",
        "rows of `coarse-cifar100`; what else preset `beyond` has by training rows of it that were set aside ([how](evidence.md)).",
        "What each setting means: `zoo run model-zoo --help`, and the modules of `src/zoolearn/beyond`. Flags that it does not know",
        "are of settings that were tried and deleted; [the log](log.md) tells what they were and what they gained. What was aimed at,",
        "how much of it is missed and where that is lost: [evidence](evidence.md#measured).",
        "",
        "*Accuracy*, *forgetting* and *forward* (transfer: the accuracy right after a task is learned, which others call learning",
        "accuracy) are in percent, mean and sample standard deviation over seeds. *Trained* and *asked* are rows in thousands,",
        "over the whole run: rows trained on (times epochs) and rows that finished nets were shown while learning; *passes* are",
        "nets asked for one answer; *MB* are those of all weights and stored rows; *minutes* are by the clock, with other programs",
        "beside, *processor* minutes of processors, of runs that counted them. *Not told* is the accuracy without the task, all",
        "classes of all tasks being candidates, by [statistics](protocol.md) of stored rows (on the board: by the heads side by",
        "side, which is another measure). Written by",
        "`zoo paper --beyond docs/beyond.md` from the results of finished runs.",
        "",
        *_list_worth([study for study in studies if study.name == "tricks"]),
        *_list_long([run for run in runs if run.finished and len(run.tasks) >= LONG]),
        "## Every setting, budget by budget",
        "",
        "A budget is the same data, epochs, replay and tasks an episode. Its first row is the paper's Model Zoo, where that was",
        "run; the others change the settings that they name. A *gain* is over the paper's runs, seed by seed. Rows without a",
        "price are older than its counting, or parts of longer runs.",
        "",
    ]
    for (benchmark, budget), groups in everything:
        if any(tricks(group.first) for group in groups):
            parts += _section(benchmark, budget, groups)
    if records:
        parts += describe_judged(records, lambda run: f"{_budget(run) or 'default budget'}: {name_settings(run)}")
    return "\n".join(parts)


def sum_up(runs: Sequence[Results]) -> str:
    """What preset `beyond` has in one pass with all rows kept, in a sentence; empty without such runs."""
    groups = [group for group in group_by_settings(_zoos(runs)) if _learner(group.first) == "preset beyond, bfloat16"]
    here = sorted((group for group in groups if _stream(group.first)[1:] == FIRST[1:]), key=_place)
    return ", ".join(f"{_told(group)} on {group.first.benchmark}" for group in here)


def _zoos(runs: Sequence[Results]) -> list[Results]:
    return [
        run
        for run in runs
        if run.method == "model-zoo"
        and run.benchmark in STREAMS
        and run.finished
        and "validation" not in run.spec.options  # trials of a search are judged by other rows
    ]


def _list_one_pass(groups: Sequence[Group]) -> list[str]:
    """What the page is about in one table: the paper's zoo beside the presets of today, on whole streams."""
    here = [group for group in groups if _learner(group.first) and not group.first.spec.deleted]
    with_preset = {_stream(group.first) for group in here if tricks(group.first)}
    shown = [group for group in here if _stream(group.first) in with_preset]
    if not shown:
        return []
    shown.sort(key=_place)
    lines = [(*_stream(group.first), *_line(group, None, _learner(group.first)), _not_told(group)) for group in shown]
    columns = ("benchmark", "epochs", "replay", "learner", *MEASURES, *COSTS, "not told")
    kept = [name for name in columns if name not in ("gain", "not told")]
    kept.insert(kept.index("accuracy") + 1, "not told")
    table = choose(Table(columns, tuple(lines), labels=4), kept)
    told = ", ".join(f"{_learner(group.first)} {_told(group)}" for group in shown if _stream(group.first) == FIRST)
    return [*([f"One pass over `{FIRST[0]}`, all rows kept: {told}.", ""] if told else []), markdown(table), ""]


def _place(group: Group) -> tuple[int, int, float, float]:
    run = group.first
    return STREAMS.index(run.benchmark), run.spec.settings["epochs"], -_replay(run), group.mean() or 0.0


def _stream(run: Results) -> tuple[str, str, str]:
    return run.benchmark, str(run.spec.settings.get("epochs")), f"{_replay(run):.0%}"


def _not_told(group: Group) -> str:
    """The mean over those of the runs that recorded it."""
    return percent(group.recorded("class_incremental_statistics"))


def _list_worth(studies: Sequence[Study]) -> list[str]:
    """What each idea of a warm start gains alone and beside the others, by rows that were set aside for choosing."""
    parts = []
    for study in studies:
        (figure,) = study.figures
        chart = figure.frames[""]
        assert isinstance(chart, Plot)
        alone, beside = (_worth(panel.series[0]) for panel in chart.panels)
        rows = tuple((idea, *alone[idea], *beside[idea]) for idea in alone)
        table = markdown(
            Table(
                ("idea", "alone", "seconds, with / without", "beside all others", "seconds, with / without"),
                rows,
                labels=1,
            )
        )
        commands = [f"`{command}`" for command in figure.commands]
        gone = ", ".join(idea for idea in alone if idea not in TRICKS)
        since = [f"Deleted since, and among the others here: {gone} ([the log](log.md)).", ""] if gone else []
        parts += [f"## {figure.title}", "", figure.caption, "", table, "", *since, *commands, ""]
    return parts


def _worth(gains: Series) -> dict[str, tuple[str, str]]:
    """What each idea gains, with its error, and what it costs."""
    errors = gains.spread or [None] * len(gains.y)
    costs = gains.notes or [""] * len(gains.y)
    return {
        str(idea): (f"{gain:+.2f}" + (f" ± {error:.2f}" if error is not None else ""), cost)
        for idea, gain, error, cost in zip(gains.x, gains.y, errors, costs, strict=True)
    }


def _list_long(runs: Sequence[Results]) -> list[str]:
    """Streams of many tasks, a part of them after the other: whether accuracy falls or an episode costs more."""
    parts: list[str] = []
    for stream in sorted({(run.benchmark, len(run.tasks)) for run in runs}):
        here = [run for run in runs if (run.benchmark, len(run.tasks)) == stream]
        ends = [stream[1] * (number + 1) // STRETCHES for number in range(STRETCHES)]
        lines = [line for run in here for line in _stretches(run, ends)]
        columns = ("learner", "each stretch of tasks", *(f"to {end}" for end in ends))
        parts += [
            f"## A long stream: {stream[1]} tasks of {stream[0]}",
            "",
            "*Of all so far* is the average accuracy after a stretch, *when learned* that of its tasks right after their episodes.",
            "Rows and seconds are of one episode, in the median; *answers* are those to test rows that it changes.",
            "",
            markdown(Table(columns, tuple(lines), labels=2)),
            "",
            *(f"`{run.made_by}`" for run in here),
            "",
        ]
    return parts


def _stretches(run: Results, ends: Sequence[int]) -> list[tuple[str, ...]]:
    pairs = list(zip((0, *ends), ends, strict=False))
    known = [[100 * value for value in row if value is not None] for row in run.accuracy]
    measures = {
        "of all so far": [f"{fmean(known[end - 1]):.2f}" for end in ends],
        "when learned": [f"{fmean(row[-1] for row in known[begin:end]):.2f}" for begin, end in pairs],
    }
    costs: dict[str, list[float]] = {
        "rows trained": [episode.rows_trained for episode in run.episodes if episode.rows_trained is not None],
        "rows asked": [episode.rows_asked for episode in run.episodes if episode.rows_asked is not None],
        "seconds of learning": [episode.seconds["train"] for episode in run.episodes],
        "seconds of answers": [episode.seconds["evaluate"] for episode in run.episodes],
    }
    for name, values in costs.items():
        if len(values) < len(run.episodes):  # recorded before it was counted
            continue
        shape = "{:.1f}" if "seconds" in name else "{:,.0f}"
        measures[name] = [shape.format(median(values[begin:end])) for begin, end in pairs]
    learner = f"{run.method} --preset {preset.removeprefix('preset ')}" if (preset := _preset(run)) else run.method
    return [(learner, name, *values) for name, values in measures.items()]


def _learner(run: Results) -> str:
    """The paper's zoo, a preset or nets apart, with the precision, if it has seen a whole stream; else nothing."""
    changes, apart = run.spec.changes, _is_apart(run)
    name = (
        "nets that share nothing, same ideas" if apart else _preset(run) or ("" if tricks(run) else "the paper's zoo")
    )
    if run.spec.options or _part(run) or ("tasks_per_episode" in changes and not apart) or not name:
        return ""
    return f"{name}, {changes['precision']}" if "precision" in changes else name


def _is_apart(run: Results) -> bool:
    """Whether these are nets that share nothing, with those ideas of preset beyond that such nets can have."""
    apart = RunSpec(run.method, run.benchmark, APART).changes
    return {**run.spec.changes, **apart} == run.spec.changes and tricks(run).keys() <= apart.keys()


def _replay(run: Results) -> float:
    return float(run.spec.settings.get("replay", 1.0))


def _told(group: Group) -> str:
    value = percent(group.values())
    return value if len(group.runs) > 1 else f"{value} (one seed)"


def _beginnings(runs: Sequence[Results]) -> list[Results]:
    """Whole runs as they were after as many tasks as others were shown: what comes later changes nothing before it."""
    lengths = {(run.benchmark, len(run.tasks)) for run in runs if run.settings["benchmark"].keys() == {"first_tasks"}}
    return [
        Results(
            method=run.method,
            benchmark=run.benchmark,
            tasks=run.tasks[:length],
            settings={**run.settings, "benchmark": {"first_tasks": length}},
            environment=run.environment,
            accuracy=run.accuracy[:length],
            episodes=run.episodes[:length],
            train_samples=run.train_samples[:length],
            stored_samples=run.stored_samples * length // len(run.tasks),
            num_parameters=run.num_parameters * length // len(run.tasks),
            command=run.command,
        )
        for run in runs
        for benchmark, length in sorted(lengths)
        if run.benchmark == benchmark and not run.settings["benchmark"] and not _has_heads_for_all(run)
    ]


def _has_heads_for_all(run: Results) -> bool:
    """Whether later members have more weights than earlier ones, so that a part of a run is not that part of its weights."""
    grow = run.settings.get("grow")
    return bool(run.settings.get("adoption") or (isinstance(grow, Mapping) and grow.get("all_tasks")))


def _budget(run: Results) -> str:
    spec = run.spec
    budget = {name: spec.changes[name] for name in BUDGET if name in spec.changes}
    given = {name: value for name, value in {**budget, **spec.options}.items() if name not in DATA_SEEDS}
    words = " ".join(write_flags(given))
    part = _part(run)
    return f"{words}, {part:,.0f} rows a task at hand" if part else words


def _part(run: Results) -> float | None:
    """The rows of a task if only a part of a benchmark's was at hand."""
    rows = fmean(run.train_samples) if run.train_samples else None
    whole = ROWS_OF_A_TASK.get(run.benchmark, rows)
    return rows if rows != whole and "samples_per_class" not in run.spec.options else None


def tricks(run: Results) -> dict[str, Json]:
    """What a run does other than the paper, its budget aside."""
    return {name: value for name, value in run.spec.changes.items() if name not in BUDGET}


def _section(benchmark: str, budget: str, groups: Sequence[Group]) -> list[str]:
    ordered = sorted(groups, key=lambda group: (len(tricks(group.first)), str(tricks(group.first))))
    base = next((group for group in ordered if not tricks(group.first)), None)
    lines = [_line(group, base) for group in ordered]
    gains = [(group, _gains(group, base)) for group in ordered if group is not base and base is not None]
    lost = [
        f"`{' '.join(write_flags(tricks(group.first)))}` {_format_gains(gain)}"
        for group, gain in gains
        if fmean(gain) < 0
    ]
    return [
        f"<details><summary>{benchmark}, {budget or 'default budget'}</summary>",
        "",
        markdown(Table(("settings", *MEASURES, *COSTS), tuple(lines), labels=1)),
        "",
        *([f"Lost: {'; '.join(lost)}.", ""] if lost else []),
        "```sh",
        *dict.fromkeys(run.made_by for group in ordered for run in group.runs),
        "```",
        "",
        "</details>",
        "",
    ]


def _line(group: Group, base: Group | None, name: str = "") -> tuple[str, ...]:
    return (
        name or name_settings(group.first),
        str(len(group.runs)),
        percent(group.values()),
        _format_gains(_gains(group, base)),
        percent(group.values("forgetting")),
        percent(group.values("forward_transfer")),
        mean(group.values("rows_trained"), unit=1000),
        mean(group.values("rows_asked"), unit=1000),
        mean(group.values("passes"), "{:.1f}".format),
        mean(group.values("num_parameters"), human),
        mean(group.values("stored_samples")),
        mean([_kept_bytes(run) for run in group.runs], "{:.0f}".format, unit=1e6),
        mean([sum(run.seconds.values()) for run in group.runs], "{:.1f}".format, unit=60),
        mean(group.recorded("processor_seconds"), "{:.1f}".format, unit=60),
    )


def _kept_bytes(run: Results) -> int | None:
    """The bytes of all weights and of the samples that are kept; None if the latter are not known."""
    return None if run.stored_bytes is None else FLOAT_BYTES * run.num_parameters + run.stored_bytes


def name_settings(run: Results) -> str:
    """The preset of a run of Model Zoo, or what else it does other than the paper, as flags."""
    return _preset(run) or " ".join(write_flags(tricks(run))) or "the paper's"


def _preset(run: Results) -> str:
    """The preset whose settings these are, beside the benchmark's own, with flags for those that were deleted since."""
    gone = run.spec.deleted
    own = {name: value for name, value in tricks(run).items() if name not in gone}
    for preset in PRESETS:
        wanted = {name: value for name, value in preset.spec.changes.items() if name not in BUDGET}
        if preset.suits(run.method, run.benchmark) and wanted and wanted == own:
            return " ".join(["preset", preset.name, *write_flags(gone)])
    return ""


def _gains(group: Group, base: Group | None) -> list[float]:
    """How far the runs of a group are above the base's of the same seed, or their mean above its mean if no seed is common."""
    if base is None or group is base:
        return []
    ours, theirs = ({run.settings.get("seed"): mean_accuracy(run) for run in each.runs} for each in (group, base))
    common = [seed for seed in ours if seed in theirs]
    return [ours[seed] - theirs[seed] for seed in common] or [fmean(ours.values()) - fmean(theirs.values())]


def _format_gains(gains: Sequence[float]) -> str:
    sign = "+" if gains and fmean(gains) >= 0 else ""
    return sign + percent(gains)
