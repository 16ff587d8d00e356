"""OGD: steps orthogonal to the basis, a basis that is orthonormal and bounded, and past logits that stay."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from toys import TINY, benchmark, blobs, pictures, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import FineTune, SingleNet
from zoolearn.methods.ogd import DIRECTIONS, Ogd, equal_shares, orthonormal, strip
from zoolearn.methods.parts.flat import Flat
from zoolearn.nets.backbones import Shape
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.seeds import generator


def ogd(**settings: Any) -> Ogd:
    return Ogd(**{"backbone": mlp_100, "recipe": TINY, "samples_per_task": 10, **settings})


def orthonormality(basis: Tensor) -> float:
    return float((basis @ basis.T - torch.eye(len(basis))).abs().max())


def test_without_a_basis_it_is_fine_tuning_bit_for_bit() -> None:
    recipe = replace(TINY, weight_decay=0.1, dropout=0.3)
    plain = show(FineTune(backbone=mlp_100, recipe=recipe), benchmark(3))
    assert same(state(show(ogd(recipe=recipe, samples_per_task=0), benchmark(3)).net), state(plain.net))
    assert same(state(show(ogd(recipe=recipe, basis_size=0), benchmark(3)).net), state(plain.net))


def test_stripping_leaves_no_part_in_the_span_and_twice_is_as_good_as_once() -> None:
    rng = generator(0)
    basis = orthonormal(torch.randn(20, 300, generator=rng), torch.zeros(0, 300))
    gradient = torch.randn(300, generator=rng)
    once = strip(gradient, basis)
    assert float((basis @ once).norm()) <= 1e-5 * float(gradient.norm())
    assert torch.allclose(strip(once, basis), once, atol=1e-5)


@pytest.mark.parametrize("directions", DIRECTIONS.values(), ids=DIRECTIONS.keys())
def test_the_basis_is_orthonormal_after_every_task(directions: Any) -> None:
    learner = ogd(directions=directions)
    for task in benchmark(3):
        learner.learn(task)
        assert orthonormality(learner.basis) < 1e-5
    assert len(learner.basis) == len(learner.owners) > 20


def test_the_basis_spans_all_gradients_and_nothing_that_is_known_twice() -> None:
    rng = generator(0)
    known = orthonormal(torch.randn(3, 50, generator=rng), torch.zeros(0, 50))
    fresh = 100 * torch.randn(2, 50, generator=rng)
    vectors = torch.stack([5 * known[0], fresh[0], torch.zeros(50), fresh[0] - known[2], fresh[1], fresh[0] + fresh[1]])
    new = orthonormal(vectors, known)
    assert len(new) == 2
    whole = torch.cat([known, new])
    assert orthonormality(whole) < 1e-5
    rest = torch.stack([strip(vector, whole) for vector in vectors])
    assert float(rest.norm()) < 1e-5 * float(vectors.norm())


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.0}, {"weight_decay": 0.1}], ids=str)
def test_whatever_is_trained_moves_orthogonally_to_the_basis(settings: dict[str, float]) -> None:
    first, second = benchmark(2)
    learner = ogd(recipe=replace(TINY, **settings))
    learner.learn(first)
    basis, before = learner.basis, Flat(learner.shared_parameters(learner.net)).data()
    learner.learn(second)
    moved = Flat(learner.shared_parameters(learner.net)).data() - before
    assert float(moved.norm()) > 0.01
    assert float((basis @ moved).norm()) < 1e-4 * float(moved.norm())


def smooth(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """A backbone without the kinks that make a ReLU's answers change by jumps of slope."""
    return nn.Sequential(nn.Linear(shape[0], 30), nn.Tanh(), nn.Linear(30, 30), nn.Tanh())


def change_of_past_logits(method: type[SingleNet], lr: float) -> float:
    """How much the logits of the first task's labels change with one step on the second."""
    first, second = blobs("one", per_class=5), blobs("two", per_class=5)
    recipe = replace(TINY, epochs=1, batch_size=10, dropout=0.0, momentum=0.0, weight_decay=0.0)
    learner = method(backbone=smooth, recipe=recipe)

    def logits() -> Tensor:
        return learner.net.eval()(first.train.x, first.name)[torch.arange(10), first.train.y].detach()

    learner.learn(first)
    before = logits()
    learner.recipe = replace(recipe, lr=lr)
    learner.learn(second)
    return float((logits() - before).norm())


def test_past_logits_change_with_the_square_of_the_step() -> None:
    whole, half = change_of_past_logits(Ogd, 0.3), change_of_past_logits(Ogd, 0.15)
    assert 3.8 < whole / half < 4.2
    assert whole < 0.1 * change_of_past_logits(FineTune, 0.3)


def test_the_basis_keeps_to_its_size_with_an_equal_share_for_every_task() -> None:
    learner = ogd(basis_size=25)
    sizes = []
    for task in benchmark(4):
        learner.learn(task)
        sizes.append(torch.bincount(learner.owners).tolist())
    assert sizes == [[10], [10, 10], [8, 8, 8], [6, 6, 6, 6]]
    assert orthonormality(learner.basis) < 1e-5


def test_shares_are_cut_only_when_there_are_too_many() -> None:
    assert equal_shares(torch.tensor([0, 0, 1]), 3).all()


def test_a_basis_smaller_than_the_number_of_tasks_is_full_and_not_empty() -> None:
    learner = show(ogd(basis_size=2), benchmark(3))
    assert learner.basis is not None
    assert learner.owners is not None
    assert (len(learner.basis), learner.owners.tolist()) == (2, [0, 1])


def test_it_says_what_it_will_need_before_it_starts() -> None:
    learner = ogd(memory_limit=0.01)
    with pytest.raises(SettingsError, match=r"ogd will need up to 0\.1 GB for 1000 directions of 16,600 weights"):
        learner.learn(pictures())
    assert learner.episode == 0


def test_heads_of_past_tasks_do_not_move_and_the_new_head_is_free() -> None:
    first, second = benchmark(2)
    learner = ogd(recipe=replace(TINY, weight_decay=0.1))
    learner.learn(first)
    before = learner.net.head(first.name).weight.clone()
    learner.learn(second)
    assert torch.equal(learner.net.head(first.name).weight, before)
    assert learner.basis.shape[1] == sum(parameter.numel() for parameter in learner.net.backbone.parameters())


def test_a_shared_head_is_protected_with_the_rest() -> None:
    learner = show(ogd(shared_head=True), [pictures("one"), pictures("two")])
    assert learner.basis.shape[1] == learner.net.num_parameters


def test_the_basis_counts_as_weights_and_no_sample_is_kept() -> None:
    learner = show(ogd(backbone=with_norm), benchmark(2))
    assert learner.num_parameters == learner.net.num_parameters + learner.basis.numel()
    assert learner.stored_samples == 0


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="samples_per_task is -1; it must be 0 or more"):
        ogd(samples_per_task=-1)
