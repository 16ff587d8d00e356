"""A log within trainings, as JSON lines: loss and accuracy of batches, and test accuracies between epochs.

Every line is written whole, so that a program can follow the file. The log changes nothing of a training, and its
predictions are no cost of the run. A resumed run repeats some steps, whose lines are then there twice.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.nets.net import Net, passed
from zoolearn.runs.records import STEPS
from zoolearn.training.batches import Batch, to_device
from zoolearn.training.clock import clock
from zoolearn.training.predict import split_rows


@dataclass(frozen=True)
class Log:
    """What is logged: every `every` batches, every `evaluate_every` epochs, and whether for TensorBoard too."""

    every: int | None = None
    evaluate_every: int | None = None
    tensorboard: bool = False

    def __post_init__(self) -> None:
        for name, value, unit in (
            ("log_every", self.every, "steps"),
            ("evaluate_every", self.evaluate_every, "epochs"),
        ):
            if value is not None and value < 1:
                raise SettingsError(f"{name} is {value}; it counts {unit}, so 1 or more")
        if self.tensorboard and not self.is_on:
            raise SettingsError(
                "tensorboard shows what is logged, and nothing is; add --log-every N or --evaluate-every N"
            )

    @property
    def is_on(self) -> bool:
        return self.every is not None or self.evaluate_every is not None


@dataclass(frozen=True)
class StepLog:
    """A listener of trainings that appends lines to a file; processes may share the file.

    The accuracy of a batch is that of the net right after its step, in evaluation mode. Test accuracies are the
    net's own (a member's, not the zoo's), on all tasks of the run that it has a head for.
    """

    file: Path
    log: Log
    tasks: Sequence[Task]

    def __call__(self, net: Net, tasks: Sequence[Task], batch: Batch, loss: Tensor, steps: int) -> None:
        """Called after a step of a training."""
        done = batch.step + 1
        place = {"task": tasks[0].name, "step": done, "epoch": batch.epoch + 1}
        if self.log.every is not None and done % self.log.every == 0:
            with _preserve_state(net):
                self._write({**place, "loss": float(loss), "accuracy": _right(net, batch) / len(batch.y)})
        every = self.log.evaluate_every
        if every is not None and done % steps == 0 and (batch.epoch + 1) % every == 0:
            trained = {task.name for task in tasks}  # asked last: what a net holds of its task is then as it was
            given = {task.name: task for task in (*tasks, *self.tasks) if task.name in net.head_index}
            known = sorted(given.values(), key=lambda task: task.name in trained)
            with _preserve_state(net):
                self._write({**place, "test_accuracy": {task.name: _test_accuracy(net, task) for task in known}})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without the tasks: a worker's nets have a head for their own task only."""
        return StepLog, (self.file, self.log, ())

    def _write(self, line: Mapping[str, Any]) -> None:
        """Writes a line in one call, which appends it whole."""
        file = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)


@contextmanager
def _preserve_state(net: Net) -> Iterator[None]:
    """Allows predictions inside `with`; restores mode, counts, the clock and torch's random state."""
    rows, training, began = passed.rows.copy(), net.training, clock.now()
    net.eval()
    try:
        with torch.random.fork_rng([net.device] if net.device.type == "cuda" else []), torch.no_grad():
            yield
    finally:
        net.train(training)
        passed.rows = rows
        clock.put_forward(began - clock.now())


def _right(net: Net, batch: Batch) -> int:
    right = 0
    for number, task in enumerate(batch.tasks):
        here = batch.task_index == number
        if bool(here.any()):
            right += int((net(batch.x[here], task).argmax(dim=1) == batch.y[here]).sum())
    return right


def _test_accuracy(net: Net, task: Task) -> float:
    pieces = split_rows([net], task.test.x, net.device)
    answers = torch.cat([net(to_device(rows, net.device), task.name).argmax(dim=1).cpu() for rows in pieces])
    return int((answers == task.test.y).sum()) / len(answers)


@contextmanager
def tensorboard(folder: Path | None) -> Iterator[Callable[[], None]]:
    """A function that passes new lines to TensorBoard, in a run's `tensorboard/`."""
    if folder is None:
        yield lambda: None
        return
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        reason = "TensorBoard needs tensorboardX; install it: pip install 'zoolearn[tensorboard]'"
        raise SettingsError(reason) from error
    file, writer = folder / STEPS, None
    read = file.stat().st_size if file.exists() else 0  # earlier sittings have shown what is there

    def show() -> None:
        nonlocal read, writer
        if not file.exists():
            return
        with file.open("rb") as lines:
            read = min(read, lines.seek(0, os.SEEK_END))  # a run that begins again begins its file again
            lines.seek(read)
            new = [line for line in lines if line.endswith(b"\n")]
        for line in new:
            read += len(line)
            writer = writer or SummaryWriter(str(folder / "tensorboard"))  # whose folder may not be there before
            for name, value, step in scalars(json.loads(line)):
                writer.add_scalar(name, value, step)

    try:
        yield show
    finally:
        show()
        if writer is not None:
            writer.close()


def scalars(line: Mapping[str, Any]) -> list[tuple[str, float, int]]:
    """The numbers of a line under the names of their curves, and the step; TensorBoard writes `_` for spaces in names.

    >>> scalars({"task": "0-1", "step": 8, "epoch": 2, "test_accuracy": {"0-1": 0.5}})
    [('0-1/test_accuracy/0-1', 0.5, 8)]
    """
    task, step = line["task"], line["step"]
    found = [(f"{task}/{name}", line[name], step) for name in ("loss", "accuracy") if name in line]
    tested = line.get("test_accuracy", {})
    return [*found, *((f"{task}/test_accuracy/{name}", value, step) for name, value in tested.items())]
