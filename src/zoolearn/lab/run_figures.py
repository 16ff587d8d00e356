"""The figures of runs: ranking, accuracy over episodes, task by task, draws of episodes, and costs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

from zoolearn.lab.figures import Figure, Map, Number, Panel, Plot, Series, percents
from zoolearn.lab.report import CLASS_INCREMENTAL, CLASS_INCREMENTAL_NOTE, measures_of
from zoolearn.lab.sections import MOST, Named, Section, sections
from zoolearn.runs.metrics import running_average
from zoolearn.runs.results import Results

MOST_ROWS = 30  # of the figure that says who is best
MOST_IN_PANELS = 5  # lines in a panel as small as a stamp
MOST_MAPS = 3

COSTS: dict[str, tuple[str, Callable[[Results], float | None]]] = {
    "training time": ("seconds", lambda run: run.seconds["train"]),
    "time to answer": ("ms per sample", lambda run: run.ms_per_sample),
    "size": ("parameters", lambda run: run.num_parameters),
    "stored samples": ("training samples kept", lambda run: run.stored_samples),
}


def figures(results: Sequence[Results]) -> list[Figure]:
    """Every figure of every section, the ranking first."""
    return [figure for section in sections(results) for figure in section_figures(section)]


def section_figures(section: Section) -> list[Figure]:
    """The figures of one benchmark: a ranking where there is more than one group, and what is behind it."""
    if not section.named:
        return []
    drawn = [ranking(section)] if len(section.finished) > 1 else []
    drawn += [average_over_episodes(section)]
    drawn += [cost(section)] if section.finished else []
    drawn += [task_by_task(section), episode_map(section)]
    return [figure for figure in drawn if any(chart.table()[1] for chart in figure.frames.values())]


def ranking(section: Section) -> Figure:
    """Average accuracy at the end, a row for each finished group, best first."""
    rows = section.finished[:MOST_ROWS]
    extra = [measure for measure in measures_of(group for _, group in rows) if measure in CLASS_INCREMENTAL]
    names = {"average_accuracy": "task told" if extra else "average accuracy", **CLASS_INCREMENTAL}
    series = []
    for colour, measure in enumerate(("average_accuracy", *extra)):
        cells = [_over_seeds([[value] for value in percents(group.values(measure))]) for _, group in rows]
        means, deviations = [mean for (mean,), _ in cells], [deviation for _, (deviation,) in cells]
        series.append(Series(names[measure], [name for name, _ in rows], means, deviations, "points", colour))
    left = f" The best {MOST_ROWS} of {len(section.finished)}." if len(section.finished) > MOST_ROWS else ""
    left += f" {CLASS_INCREMENTAL_NOTE}" if extra else ""
    caption = f"Mean test accuracy over all tasks{_band(rows, 'bars')} The axis does not start at zero.{left}"
    chart = Plot([Panel("", series, turned=True)], "average accuracy, %")
    return _figure(section, "ranking", "Average accuracy at the end", caption, chart)


def average_over_episodes(section: Section) -> Figure:
    """Average accuracy over the tasks met so far: a line for each group of runs, a band of one deviation over seeds."""
    series = []
    for colour, (name, group) in enumerate(section.shown):
        means, deviations = _over_seeds([percents(running_average(run.accuracy, run.places)) for run in group.runs])
        ends = all(value is None for value in means[:-1])  # trained once, at the end: a point, not a line
        episodes = list(range(1, len(means) + 1))
        series.append(Series(name, episodes, means, deviations, "points" if ends else "line", colour))
    measured = f"Mean test accuracy over the tasks met so far, after each episode{_band(section.shown)}"
    caption = f"{measured} A learner that trains once, at the end, is a point.{_note_left_out(section)}"
    chart = Plot([Panel("", series, "episode")], "average accuracy, %")
    return _figure(section, "average-accuracy", "Average accuracy as tasks arrive", caption, chart)


def task_by_task(section: Section) -> Figure:
    """A panel for each task: its accuracy from the episode in which it is met; a cross where Isolated stands."""
    named = section.shown[:MOST_IN_PANELS]
    tasks = named[0][1].first.tasks
    panels = []
    for task in tasks:
        lines: list[Series] = []
        crosses: list[Series] = []
        for colour, (name, group) in enumerate(named):
            runs = [run for run in group.runs if task in run.meetings[: len(run.accuracy)]]
            if group.first.method == "isolated" and len(named) > 1:
                crosses += _cross(name, colour, runs, task)
            else:
                lines += _task_series(name, colour, runs, task)
        if drawn := [series for series in (*lines, *crosses) if series.x]:
            panels.append(Panel(task, drawn, "episode"))
    return _figure(
        section,
        "task-accuracy",
        "Accuracy of each task as episodes pass",
        "A line starts in the episode in which its task is met. A line that starts above the cross of Isolated shows "
        "forward transfer, one that rises shows backward transfer, one that falls shows forgetting. Test accuracy"
        f"{_band(named)}{_note_left_out(section, len(named))}",
        Plot(panels, "accuracy, %"),
    )


def _task_series(name: str, colour: int, runs: Sequence[Results], task: str) -> list[Series]:
    orders = {tuple(run.meetings) for run in runs}
    if not runs or len(orders) > 1:  # in shuffled orders a task arrives at another time in each run
        return []
    place, first = runs[0].tasks.index(task), runs[0].meetings.index(task)
    columns = [percents(row[place] for row in run.accuracy[first:]) for run in runs]
    means, deviations = _over_seeds(columns)
    answered = [at for at, value in enumerate(means) if value is not None]
    x = [first + 1 + at for at in answered]
    y, spread = [means[at] for at in answered], [deviations[at] for at in answered]
    return [Series(name, x, y, spread, "line" if len(x) > 1 else "points", colour)]


def _cross(name: str, colour: int, runs: Sequence[Results], task: str) -> list[Series]:
    if len({run.meetings.index(task) for run in runs}) != 1:  # as with lines: it arrives at another time in each run
        return []
    first = runs[0].meetings.index(task)
    means, deviations = _over_seeds([percents([run.accuracy[first][run.tasks.index(task)]]) for run in runs])
    return [Series(name, [first + 1], means, deviations, "crosses", colour)]


def episode_map(section: Section) -> Figure:
    """Accuracy of every task after every episode of a run, with a dot where the episode trained on the task."""
    drew = [each for each in section.shown if any(episode.weights for episode in each[1].first.episodes)]
    others = [each for each in section.shown if each not in drew]
    frames = {}
    for name, group in [*drew, *others][:MOST_MAPS]:
        run = group.first
        frames[f"{name}, seed {run.settings.get('seed', '?')}{_data_seed(run)}"] = _run_map(run)
    return _figure(
        section,
        "episode-map",
        "What each episode trained on, and what came of it",
        "Colour is test accuracy after the episode. A dot marks a task that the episode trained on: the new one, on the "
        "diagonal, and the past ones that were drawn. Hover shows the weight with which a past task could be drawn. "
        "One seed of each.",
        frames,
    )


def _data_seed(run: Results) -> str:
    options = run.settings.get("benchmark") or {}
    names = {"samples_seed": "samples", "task_order": "order", "class_order": "class order"}
    seeds = [f"{short} {options[key]}" for key, short in names.items() if key in options]
    return "".join(f", {seed}" for seed in seeds if not seed.endswith(f" {run.settings.get('seed')}"))


def _run_map(run: Results) -> Map:
    count = len(run.accuracy)
    rows = run.met
    values: list[list[Number]] = [[None] * count for _ in rows]
    marks = [[False] * count for _ in rows]
    notes = [[""] * count for _ in rows]
    for episode, (row, record) in enumerate(zip(run.accuracy, run.episodes, strict=True)):
        for place, value in enumerate(percents(row)):
            values[place][episode] = value
            marks[place][episode] = rows[place] in record.tasks
            weight = (record.weights or {}).get(rows[place])
            notes[place][episode] = "" if weight is None else f"weight in the draw {weight:.3f}"
    episodes = [str(number) for number in range(1, count + 1)]
    labels = ("task", "episode", "accuracy, %")
    return Map(rows, episodes, values, *labels, marks=marks, mark_label="trained on", notes=notes)


def cost(section: Section) -> Figure:
    """Final average accuracy of finished runs against the costs of training, prediction and storage."""
    panels = []
    for title, (label, measure) in COSTS.items():
        series = []
        for colour, (name, group) in enumerate(section.shown):
            if (name, group) not in section.finished:
                continue
            costs = [measure(run) for run in group.runs]
            known = [value for value in costs if value is not None]
            (mean,), (deviation,) = _over_seeds([[value] for value in percents(group.values())])
            if known and mean is not None:
                series.append(Series(name, [fmean(known)], [mean], [deviation], "points", colour))
        if series:
            panels.append(Panel(title, series, label, log_x=_spans([float(each.x[0]) for each in series])))
    return _figure(
        section,
        "cost",
        "What the accuracy costs",
        "Final average accuracy of finished runs against training time, time to answer (in batches of 64), numbers kept "
        f"and training samples kept{_band(section.shown, 'bars')} Times hold for the machine that ran the runs: "
        f"compare them only where nothing else ran beside.{_note_left_out(section)}",
        Plot(panels, "average accuracy, %"),
    )


def _spans(values: Sequence[float]) -> bool:
    """Whether values are better compared by ratio."""
    return min(values) > 0 and max(values) / min(values) >= 3


def _over_seeds(values: Sequence[Sequence[Number]]) -> tuple[list[Number], list[Number]]:
    """Mean and sample deviation over runs at each position; None where a run has no value."""
    means: list[Number] = []
    deviations: list[Number] = []
    for at_place in zip(*values, strict=True):
        known = [value for value in at_place if value is not None]
        whole = len(known) == len(at_place)
        means.append(fmean(known) if whole else None)
        deviations.append(stdev(known) if whole and len(known) > 1 else None)
    return means, deviations


def _band(named: Named, drawn: str = "band") -> str:
    counts = sorted({len(group.runs) for _, group in named})
    if counts == [1]:
        return f"; one seed, so no {drawn}."
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"; mean over {seeds} seeds, the {drawn} one standard deviation."


def _note_left_out(section: Section, most: int = MOST) -> str:
    shown, known = min(most, len(section.shown)), len(section.named)
    return f" {shown} of {known} are drawn: the best of each method first." if shown < known else ""


def _figure(section: Section, kind: str, title: str, caption: str, chart: Plot | Mapping[str, Map]) -> Figure:
    """A figure of a section: one chart, or maps of several runs to choose from."""
    frames, choice = ({"": chart}, "") if isinstance(chart, Plot) else (chart, "run")
    return Figure(f"{section.title}-{kind}", title, caption, frames, choice, section=section.title)
