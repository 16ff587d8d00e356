"""MC-SGD: the solution of all tasks lies where straight lines to the old and to the new solution stay low."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import WHOLE, much_closer, smooth, vague
from toys import TINY, benchmark, embedded, learner_of, row_set, same, show, state, with_norm
from zoolearn.data.stream import Benchmark
from zoolearn.errors import DataError, SettingsError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.mc_sgd import McSgd, _as_loss, along_line, deal, measure_norms
from zoolearn.methods.parts.flat import Flat
from zoolearn.methods.parts.head_logits import task_logits
from zoolearn.methods.parts.memory import Memory
from zoolearn.runs.run import run
from zoolearn.runs.store import load
from zoolearn.training.sgd import Sgd

TASKS = benchmark(3).tasks


def square(at):
    return lambda weights: ((weights["w"] - at) ** 2).sum()


def vectors():
    rng = torch.Generator().manual_seed(0)
    return torch.randn(3, 6, generator=rng, dtype=torch.float64).unbind()


def test_after_the_first_task_both_solutions_are_the_same():
    learner = show(learner_of(McSgd), TASKS[:1])
    assert same(state(learner.net), state(learner.hat))
    assert same(state(learner.net), state(show(learner_of(FineTune), TASKS[:1]).net))


def test_the_gradient_of_a_line_agrees_with_finite_differences():
    end, weights, direction = vectors()

    def loss(point):
        return (point["w"].sin() * point["w"].roll(1).exp()).sum()

    def total(moved):
        return float(along_line(loss, {"w": end}, {"w": moved}, 50)[0])

    _, gradient = along_line(loss, {"w": end}, {"w": weights}, 50)
    difference = (total(weights + 1e-5 * direction) - total(weights - 1e-5 * direction)) / 2e-5
    assert difference == pytest.approx(float(gradient["w"] @ direction), rel=1e-6)


def test_the_sum_is_over_equal_steps_and_the_authors_gradient_adds_up_from_point_to_point():
    end, weights, at = vectors()
    places = [number / 5 for number in range(6)]
    points = [end + place * (weights - end) for place in places]
    value, gradient = along_line(square(at), {"w": end}, {"w": weights}, 5)
    torch.testing.assert_close(value, torch.stack([((p - at) ** 2).sum() for p in points[1:]]).sum())
    torch.testing.assert_close(gradient["w"], sum(s * 2 * (p - at) for s, p in zip(places, points, strict=True)))
    value, gradient = along_line(square(at), {"w": end}, {"w": weights}, 5, exact=False)
    torch.testing.assert_close(value, torch.stack([((p - at) ** 2).sum() for p in points]).sum())
    added_up = [
        sum(2 * (p - at) for p in points[: number + 1]) for number in range(6)
    ]  # what .grad holds at each point
    torch.testing.assert_close(gradient["w"], sum(added_up))


def test_a_weight_that_a_line_does_not_use_has_a_gradient_of_zeros():
    weights = {"w": torch.ones(2), "unused": torch.ones(3)}
    _, gradient = along_line(square(torch.zeros(2)), weights, weights, 3)
    assert gradient["unused"].tolist() == [0, 0, 0]


def test_between_two_bowls_the_best_point_is_the_middle_and_the_way_there_descends():
    first, second, _ = vectors()
    weights = {"w": nn.Parameter(first + 0.1 * (second - first))}
    optimizer = torch.optim.SGD(weights.values(), lr=0.02)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        lines = [along_line(square(end), {"w": end}, weights, 5) for end in (first, second)]
        total = _as_loss(lines, weights)
        total.backward()
        optimizer.step()
        losses.append(total.item())
    torch.testing.assert_close(weights["w"].detach(), (first + second) / 2)
    assert all(after <= before + 1e-12 for before, after in pairwise(losses))


def flat_of(net):
    return torch.cat([weight.detach().reshape(-1) for weight in net.parameters()]).double()


def gradient_at(net, place, batches):
    """The gradient of the mean loss of some tasks' rows, each through its own head, with the weights at a place."""
    net, done = deepcopy(net).double(), 0
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(place[done : done + weight.numel()].view_as(weight))
            done += weight.numel()
    losses = [F.cross_entropy(net(x.double(), task), y, reduction="none") for task, x, y in batches]
    return Flat(net.parameters()).gradient_of(torch.cat(losses).mean())


