"""Tiny tasks that a net learns in a moment, tiny nets to learn them, and ways to look into a folder or a learner."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from zoolearn.beyond.warm_start import WarmStart
from zoolearn.cli import main
from zoolearn.data.task import Task
from zoolearn.data.toys import blobs, pictures  # noqa: F401 (for tests)
from zoolearn.data.toys import toy_benchmark as benchmark
from zoolearn.errors import StoreError
from zoolearn.methods.learner import Learner
from zoolearn.methods.registry import METHODS
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.run import progress, run
from zoolearn.testing import TINY, show  # noqa: F401 (for tests)
from zoolearn.training import batches
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Training, cross_entropy
from zoolearn.training.recipe import Recipe

SUBJECTS: dict[str, Callable[..., Learner]] = {
    **METHODS,
    "isolated, three nets": partial(METHODS["isolated"], networks=3),
    "model-zoo that starts warm": partial(METHODS["model-zoo"], grow=WarmStart(), replay=0.5, tasks_per_episode=2),
    "model-zoo that starts warm without replay": partial(METHODS["model-zoo"], grow=WarmStart(), replay=0.0),
}


def learner_of(method: Callable[..., Learner], recipe: Recipe = TINY, **settings: Any) -> Learner:
    """Any method with a small backbone and a short training."""
    return method(**{"backbone": mlp_100, "recipe": recipe, **settings})


def with_norm(shape: tuple[int, ...], dropout: float = 0.0) -> nn.Module:
    """A backbone with batch-norm: one hidden layer of eight units."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(int(np.prod(shape)), 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout)
    )


def settled(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module, its batch-norms with scales, shifts and statistics as after a training.

    A fresh batch-norm in evaluation mode changes nothing, so that no order of layers shows.
    """
    rng = torch.Generator().manual_seed(seed)
    for norm in module.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            for tensor in (norm.weight, norm.bias, norm.running_mean):
                if tensor is not None:
                    tensor.data.normal_(generator=rng)
            norm.running_var.uniform_(0.5, 2.0, generator=rng)
    return module


def net_for(tasks: Sequence[Task], backbone: Any = with_norm, **settings: Any) -> Net:
    net = Net(backbone, tasks[0].shape, **settings)
    for task in tasks:
        net.add_head(task.name, len(task.classes))
    return net


def state(net: Net) -> dict[str, Tensor]:
    """A copy of all tensors of a net."""
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def row_set(x: Tensor) -> set[bytes]:
    """Each row as bytes, to ask which rows occur where."""
    return {row.contiguous().numpy().tobytes() for row in x}


class Spy:
    """A loss that notes every batch before it computes the usual one."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __call__(self, net: Net, batch: Batch) -> Tensor:
        self.batches.append(batch)
        return cross_entropy(net, batch)


@contextmanager
def embedded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Net, bool, Tensor]]]:
    """Notes every pass of inputs through a net inside the block: the net, whether it was training, and the inputs."""
    passes: list[tuple[Net, bool, Tensor]] = []
    embed = Net.embed

    def noting(net: Net, x: Tensor) -> Tensor:
        passes.append((net, net.training, x.clone()))
        return embed(net, x)

    with monkeypatch.context() as patch:
        patch.setattr(Net, "embed", noting)
        patch.setattr(Training, "check_answers", lambda *_: None)  # it is no question of the method's
        yield passes


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, except the lock and the reserve."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".reserve"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def outcome(folder: Path) -> dict[str, Any]:
    """What a run left that must not depend on when and where it ran: all but times and surroundings, and their checksums.

    The heartbeat of a process that was killed is left where the next one finds nothing to do.
    """
    found: dict[str, Any] = {}
    for name, content in contents(folder).items():
        if "sittings/" in name or name == ".heartbeat":
            continue
        found[name] = _timeless(json.loads(content)) if name.endswith(".json") else content
    return found


def _timeless(content: Any) -> Any:
    if isinstance(content, list):
        return [_timeless(entry) for entry in content]
    if isinstance(content, dict):
        timed = ("seconds", "processor_seconds", "ms_per_sample", "checksum", "environment", "sittings", "command")
        return {name: _timeless(entry) for name, entry in content.items() if name not in timed}
    return content


processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(  # imported once: processes are forks
    ["torch._dynamo", "zoolearn.runs.run", "zoolearn.cli.run", "zoolearn.cli.report", "pytest"]
)


def begin(process: BaseProcess) -> None:
    """Starts a process; what forks it listens on a socket, whose path must be short wherever temporary files are."""
    with patch.object(tempfile, "tempdir", "/tmp" if os.access("/tmp", os.W_OK) else None):
        process.start()


def in_another_process(work: Callable[..., str], *arguments: Any) -> str:
    """What the work says at its end, or "killed" if it never came to that."""
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=_say, args=(theirs, work, *arguments))
    begin(process)
    theirs.close()
    try:
        said = ours.recv()
    except EOFError:
        said = None
    process.join()
    if process.exitcode == -signal.SIGKILL:
        return "killed"
    assert process.exitcode == 0, f"{work.__name__} ended with {process.exitcode}"
    assert isinstance(said, str)
    return said


def _say(told: Connection, work: Callable[..., str], *arguments: Any) -> None:
    told.send(work(*arguments))
    told.close()


ENCODING = os.environ.get("PYTHONIOENCODING") or "utf-8"


def forked_zoo(
    *words: object, folder: Path, encoding: str = ENCODING, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """A command in a process and a folder of its own, its streams in an encoding, without importing everything again."""
    with TemporaryDirectory() as place:
        told = [Path(place, name) for name in ("out", "err")]
        arguments = ([*map(str, words)], folder, encoding, variables, *told)
        process = processes.Process(target=_command, args=arguments)
        begin(process)
        process.join()
        return subprocess.CompletedProcess(words, process.exitcode or 0, *(path.read_bytes() for path in told))


def _command(
    words: Sequence[str], folder: Path, encoding: str, variables: Mapping[str, str], out: Path, err: Path
) -> None:
    os.environ.update(variables)
    os.chdir(folder)
    for number, path in enumerate((Path(os.devnull), out, err)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115 (as an interpreter makes them)
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["zoo", *words]
    main()


def cramped(size: int, folder: Path) -> str:
    """Goes on with a zoo where no file can be larger than `size`; says what went wrong."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        run(learner_of(METHODS["model-zoo"]), benchmark(3), folder)
    except StoreError as error:
        return str(error)
    return "nothing"


RESUMED = benchmark(3, per_class=6, test_per_class=2, augment=("crop", "flip"))
LONGER = Recipe(epochs=3, batch_size=4, lr=0.05, device="cpu")


def doomed(
    method: str, folder: Path, checkpoint_every: int | None, moments: int, told: Connection | None = None
) -> str:
    """Goes on with a run and kills itself after so many moments (batches, and steps of writing a file).

    Says how many moments there were if it comes to the end, and tells of each as it comes.
    """
    passed = 0

    def moment() -> None:
        nonlocal passed
        passed += 1
        if told is not None:
            told.send(passed)
        if passed == moments:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            moment()
            return function(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "CHUNK_BYTES", 1)  # word after every batch
        patch.setattr(os, "fsync", watched(os.fsync))
        patch.setattr(os, "replace", watched(os.replace))
        patch.setattr(os, "unlink", watched(os.unlink))
        for _ in progress(learner_of(SUBJECTS[method], LONGER), RESUMED, folder, checkpoint_every):
            moment()
    return str(passed)
