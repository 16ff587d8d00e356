"""Crews of one process and of two: the training that a process does alone, and what differs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from toys import TINY, benchmark, net_for, processes, same, state
from zoolearn.nets.backbones import mlp_100
from zoolearn.nets.net import Net
from zoolearn.training import parallel
from zoolearn.training.fit import Checkpoints, cross_entropy, drain, fit
from zoolearn.training.parallel import Crew
from zoolearn.training.recipe import Recipe

TASKS = benchmark(2).tasks


@pytest.fixture
def crew() -> Iterator[Crew]:
    store = parallel._store("127.0.0.1", 0, 1, is_master=True)
    with parallel._group(store, 0, 1):
        yield Crew(0, 1)


def trained(crew: Crew, precision: Any, **settings: Any) -> Net:
    net = net_for(TASKS)
    drain(crew.fitting(net, TASKS, replace(TINY, precision=precision), seed=0, **settings))
    return net


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_crew_of_one_trains_as_a_process_alone(crew: Crew, smoothing: float) -> None:
    alone, loss = net_for(TASKS), partial(cross_entropy, smoothing=smoothing)
    fit(alone, TASKS, TINY, seed=0, loss=loss)
    assert same(state(trained(crew, "float32", loss=loss)), state(alone))


def test_a_crew_trains_in_bfloat16_where_one_process_would_in_float16(crew: Crew) -> None:
    assert same(state(trained(crew, "float16")), state(trained(crew, "bfloat16")))


def test_what_a_crew_began_in_half_precision_one_process_goes_on_with(
    crew: Crew, tmp_path: Any, monkeypatch: Any
) -> None:
    checkpoints = Checkpoints(tmp_path, every=1)
    trained(crew, "float16", checkpoints=checkpoints)
    monkeypatch.setattr("zoolearn.training.fit.GradScaler", lambda device, enabled: torch.amp.GradScaler(device))
    recipe = replace(TINY, epochs=TINY.epochs + 1, precision="float16")
    assert fit(net_for(TASKS), TASKS, recipe, seed=0, checkpoints=checkpoints) > 0


def train_by_two(net: Net, recipe: Recipe, **settings: Any) -> float:
    """Trains a net by this process and another; gives the loss that is told."""
    others = []

    def call(rank: int, host: str, port: int) -> None:
        others.append(processes.Process(target=parallel.join, args=(rank, 2, host, port), daemon=True))
        others[0].start()

    with parallel.leading(2, "127.0.0.1", call):
        crew = parallel.crew_of_this_process()
        assert crew is not None
        loss = drain(crew.fitting(net, TASKS, recipe, seed=0, **settings))
    others[0].join()
    assert others[0].exitcode == 0
    return float(loss)


@pytest.mark.parametrize("balanced", [False, True])
def test_two_processes_whose_parts_of_a_batch_are_not_equal_train_as_one_does(balanced: bool) -> None:
    recipe = replace(TINY, batch_size=19)  # parts of 9 and 10 rows; a rest of 3 is too small to be parted
    alone, together, untrained = (net_for(TASKS, mlp_100, dropout=0.3) for _ in range(3))
    loss = fit(alone, TASKS, recipe, seed=0, balanced=balanced)
    assert train_by_two(together, recipe, balanced=balanced) == pytest.approx(loss, rel=1e-4)
    for name, tensor in state(alone).items():
        assert torch.allclose(state(together)[name], tensor, atol=1e-5), name
        assert not torch.allclose(state(untrained)[name], tensor, atol=1e-3), name