@pytest.mark.parametrize("exact", [True, False])
def test_a_step_along_the_lines_is_that_of_the_paper_by_hand(exact):
    first, second = vague("one"), vague("two", classes=3)
    settings = {"memory_size": 3, "line_points": 4, "line_start": 0.3, "line_lr": 0.5, "line_samples": 100}
    learner = learner_of(McSgd, WHOLE, backbone=smooth, line_batch=100, exact_gradient=exact, **settings)
    learner.learn(first)
    bar = learner.grow_net(second)
    learner.learn(second)
    bar.head(second.name).load_state_dict(learner.hat.head(second.name).state_dict())
    old, new = flat_of(bar), flat_of(learner.hat)
    start = old + 0.3 * (new - old)
    memory = [(batch.tasks[0], batch.x, batch.y) for batch in learner.memory.by_task()]
    rows = [(second.name, second.train.x, second.train.y)]

    def stepped(end_of_memory, end_of_rows):
        total = torch.zeros_like(start)
        lines = [(end_of_memory, batch) for batch in memory] + [(end_of_rows, *rows)]
        for end, batch in lines:
            for s, times in ((0.0, 5), (0.25, 4), (0.5, 3), (0.75, 2), (1.0, 1)):
                weight = s if exact else times / len(batch[2])
                total += weight * gradient_at(bar, end + s * (start - end), [batch])
        return start - 0.5 * total

    assert much_closer(flat_of(learner.net), stepped(old, new), [stepped(new, old), start])


def test_without_a_rate_the_solution_stays_where_it_starts():
    learner = show(learner_of(McSgd, line_lr=0.0, line_start=0.3), TASKS[:1])
    before = state(learner.net)
    learner.learn(TASKS[1])
    new = state(learner.hat)
    for name, tensor in state(learner.net).items():
        assert tensor.equal(before.get(name, new[name]).lerp(new[name], 0.3))  # the new head is the new task's


def test_full_batch_steps_at_a_small_rate_lower_the_lines():
    settings = {"line_batch": 100, "line_samples": 100, "line_epochs": 30, "line_lr": 1e-3, "memory_size": 100}
    learner = show(learner_of(McSgd, replace(TINY, momentum=0.0), **settings), TASKS[:1])
    losses = [progress.loss for progress in learner.iter_learn(TASKS[1]) if progress.epochs == 30]
    assert len(losses) == 30
    assert all(after <= before + 1e-5 for before, after in pairwise(losses))
    assert losses[-1] < losses[0]


def test_a_task_is_learned_on_from_the_last_ones_solution_or_from_that_of_all():
    hat = show(learner_of(McSgd), TASKS)
    plain = show(learner_of(FineTune), TASKS)
    assert same(state(hat.hat), state(plain.net))
    assert not same(state(hat.net), state(plain.net))
    bar = show(learner_of(McSgd, continue_from="bar"), TASKS)
    assert bar.hat is None
    assert not same(state(bar.net), state(hat.net))


def test_learning_a_task_leaves_old_heads_alone_and_the_lines_move_them():
    learner = show(learner_of(McSgd, replace(TINY, weight_decay=0.1)), TASKS[:1])
    before = state(learner.hat.head("stripes"))
    learner.learn(TASKS[1])
    assert same(state(learner.hat.head("stripes")), before)
    assert not same(state(learner.net.head("stripes")), before)


def test_the_lines_use_memory_of_all_tasks_and_some_of_the_new_one(monkeypatch):
    learner = show(learner_of(McSgd, memory_size=2, line_samples=9, line_points=1), TASKS[:1])
    with embedded(monkeypatch) as passes:
        learner.learn(TASKS[1])
    *past, new = passes[-3:]
    assert {frozenset(row_set(rows)) for _, _, rows in past} == {
        frozenset(row_set(batch.x)) for batch in learner.memory.by_task()
    }
    assert learner.memory.tasks == ("stripes", "dots")
    assert learner.stored_samples == 2 * 2 + 2 * 3
    assert len(new[2]) == 9
    assert row_set(new[2]) < row_set(TASKS[1].train.x)


def test_batch_norm_on_the_lines_uses_the_batch_and_answers_use_statistics_of_the_memory(monkeypatch):
    learner = learner_of(McSgd, backbone=with_norm, memory_size=4)
    show(learner, TASKS[:1])
    with embedded(monkeypatch) as passes:
        learner.learn(TASKS[1])
    on_lines = [net for net, training, _ in passes if net.backbone[2].running_mean is None]
    assert len(on_lines) == 3 * 5 * 1  # two tasks of the memory and the new task's rows
    assert not any(net.training for net in on_lines)
    body = learner.net.backbone
    inputs = body[1](body[0](learner.net.normalize(learner.memory.x))).detach()
    torch.testing.assert_close(body[2].running_mean, inputs.mean(dim=0))
    torch.testing.assert_close(body[2].running_var, inputs.var(dim=0))
    assert body[2].momentum == 0.1


def test_a_backbone_without_statistics_or_an_empty_memory_is_left_alone():
    learner = show(learner_of(McSgd, memory_size=0), TASKS[:2])
    assert learner.stored_samples == 0
    measured = show(learner_of(FineTune, backbone=with_norm), TASKS[:1]).net
    before = state(measured)
    measure_norms(measured, Memory())
    assert same(state(measured), before)


