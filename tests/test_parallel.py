"""Crews, here of one process: the training that a process does alone, and what differs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from toys import TINY, benchmark, net_for, same, state
from zoolearn.nets.net import Net
from zoolearn.training import parallel
from zoolearn.training.fit import Checkpoints, cross_entropy, drain, fit
from zoolearn.training.parallel import Crew

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
