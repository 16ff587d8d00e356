"""GEM: the nearest step to the gradient that opposes no memory."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, nnls

from by_hand import WHOLE, gradient_on, smooth, vague
from toys import TINY, benchmark, embedded, learner_of, row_set, same, show, state, with_norm
from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.methods import a_gem, gem
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.gem import RIDGE, Gem, project, solve_dual
from zoolearn.methods.parts.flat import Flat

TASKS = benchmark(3).tasks


def problems(ridge=RIDGE, related=0.0):
    """Gradients and memories, up to 20 tasks; `related` is how much the memories have in common."""
    rng = np.random.default_rng(0)
    for tasks in (1, 2, 3, 7, 13, 20) * 5:
        common = related * rng.normal(size=60)
        yield rng.normal(size=60) - common, rng.normal(size=(tasks, 60)) + common, ridge


@pytest.mark.parametrize("least", [0.0, 0.5])
@pytest.mark.parametrize("related", [0.0, 3.0])
def test_the_dual_meets_the_conditions_of_a_minimum_and_scipy(least, related):
    for gradient, memories, ridge in problems(related=related):
        gram, products = memories @ memories.T + ridge * np.eye(len(memories)), memories @ gradient
        weights = solve_dual(gram, products, least)
        slopes = gram @ weights + products
        scale = np.abs(products).max()
        assert weights.min() >= least - 1e-12
        assert slopes.min() >= -1e-10 * scale
        assert np.abs(slopes * (weights - least)).max() <= 1e-10 * scale * max(1.0, weights.max())

        def objective(v, gram=gram, products=products):
            return v @ gram @ v / 2 + products @ v, gram @ v + products

        start, bounds = np.full(len(products), least), [(least, None)] * len(products)
        theirs = minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B").fun
        assert objective(weights)[0] <= theirs + 1e-9 * abs(theirs)


def test_equal_memories_do_not_stop_the_solver():
    gram = np.ones((20, 20)) + 1e-9 * np.eye(20)
    weights = solve_dual(gram, np.full(20, -1.0), 0.0)
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("strength", [0.0, 0.5])
@pytest.mark.parametrize("related", [0.0, 1.0])
@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float64, 1e-11), (torch.float32, 1e-3)])
def test_the_step_never_opposes_a_memory(strength, related, dtype, rounding):
    for gradient, memories, _ in problems(related=related):
        rows = torch.from_numpy(memories).to(dtype)
        vector = torch.from_numpy(gradient).to(dtype)
        step = project(vector, rows, strength)
        if (rows @ vector).min() < 0:
            gram = memories @ memories.T + RIDGE * np.eye(len(memories))
            weights = solve_dual(gram, memories @ gradient, strength)
            assert step.dtype == dtype
            assert ((rows @ step).numpy() >= -RIDGE * weights - rounding).all()
        else:
            assert step is vector


@pytest.mark.parametrize(("strength", "added"), [(0.0, (1, 0)), (0.5, (1, 0.5)), (3.0, (3, 3))])
def test_one_opposed_memory_of_two_is_enough_and_the_strength_is_the_least_that_each_adds(strength, added):
    gradient, memories = torch.tensor([-1.0, 2.0, 1.0]).double(), torch.eye(3).double()[:2]
    step = project(gradient, memories, strength, ridge=1e-9)
    expected = gradient + torch.tensor([*added, 0.0])
    torch.testing.assert_close(step, expected, atol=1e-8, rtol=0)


def solved_by_cases(gram, products, least):
    """The least of v' gram v / 2 + products' v over v >= least: the one choice of coordinates at the bound that fits."""
    for choice in product([False, True], repeat=len(products)):
        free = np.array(choice)
        weights = np.where(free, 0.0, least)
        weights[free] = np.linalg.solve(gram[np.ix_(free, free)], -(gram[free] @ weights + products[free]))
        slopes = gram @ weights + products
        if (weights >= least).all() and (slopes[~free] >= 0).all():
            return weights
    raise AssertionError("no choice fits")


@pytest.mark.parametrize("strength", [0.0, 0.5, 2.0])
def test_the_step_adds_what_the_quadratic_programme_says_whether_some_memories_or_all_are_opposed(strength):
    opposed = set()
    for gradient, memories, _ in [*problems(related=0.0), *problems(related=1.0)]:
        products = memories @ gradient
        if len(memories) > 7 or products.min() >= 0:
            continue
        opposed.add("all" if products.max() < 0 else "some")
        weights = solved_by_cases(memories @ memories.T + RIDGE * np.eye(len(memories)), products, strength)
        step = project(torch.from_numpy(gradient), torch.from_numpy(memories), strength)
        np.testing.assert_allclose(step.numpy(), gradient + memories.T @ weights, atol=1e-9)
    assert opposed == {"all", "some"}


def test_without_conflict_the_gradient_is_the_same_object():
    gradient = torch.ones(4)
    assert project(gradient, torch.eye(4, dtype=torch.float64), 0.5) is gradient


def test_one_memory_gives_the_closed_form_of_a_gem():
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        gradient, reference = torch.randn(2, 500, generator=rng)
        ours = project(gradient, reference.double()[None], 0.0)
        torch.testing.assert_close(ours, a_gem.project(gradient, reference), atol=1e-5, rtol=1e-5)


def test_without_ridge_it_is_the_euclidean_projection():
    for gradient, memories, ridge in [*problems(ridge=0.0), *problems(ridge=0.0, related=1.0)]:
        step = project(torch.from_numpy(gradient), torch.from_numpy(memories), 0.0, ridge)
        weights, _ = nnls(memories.T, -gradient)  # the projection of -g onto the cone of the memories is what is added
        expected = gradient + memories.T @ weights if (memories @ gradient).min() < 0 else gradient
        np.testing.assert_allclose(step.numpy(), expected, atol=1e-9)


def test_a_gradient_that_overflowed_is_left_to_the_loss_scaling():
    gradient = torch.tensor([-1.0, torch.inf])
    assert project(gradient, torch.eye(2, dtype=torch.float64), 0.0) is gradient


def test_without_a_memory_it_is_fine_tuning():
    ours, plain = show(learner_of(Gem, memory_size=0), TASKS), show(learner_of(FineTune), TASKS)
    assert same(state(ours.net), state(plain.net))


def test_steps_without_conflict_leave_old_heads_alone_under_momentum_and_weight_decay(monkeypatch):
    monkeypatch.setattr(gem, "project", lambda gradient, *_: gradient)
    recipe = replace(TINY, dropout=0.0, momentum=0.9, weight_decay=0.1)
    ours, plain = show(learner_of(Gem, recipe), TASKS), show(learner_of(FineTune, recipe), TASKS)
    assert same(state(ours.net), state(plain.net))


def test_a_step_in_conflict_moves_the_heads_of_the_past(monkeypatch):
    steps = []

    def noting(gradient, memories, strength):
        step = project(gradient, memories, strength)
        steps.append((step is not gradient, float((memories.double() @ step.double()).min())))
        return step

    monkeypatch.setattr(gem, "project", noting)
    learner = show(learner_of(Gem, memory_size=4), TASKS[:1])
    before = learner.net.head("stripes").weight.clone()
    learner.learn(TASKS[1])
    assert any(conflict for conflict, _ in steps)
    assert min(least for conflict, least in steps if conflict) > -0.01
    assert not learner.net.head("stripes").weight.equal(before)


def turned(task, name, rows):
    """Some rows of a task of two classes, under another name and with each other's labels."""
    some = Examples(task.train.x[rows], 1 - task.train.y[rows])
    return Task(name, some, task.test, task.classes)


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_a_step_is_that_of_the_paper_by_hand_where_it_opposes_one_memory_of_two(strength):
    right = vague("right", per_class=20)
    tasks = [right, turned(right, "wrong", slice(20)), turned(right, "wrong again", slice(20, 40))]
    learner = learner_of(Gem, WHOLE, backbone=smooth, shared_head=True, memory_size=50, memory_strength=strength)
    show(learner, tasks[:2])
    net = learner.grow_net(tasks[2])
    flat = Flat(net.parameters())
    first, second, gradient = (gradient_on(net, task, flat).double() for task in tasks)
    memories = torch.stack([first, second])
    products = (memories @ gradient).numpy()
    assert products[0] < 0 < products[1]
    weights = solved_by_cases((memories @ memories.T).numpy() + RIDGE * np.eye(2), products, strength)
    step = gradient + torch.from_numpy(weights) @ memories
    learner.recipe = replace(WHOLE, epochs=1)
    learner.learn(tasks[2])
    moved = (Flat(learner.net.parameters()).data() - flat.data()).double()
    torch.testing.assert_close(moved, -WHOLE.lr * step, atol=1e-6, rtol=1e-4)


def test_every_step_sees_the_whole_memory_of_each_past_task_in_training_mode(monkeypatch):
    learner = show(learner_of(Gem, backbone=with_norm, memory_size=5), TASKS[:2])
    wholes = [row_set(batch.x) for batch in learner.memory.by_task()]
    assert [len(whole) for whole in wholes] == [5, 5]
    with embedded(monkeypatch) as passes:
        learner.learn(TASKS[2])
    seen = [row_set(x) for _, training, x in passes if training]
    assert seen.count(wholes[0]) == seen.count(wholes[1]) == len(passes) / 3


def test_an_impossible_strength_is_refused():
    with pytest.raises(SettingsError, match="memory_strength is -1"):
        Gem(memory_strength=-1)