def test_memory_batches_are_of_one_task_and_all_are_dealt_out_to_the_steps_of_an_epoch():
    learner = show(learner_of(McSgd, memory_size=4), TASKS)
    memory = learner.memory  # 8 rows of two classes, 12 of three, 8 of two
    few = deal(memory, rows=100, steps=2, seed=0)
    assert sorted(len(batch.y) for step in few for batch in step) == [8, 8, 12]
    assert sorted(map(len, few)) == [1, 2]
    many = deal(memory, rows=100, steps=7, seed=0)
    assert [len(step) for step in many] == [1] * 7
    assert {batch.tasks for step in many for batch in step} == {("stripes",), ("dots",), (TASKS[2].name,)}
    small = [batch for step in deal(memory, rows=5, steps=3, seed=0) for batch in step]
    assert sorted(len(batch.y) for batch in small) == [2, 3, 3, 5, 5, 5, 5]
    assert row_set(torch.cat([batch.x for batch in small])) == row_set(memory.x)


def test_with_norms_by_the_batch_an_answer_depends_on_the_rows_beside_it_and_survives_being_saved(tmp_path):
    recipe = replace(TINY, dropout=0.0)
    learner = learner_of(McSgd, recipe, backbone=with_norm, memory_size=4, answer_norms="batch")
    run(learner, Benchmark("toys", TASKS), tmp_path / "run")
    x, name = TASKS[0].test.x, TASKS[0].name
    whole, half = learner.predict_proba(x, name), learner.predict_proba(x[:4], name)
    assert not torch.allclose(whole[:4], half, atol=1e-3)
    net = learner.net.train()
    torch.testing.assert_close(whole, torch.softmax(net(x, name), dim=1).detach())  # as in training
    assert load(tmp_path / "run", {"with_norm": with_norm}).predict_proba(x, name).equal(whole)
    with pytest.raises(DataError, match="1 input, but with answer_norms='batch'"):
        learner.predict_proba(x[:1], name)


def test_with_norms_by_the_batch_no_row_is_left_to_be_normalised_by_itself():
    learner = learner_of(McSgd, backbone=with_norm, memory_size=4, answer_norms="batch")
    learner.learn(TASKS[0])
    name = TASKS[0].name
    x = torch.cat([task.test.x for task in TASKS] * 5)[:257]  # of which a net takes 256 at once
    whole, (logits,) = learner.predict_proba(x, name), task_logits(learner, x, [name])
    assert torch.equal(torch.softmax(logits, dim=1), whole)
    halves = [learner.predict_proba(half, name) for half in (x[:129], x[129:])]
    assert torch.equal(torch.cat(halves), whole)


def test_the_first_task_alone_may_have_more_epochs_and_is_not_varied_for_that():
    recipe = replace(TINY, epochs=1)
    learner = learner_of(McSgd, recipe, first_factor=3, line_lr=0.0)
    assert [progress.epochs for progress in learner.iter_learn(TASKS[0])][-1] == 3
    assert [progress.epochs for progress in learner.iter_learn(TASKS[1])][-1] == 1
    longer = show(learner_of(FineTune, replace(TINY, epochs=3, augment="no")), TASKS[:1])
    pictured = replace(TASKS[0], augment=("crop",))
    assert same(state(show(learner_of(McSgd, recipe, first_factor=3), [pictured]).net), state(longer.net))


def test_the_rate_decays_over_tasks_but_not_below_the_least(monkeypatch):
    rates = []
    original = Sgd.step

    def noting(optimizer, *arguments):
        rates.append(optimizer.lr)
        return original(optimizer, *arguments)

    monkeypatch.setattr(Sgd, "step", noting)
    recipe = replace(TINY, schedule="constant")
    show(learner_of(McSgd, recipe, lr_decay=0.5, line_lr=0.0), TASKS)
    assert list(dict.fromkeys(rates)) == [0.05, 0.025, 0.0125]
    rates.clear()
    show(learner_of(McSgd, recipe, lr_decay=1e-3, line_lr=0.0), TASKS[:2])
    assert rates[-1] == 5e-4


def test_both_solutions_count_as_weights():
    learner = show(learner_of(McSgd), TASKS[:2])
    assert learner.num_parameters == 2 * learner.net.num_parameters
    assert show(learner_of(McSgd, continue_from="bar"), TASKS[:2]).num_parameters == learner.net.num_parameters


def test_one_head_for_all_tasks():
    learner = show(learner_of(McSgd, shared_head=True), TASKS[::2])
    assert len(learner.net.heads) == len(learner.hat.heads) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("line_points", 0),
        ("line_batch", 0),
        ("line_start", 1.5),
        ("line_lr", -0.1),
        ("lr_decay", 0.0),
        ("memory_size", -1),
    ],
)
def test_impossible_settings_are_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=f"{name} is {value}"):
        McSgd(**{name: value})


def test_lines_of_single_rows_are_refused_before_the_first_task_for_batch_norm_only():
    with pytest.raises(SettingsError, match="line_batch is 1 but the net has batch-norm"):
        learner_of(McSgd, backbone=with_norm, line_batch=1).learn(TASKS[0])
    show(learner_of(McSgd, line_batch=1, line_samples=4), TASKS[:2])
