"""DER++: the loss by hand, the logits that go with the rows, and where it is plain fine-tuning."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from toys import TINY, benchmark, net_for, pictures, row_set, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.der import DerPlusPlus
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.batches import Batch


def der(**settings: Any) -> DerPlusPlus:
    return DerPlusPlus(**{"backbone": mlp_100, "recipe": TINY, **settings})


def replaying(**settings: Any) -> tuple[DerPlusPlus, Net, Batch]:
    """A learner in its third episode with a memory of rows of two tasks, of two and three classes, and a batch of the third."""
    first, second, third = benchmark(3)
    learner = der(memory_size=6, **settings)
    for number, task in enumerate((first, second)):
        logits = 5 * torch.ones(3, len(task.classes)) * torch.tensor([1.0, -1.0, 2.0])[: len(task.classes)]
        learner.memory.offer(task.train.x[:3], task.train.y[:3], number, seed=0, logits=logits)
        learner.classes[task.name] = task.classes
    learner.episode = 2
    batch = Batch(third.train.x[:6], third.train.y[:6], torch.zeros(6, dtype=torch.int64), (third.name,))
    return learner, net_for([first, second, third], mlp_100).eval(), batch


def test_the_loss_is_the_papers_by_hand() -> None:
    first, second, third = benchmark(3)
    learner, net, batch = replaying(logit_weight=0.3, label_weight=0.7)
    new = F.cross_entropy(net(batch.x, third.name), batch.y)
    logits = [net(task.train.x[:3], task.name) for task in (first, second)]
    kept = [torch.tensor([[5.0, -5.0]]), torch.tensor([[5.0, -5.0, 10.0]])]
    squares = torch.cat([(now - then).square().flatten() for now, then in zip(logits, kept, strict=True)]).mean()
    missed = [F.cross_entropy(now, task.train.y[:3]) for now, task in zip(logits, (first, second), strict=True)]
    by_hand = new + 0.3 * squares + 0.7 * sum(missed) / 2
    assert torch.allclose(learner.replay_loss(net, batch), by_hand, rtol=1e-5)


def test_rows_are_kept_with_the_logits_that_they_had_when_they_were_offered() -> None:
    task = pictures()
    learner = der(recipe=replace(TINY, epochs=1, batch_size=100, augment="no", dropout=0.0))
    logits = learner.new_net([task], learner.seed).train()(task.train.x, task.name)
    learner.learn(task)
    rows = {row.numpy().tobytes(): logit for row, logit in zip(task.train.x, logits, strict=True)}
    held = learner.memory.filled
    assert held == len(task.train)
    for row, kept in zip(*(learner.memory.columns[name][:held] for name in ("x", "logits")), strict=True):
        torch.testing.assert_close(kept, rows[row.numpy().tobytes()].detach(), atol=1e-5, rtol=1e-5)


def test_no_example_is_kept_twice_whatever_the_epochs() -> None:
    tasks = benchmark(3)
    learner = show(der(memory_size=40, recipe=replace(TINY, epochs=3, augment="no")), tasks)
    assert learner.memory.seen == sum(len(task.train) for task in tasks)
    assert len(row_set(learner.memory.columns["x"])) == learner.stored_samples == 40


def test_without_memory_it_is_fine_tuning_bit_for_bit() -> None:
    recipe = replace(TINY, weight_decay=0.1, dropout=0.3)
    plain = show(FineTune(backbone=with_norm, recipe=recipe), benchmark(3))
    assert same(state(show(der(memory_size=0, backbone=with_norm, recipe=recipe), benchmark(3)).net), state(plain.net))


def test_past_tasks_suffer_less_than_without_replay() -> None:
    tasks = [pictures(f"task {number}", per_class=30) for number in range(5)]
    recipe = replace(TINY, epochs=4, lr=0.2)
    plain = show(FineTune(backbone=with_norm, recipe=recipe, shared_head=True), tasks).evaluate(tasks[:-1])
    held = show(der(backbone=with_norm, recipe=recipe, memory_size=60, shared_head=True), tasks).evaluate(tasks[:-1])
    assert sum(held.values()) > sum(plain.values()) + 0.4


@pytest.mark.parametrize("wrong", [{"memory_size": -1}, {"logit_weight": -1.0}, {"label_weight": float("inf")}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        der(**wrong)


def test_one_replayed_row_is_refused_for_batch_norm_only() -> None:
    with pytest.raises(SettingsError, match="the size of a memory batch is 1 but the net has batch-norm"):
        show(der(memory_size=1, backbone=with_norm), benchmark(1))
    show(der(memory_size=1), benchmark(2))
