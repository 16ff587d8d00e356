"""Trains tasks ahead: worker processes do trainings that depend on their own task alone, before the run gets to them.

A worker leaves a finished training in the checkpoint folder, under its seed, and the learner resumes it there at its
very end. So a run with workers is bit-equal to one without, episodes are committed in order, and trainings done ahead
survive Ctrl-C.
"""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from zoolearn.cores import usable_cores
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.methods.isolated import Isolated
from zoolearn.runs.jobs import Done, Failed, Job, Local, Report, map_jobs
from zoolearn.training.checkpoints import Checkpoints
from zoolearn.training.fit import Work

log = logging.getLogger(__name__)


@contextmanager
def train_ahead(
    learner: Isolated, benchmark: Benchmark, workers: int, folder: Path, every: int | None
) -> Iterator["PretrainedTasks"]:
    """Workers that train the tasks which the learner has not met yet, inside `with`."""
    checkpoints = Checkpoints(folder, every or learner.recipe.epochs, final=True)
    blank_copy = replace(learner)  # the settings without the state, which trainings do not need
    blank_copy.checkpoints = learner.checkpoints = checkpoints
    blank_copy.listener = learner.listener
    jobs = {}
    for episode in range(learner.episode, len(benchmark)):
        seeds = learner.independent_trainings(episode)
        for number, seed in enumerate(seeds, 1):
            task = benchmark[episode]
            name = task.name if len(seeds) == 1 else f"{task.name}, net {number}"
            jobs[seed] = Job(name, train, (blank_copy, task, seed, name))
    threads = torch.get_num_threads()  # other numbers round otherwise, and this one is recorded
    if threads > 1 and threads * workers > usable_cores():
        log.warning(
            "%d workers of %d threads each wait for each other on %d cores; set fewer threads or workers",
            *(workers, threads, usable_cores()),
        )
    with closing(map_jobs(list(jobs.values()), Local(workers, threads))) as events:
        yield PretrainedTasks(learner, jobs, events)


class PretrainedTasks:
    """The trainings of the workers."""

    def __init__(
        self,
        learner: Isolated,
        jobs: dict[int, Job],
        events: Iterator[Report | Done | Failed],
    ) -> None:
        self.learner, self.jobs, self.events = learner, jobs, events
        self.ended: dict[Job, Done | Failed] = {}

    def wait(self, episode: int) -> Work[None]:
        """Waits for an episode's trainings, yielding the progress of all; what they took is in their checkpoints."""
        jobs = [self.jobs[seed] for seed in self.learner.independent_trainings(episode)]
        while not all(job in self.ended for job in jobs):
            event = next(self.events)
            if isinstance(event, Report):
                yield event.content
            else:
                self.ended[event.job] = event
        for job in jobs:
            end = self.ended[job]
            if isinstance(end, Failed):
                end.error.add_note(end.trace)  # where it was raised, in the worker
                raise end.error


def train(learner: Isolated, task: Task, seed: int, name: str) -> Work[None]:
    """One training in a worker: its result is the checkpoint."""
    for step in learner.train_independently(task, seed):
        yield replace(step, what=name)
