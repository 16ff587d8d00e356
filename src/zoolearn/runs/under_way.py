"""Trainings under way in a run: where they are saved, who does them, and until when they are kept."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeGuard

from zoolearn.data.stream import Benchmark
from zoolearn.errors import SettingsError
from zoolearn.methods.learner import Learner
from zoolearn.runs.state import Changes
from zoolearn.runs.store import RunFolder
from zoolearn.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from zoolearn.methods.isolated import Isolated
    from zoolearn.runs.ahead import PretrainedTasks


def is_isolated(learner: Learner) -> "TypeGuard[Isolated]":
    """Whether a learner's nets need their own task alone, so that they can be trained ahead."""
    from zoolearn.methods.isolated import Isolated

    return isinstance(learner, Isolated)


def save_trainings(learner: Learner, folder: Path, every: int | None) -> None:
    """Lets a learner save its trainings every few epochs, and take up what workers of an earlier sitting left."""
    if is_isolated(learner):
        if every is not None or folder.exists():
            learner.checkpoints = Checkpoints(folder, every or learner.recipe.epochs + 1)
    elif every is not None:
        learner.checkpoints = Checkpoints(folder, every, carried=Changes(learner))


@contextmanager
def with_workers(
    learner: Learner, benchmark: Benchmark, folder: RunFolder | None, every: int | None, workers: int
) -> "Iterator[PretrainedTasks | None]":
    """Workers that train ahead inside `with`, if there are several and the learner can use them."""
    if workers < 1:
        raise SettingsError(f"workers is {workers}; give 1 or more")
    in_parts = any(task.part for task in benchmark)  # parts depend on earlier ones
    if workers == 1 or in_parts or learner.episode == len(benchmark) or not is_isolated(learner):
        yield None
        return
    from zoolearn.runs.ahead import train_ahead  # it imports the job engine

    with ExitStack() as stack:
        path = folder.checkpoints if folder is not None else Path(stack.enter_context(TemporaryDirectory()))
        yield stack.enter_context(train_ahead(learner, benchmark, workers, path, every))


def discard_trainings(learner: Learner, episode: int) -> None:
    """Removes the saved trainings of a committed episode, where those of others are kept."""
    if is_isolated(learner) and isinstance(learner.checkpoints, Checkpoints):
        for seed in learner.independent_trainings(episode):
            learner.checkpoints.path(seed).unlink(missing_ok=True)
