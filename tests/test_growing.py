"""Tasks that grow: who speaks for a class that came later, and how much older members count."""

import pytest
import torch

from zoolearn.errors import DataError
from zoolearn.methods.ensemble import Tally, Vote, vote_weights
from zoolearn.training.predict import average, combine, complete

OLD, ALL = ("cat", "dog"), ("cat", "dog", "fox")


def votes_of(count, classes, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [torch.softmax(torch.randn(7, classes, generator=rng), dim=1) for _ in range(count)]


def test_where_all_know_all_the_answer_is_the_weighted_mean_bit_for_bit():
    said = votes_of(3, 3)
    for weights in ([1.0, 1.0, 1.0], [1.0, 0.1, 0.3], [0.25]):
        assert torch.equal(
            combine(said[: len(weights)], weights, [ALL] * len(weights), ALL), average(said[: len(weights)], weights)
        )


def test_a_member_decides_among_the_classes_that_it_knows_and_the_others_how_likely_these_are():
    old, new = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.3, 0.6]])
    answer = combine([old, new], [3.0, 1.0], [OLD, ALL], ALL)
    by_hand = (3 * torch.tensor([[0.9 * 0.4, 0.1 * 0.4, 0.6]]) + new) / 4
    assert torch.allclose(answer, by_hand)


def test_a_new_class_keeps_its_mass_whatever_older_members_weigh_where_zeros_would_kill_it():
    (new,), old = votes_of(1, 3), votes_of(9, 2, seed=1)
    said, weights, knows = [*old, new], [100.0] * 9 + [1.0], [OLD] * 9 + [ALL]
    completed = combine(said, weights, knows, ALL)
    zeros = average([torch.nn.functional.pad(vote, (0, 3 - vote.shape[1])) for vote in said], weights)
    assert torch.allclose(completed[:, 2], new[:, 2])
    assert torch.allclose(completed.sum(dim=1), torch.ones(7))
    assert (zeros[:, 2] < 0.002).all()


def test_three_generations_are_completed_by_those_that_know_all():
    first, second, third = votes_of(1, 2)[0], votes_of(1, 3, seed=1)[0], votes_of(1, 4, seed=2)[0]
    wanted = (*ALL, "owl")
    answer = combine([first, second, third], [1.0, 1.0, 2.0], [OLD, ALL, wanted], wanted)
    by_hand = (
        torch.cat([first * third[:, :2].sum(1, keepdim=True), third[:, 2:]], dim=1)
        + torch.cat([second * third[:, :3].sum(1, keepdim=True), third[:, 3:]], dim=1)
        + 2 * third
    ) / 4
    assert torch.allclose(answer, by_hand)


def test_classes_go_by_their_names_and_not_by_their_places():
    (new,), (old,) = votes_of(1, 3), votes_of(1, 2, seed=1)
    straight = combine([old, new], [1.0, 1.0], [OLD, ALL], ALL)
    turned = combine([old.flip(1), new[:, [2, 0, 1]]], [1.0, 1.0], [("dog", "cat"), ("fox", "cat", "dog")], ALL)
    assert torch.allclose(turned, straight)
    assert torch.equal(complete(new, ALL, ("fox", "dog", "cat"), new), new[:, [2, 1, 0]])


def test_without_a_member_that_knows_all_and_with_a_class_that_is_not_wanted_nothing_is_answered():
    (old,), (new,) = votes_of(1, 2), votes_of(1, 3)
    with pytest.raises(DataError, match="no voter knows all of the classes cat, dog, fox"):
        combine([old], [1.0], [OLD], ALL)
    with pytest.raises(DataError, match="a vote speaks of class 'fox', which is not among cat, dog"):
        combine([old, new], [1.0, 1.0], [OLD, ALL], OLD)


def test_votes_count_by_the_rows_that_were_seen_of_those_that_have_arrived():
    votes = [Vote(1.0, OLD, arrived=100), Vote(0.1, OLD, arrived=100), Vote(0.5, ALL, arrived=400)]
    assert vote_weights(votes) == pytest.approx([0.25, 0.025, 0.5])
    assert vote_weights([Vote(0.1, OLD, arrived=7), Vote(1.0, OLD, arrived=7)]) == [0.1, 1.0]
    assert vote_weights([]) == []


def test_a_tally_of_votes_is_what_the_voters_say_together():
    said = [*votes_of(2, 2), *votes_of(2, 3, seed=1), *votes_of(1, 3, seed=2)]
    votes = [Vote(1.0, OLD, arrived=10), Vote(0.5, OLD, arrived=10), *(Vote(w, ALL, arrived=15) for w in (0.8, 1.0))]
    votes.append(Vote(1.0, ALL, arrived=30))  # more rows, and no new class
    tally = Tally("rows", ALL)
    for number, (vote, answers) in enumerate(zip(votes, said, strict=True), 1):
        tally = tally.add(answers, vote, number)
    together = combine(said, vote_weights(votes), [vote.classes for vote in votes], ALL)
    assert torch.allclose(tally.mean, together, atol=1e-6)
    assert tally.weight == pytest.approx(sum(vote_weights(votes)))
    assert (tally.members, len(tally.sums)) == (5, 3)
