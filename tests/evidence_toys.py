"""Runs that were never run: results as a learner would leave them, for pages, plots and tables."""

from pathlib import Path

from zoolearn.methods.learner import Episode
from zoolearn.methods.registry import METHODS, settings_of
from zoolearn.runs.results import Results
from zoolearn.training.recipe import Recipe

TASKS = ["cats <and> dogs", "fish", "birds", "trees"]


def finished_run(
    method: str = "model-zoo",
    seed: int = 0,
    benchmark: str = "split-digits",
    episodes: int = 4,
    epochs: int = 1,
    base: float = 0.6,
    **settings: object,
) -> Results:
    """A run whose accuracies rise by a point an episode, and whose episodes draw all past tasks."""
    learner = METHODS[method](seed=seed, recipe=Recipe(epochs=epochs), **settings)
    results = Results(
        method=method,
        benchmark=benchmark,
        tasks=TASKS,
        settings={**settings_of(learner), "benchmark": {}},
        environment={"commit": "0123456789abcdef"},
        stored_samples=400,
        num_parameters=1000 * (seed + 1),
        ms_per_sample=0.5,
    )
    for episode in range(episodes):
        past = TASKS[:episode] if method == "model-zoo" else []
        results.accuracy.append([base + 0.01 * (episode + task) + 0.002 * seed for task in range(episode + 1)])
        weights = {name: round(1 / len(past), 3) for name in past} or None
        seconds = {"train": 2.0 + seed, "evaluate": 0.5}
        results.episodes.append(Episode((TASKS[episode], *past), weights, 0.5, seconds))
    results.command = results.spec.command
    return results


def saved_runs(folder: Path) -> Path:
    """Two methods with two seeds each, in folders."""
    for method, base in (("model-zoo", 0.7), ("isolated", 0.65)):
        for seed in (0, 1):
            finished_run(method, seed, base=base).save(folder / f"{method}-{seed}")
    return folder
