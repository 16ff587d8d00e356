"""One run, or one group of runs, task by task."""

from statistics import fmean

from zoolearn.errors import DataError
from zoolearn.lab.groups import Group, episodes_of
from zoolearn.lab.tables import MISSING, Table, human, percent, seconds, text
from zoolearn.runs.results import Results


def per_task(results: Results) -> Table:
    """Accuracy of each task met, in percent: just learned, at the end, and the change between; then their means.

    Where it was measured, also the accuracy at the end without the task told: by heads, with the task inferred first, by statistics.
    """
    summary = results.summary()
    untold = _class_incremental(results)
    final = results.accuracy[-1] if results.accuracy else []
    tasks = zip(results.tasks, results.learned, final, strict=False)  # ends with the tasks met
    known = [value for value in results.learned if value is not None]
    means = ("mean", fmean(known) if len(known) == len(final) > 0 else None, summary["average_accuracy"])
    rows = []
    for name, first, last in [*tasks, means]:
        without_task = (percent([shares[name]]) for shares in untold.values())
        rows.append((name, percent([first]), percent([last]), _change(first, last), *without_task))
    return Table(("task", "just learned", "final", "change", *untold), tuple(rows), labels=1)


def _class_incremental(results: Results) -> dict[str, dict[str, float | None]]:
    """Class-incremental accuracies by column heading; of each task, and their mean."""
    if results.untold is None:
        return {}
    measured = {
        "not told": (results.untold.accuracy, "class_incremental_accuracy"),
        "task inferred": (results.untold.inferred, "class_incremental_inferred"),
        "by statistics": (results.untold.statistics, "class_incremental_statistics"),
    }
    summary = results.summary()
    return {name: {**shares, "mean": summary[key]} for name, (shares, key) in measured.items() if shares is not None}


def _change(first: float | None, last: float | None) -> str:
    return MISSING if first is None or last is None else f"{100 * (last - first):+z.2f}"


def single_run(results: Results, width: int | None = None) -> str:
    """One run as text: what it was, the accuracy of each task, and the measures."""
    summary = results.summary()
    state = "" if results.finished else f", {episodes_of(results)} episodes so far"
    measures = {
        "forward transfer (learning accuracy)": percent([summary["forward_transfer"]]),
        "forgetting": percent([summary["forgetting"]]),
        "backward transfer": percent([summary["backward_transfer"]]),
        **{
            f"class-incremental ({name})": percent([shares["mean"]])
            for name, shares in _class_incremental(results).items()
        },
        "stored samples": f"{results.stored_samples:,}",
        "params": human(results.num_parameters),
        "seconds": seconds(sum(results.seconds.values())),
    }
    return "\n".join(
        [
            f"{results.method} on {results.stream}{state}",
            text(per_task(results), width),
            ", ".join(f"{name} {value}" for name, value in measures.items()),
        ]
    )


def matrix(name: str, group: Group) -> Table:
    """The accuracy matrix in percent, a row for each episode and a column for each task, the mean over seeds."""
    if len({tuple(run.meetings) for run in group.runs}) > 1:
        raise DataError(f"the runs of {name} met their tasks in different orders, so their matrices have no mean")
    tasks = group.first.met
    rows = []
    for episode in range(len(group.first.accuracy)):
        columns = zip(*(run.accuracy[episode] for run in group.runs), strict=True)
        cells = [percent(values).partition(" ")[0] for values in columns]
        rows.append((str(episode + 1), *cells, *[""] * (len(tasks) - len(cells))))
    seeds = f"mean over {len(group.runs)} seeds" if len(group.runs) > 1 else "one seed"
    note = f"{name} on {group.first.stream}: test accuracy in percent after each episode, {seeds}."
    return Table(("episode", *tasks), tuple(rows), labels=1, notes=(note,))
