"""A-GEM: a step that opposes the memory loses exactly the part that does."""

from dataclasses import replace

import pytest
import torch

from toys import TINY, benchmark, embedded, learner_of, row_set, same, show, state, with_norm
from zoolearn.methods import a_gem
from zoolearn.methods.a_gem import AGem, project
from zoolearn.methods.bases.single_net import FineTune

TASKS = benchmark(3).tasks


def pairs(count=50, size=1000):
    rng = torch.Generator().manual_seed(0)
    return [torch.randn(2, size, generator=rng).unbind() for _ in range(count)]


def test_what_opposed_the_reference_is_gone_and_the_rest_is_untouched():
    for gradient, reference in pairs():
        projected = project(gradient, reference)
        scale = gradient.norm() * reference.norm()
        if gradient @ reference < 0:
            assert abs(projected @ reference) <= 1e-6 * scale
            expected = gradient - (gradient @ reference) / (reference @ reference) * reference
            torch.testing.assert_close(projected, expected)
        else:
            assert projected is gradient
        assert projected.norm() <= gradient.norm() * (1 + 1e-6)


def test_a_memory_without_gradient_changes_nothing():
    gradient = torch.ones(3)
    assert project(gradient, torch.zeros(3)) is gradient


@pytest.mark.parametrize("nothing", [{"memory_size": 0}, {"memory_batch": 0}])
def test_without_a_memory_it_is_fine_tuning(nothing):
    ours, plain = show(learner_of(AGem, **nothing), TASKS), show(learner_of(FineTune), TASKS)
    assert same(state(ours.net), state(plain.net))


def test_the_first_task_is_plain_training():
    ours, plain = show(learner_of(AGem), TASKS[:1]), show(learner_of(FineTune), TASKS[:1])
    assert same(state(ours.net), state(plain.net))
    assert ours.stored_samples == 24  # all of a task with 12 of each class, 13 allowed


def test_steps_without_conflict_leave_old_heads_alone_under_momentum_and_weight_decay(monkeypatch):
    monkeypatch.setattr(a_gem, "project", lambda gradient, *_: gradient)
    recipe = replace(TINY, dropout=0.0, momentum=0.9, weight_decay=0.1)
    ours, plain = show(learner_of(AGem, recipe), TASKS), show(learner_of(FineTune, recipe), TASKS)
    assert same(state(ours.net), state(plain.net))


def test_a_step_in_conflict_creates_the_gradients_of_old_heads(monkeypatch):
    conflicts = []

    def noting(gradient, reference):
        projected = project(gradient, reference)
        conflicts.append(projected is not gradient)
        assert projected @ reference >= -1e-6 * gradient.norm() * reference.norm()
        return projected

    monkeypatch.setattr(a_gem, "project", noting)
    learner = show(learner_of(AGem, memory_size=2), TASKS[:1])
    before = learner.net.head("stripes").weight.clone()
    learner.learn(TASKS[1])
    assert any(conflicts)
    assert not learner.net.head("stripes").weight.equal(before)


@pytest.mark.parametrize("look_first", [False, True])
def test_the_memory_passes_before_the_new_batch_which_may_pass_once_more_before(look_first, monkeypatch):
    learner = show(learner_of(AGem, replace(TINY, epochs=1, batch_size=100), look_first=look_first), TASKS[:1])
    with embedded(monkeypatch) as passes:
        learner.learn(TASKS[1])
    assert all(training for _, training, _ in passes)
    memory, new = row_set(TASKS[0].train.x), row_set(TASKS[1].train.x)
    assert [row_set(rows) for _, _, rows in passes] == ([new] if look_first else []) + [memory, new]


def test_a_look_first_moves_batch_norms_statistics_and_nothing_else():
    recipe = replace(TINY, dropout=0.0)
    plain, looked = (
        show(learner_of(AGem, recipe, backbone=with_norm, look_first=look), TASKS) for look in (False, True)
    )
    differ = [name for name, tensor in state(plain.net).items() if not tensor.equal(state(looked.net)[name])]
    assert {name.rpartition(".")[2] for name in differ} == {"running_mean", "running_var", "num_batches_tracked"}


def test_one_head_for_all_tasks():
    tasks = benchmark(5).tasks[::2]
    learner = show(learner_of(AGem, shared_head=True), tasks)
    assert len(learner.net.heads) == 1
    assert learner.predict_proba(tasks[0].test.x, task=tasks[0].name).shape == (20, 2)
