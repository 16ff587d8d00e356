"""`zoo tune METHOD BENCHMARK`: the search for good settings, and a preset file of the best."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from zoolearn.cli import output
from zoolearn.cli.bars import follow_all
from zoolearn.cli.commands import wrap
from zoolearn.cli.flags import flag
from zoolearn.cli.form import RunOptions, change_settings, find_setting, make_plan, make_specs, read_form, read_value
from zoolearn.cli.streams import find_benchmark
from zoolearn.data.benchmarks import BENCHMARKS
from zoolearn.errors import SettingsError, unknown_name
from zoolearn.lab.presets import save_preset
from zoolearn.lab.published import Preset
from zoolearn.lab.tune.search import Search
from zoolearn.lab.tune.space import PAPER, describe_space, part_of_space
from zoolearn.lab.tune.trials import Trial, Tuning, rungs
from zoolearn.methods.registry import settings_of
from zoolearn.runs.jobs import Failed, Ray
from zoolearn.runs.spec import RunSpec

USAGE = """usage: zoo tune METHOD BENCHMARK [--tune-on BENCHMARK] [--trials N] [--space SETTING=LOW..HIGH] [--on ray] ...

Searches for settings under which the whole stream is learned well. Every trial is a run whose tasks are judged by training
data that was set aside, never by test data; weak trials are stopped early. The best settings are printed as a command and
saved as a preset. The same command again continues; with more --trials, it goes on searching.

To tune on less than is judged later: other tasks (--tune-on coarse-cifar100), fewer samples (--samples-per-class 100) or
the first tasks alone (--first-tasks 3: the command that is printed then judges on the rest).

example:    zoo tune model-zoo split-digits --trials 20 --epochs 5 --backbone mlp"""


@dataclass
class TuneOptions(RunOptions):
    """The search."""

    seeds: tyro.conf.Suppress[int] = 1  # a search has one

    out: Path | None = flag("folder of the search", "DIR", "runs/tune-METHOD-BENCHMARK")
    trials: int = flag("how many settings are tried", default=50)
    space: tyro.conf.UseAppendAction[tuple[str, ...]] = flag(
        "what is searched, in place of the default", "SETTING=LOW..HIGH|SETTING=VALUE,...", " ".join(PAPER), default=()
    )
    search: Literal["optuna", "nevergrad"] = flag("who proposes settings", default="optuna")
    tune_on: str | None = flag("tune on this one instead", "BENCHMARK", "the benchmark itself")
    validation: int = flag("percent of the training data that is set aside to judge trials", default=20)


def main(arguments: Sequence[str]) -> None:
    """Carries a search on to its end and names the best settings."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(wrap(USAGE))
        return
    name = arguments[0]
    form = read_form([name], arguments[1:], f"zoo tune {name}", TuneOptions)
    _check_options(form)
    place = form.place.place()
    torch.set_num_threads(place.threads)
    judged_on = form.benchmark
    form.benchmark = form.run.tune_on or judged_on
    space = dict(
        part_of_space(text, lambda setting, value: read_value(setting, find_setting(form, setting)[1], value))
        for text in form.run.space or PAPER
    )
    for setting in space:
        if find_setting(form, setting)[0] == "tasks":
            raise SettingsError(
                f"{setting} is of the benchmark; a search over it would compare what cannot be compared"
            )

    (spec,) = make_specs(name, form).values()
    spec = replace(spec, options={**spec.options, "validation": form.run.validation})
    for setting, part in space.items():
        for end in part.ends:
            change_settings(spec, {setting: end})  # a learner that cannot be is refused now, not by a trial
    tasks = len(spec.tasks(form.tasks.data))
    setup = {
        "method": spec.method,
        "settings": settings_of(spec.learner()),
        "benchmark": spec.benchmark,
        "options": dict(spec.options),
        "space": describe_space(space),
        "search": form.run.search,
        **({"source": spec.source} if spec.source else {}),
    }
    folder = form.run.out or Path("runs") / f"tune-{spec.method}-{Path(judged_on).name.replace(':', '.')}"
    plan = make_plan(form, "tune", *arguments)
    if isinstance(place, Ray):
        plan = replace(plan, checkpoint_every=plan.checkpoint_every or 1)
    steps = rungs(tasks) if spec.learner().answers_at_once else [tasks]
    tuning = Tuning(folder, setup, lambda settings: change_settings(spec, settings), plan, steps)
    search = Search(space, form.run.search, form.learner.seed, form.run.trials)
    _execute(tuning, search, form.run.trials, place)
    _announce(tuning, spec, judged_on, form)


def _check_options(form: Any) -> None:
    if form.run.trials < 1:
        raise SettingsError(f"trials is {form.run.trials}; give 1 or more")
    if not 1 <= form.run.validation <= 99:
        raise SettingsError(f"validation is {form.run.validation} percent of the training data; give 1 to 99")
    if form.run.tune_on is not None and form.run.tune_on not in BENCHMARKS and not find_benchmark(form.run.tune_on):
        raise SettingsError(unknown_name("benchmark", form.run.tune_on, BENCHMARKS))


def _execute(tuning: Tuning, search: Search, count: int, place: Any) -> None:
    kept = f"the trials are kept in {tuning.folder}"
    for end in follow_all(tuning.execute(search, count, place), output.console(), kept):
        if isinstance(end, Failed):
            print(f"zoo: {end.job.name}: {end.why}", file=sys.stderr)


def _announce(tuning: Tuning, spec: RunSpec, judged_on: str, form: Any) -> None:
    best, states = tuning.best, [trial.state for trial in tuning.trials]
    for trial in _rank(tuning.trials)[:5]:
        words = ", ".join(f"{name} {_short(value)}" for name, value in trial.settings.items())
        print(f"{trial.name}: {100 * trial.values[-1]:.2f} % right of what was set aside, {words}")
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    print(f"{len(states)} trials: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
    same, first = form.benchmark == judged_on, form.tasks.first_tasks
    rest = {name: value for name, value in spec.options.items() if name in (*spec.making, "task_order")} if same else {}
    if same and first is not None and first < len(spec.whole(form.tasks.data)):
        rest["after_tasks"] = first
    found = replace(change_settings(spec, best.settings), options=rest)
    target = f"{100 * best.values[-1]:.2f} on training data that was set aside"
    file = tuning.folder / "best.json"
    save_preset(Preset("tuned", found, target, f"zoo tune on {spec.benchmark}, {len(states)} trials"), file)
    own = {name: each for name, each in found.own.items() if name != "benchmark"}
    if (made_by := find_benchmark(judged_on)) is not None:
        own["benchmark"] = made_by
    final = replace(found, benchmark=judged_on, own=own)
    print(
        f"\nbest settings, to be judged by test data:\n  {final.command}{_data(form)}\nor, with the file that they are in:"
    )
    named = [word for name, place in final.own_settings.items() for word in (f"--{name.replace('_', '-')}", place)]
    named += ["--features", str(final.extractor)] if final.extractor else []
    print(f"  {shlex.join(['zoo', 'run', *final.subject, '--preset', str(file), *named])}{_data(form)}")


def _data(form: Any) -> str:
    return f" --data {shlex.quote(str(form.tasks.data))}" if form.tasks.data else ""


def _rank(trials: Sequence[Trial]) -> list[Trial]:
    return sorted((t for t in trials if t.state == "done"), key=lambda trial: -trial.values[-1])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
