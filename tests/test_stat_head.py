"""A head from statistics: what it says of unseen rows is exact, and it has the same bits however its rows came."""

import math
import random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolearn.beyond.stat_head import SHARPNESS, UNIT, features, stat_head
from zoolearn.errors import DataError
from zoolearn.seeds import derive, generator


def clouds(counts, d, seed=0, apart=0.6, draw=0):
    """Rows of unit length in steps, some of each class, around centres that go by the seed."""
    rng, noise = generator(seed), generator(derive(seed, "rows", draw))
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    x = apart * torch.randn(len(counts), d, generator=rng).double()[labels]
    x += torch.randn(len(labels), d, generator=noise) * torch.linspace(0.2, 1.5, d)
    return in_steps(x), labels


def in_steps(x):
    return (x / x.norm(dim=1, keepdim=True) * UNIT).round().clamp(-UNIT, UNIT - 1).to(torch.int16)


def moments(rows, labels, classes):
    """Means and scatter within classes, by the definition."""
    x = features(rows)
    means = torch.stack([x[labels == label].mean(dim=0) for label in range(classes)])
    within = x - means[labels]
    return means, within.T @ within


def refitted_without(rows, labels, classes, head):
    """The log-likelihood of each row whose class has another, by a head that is made again from all other rows."""
    freedom, d = len(rows) - classes, rows.shape[1]
    ball = head.shrinkage * float(moments(rows, labels, classes)[1].trace()) / freedom / d
    found, own = [], []
    for row, label in enumerate(labels.tolist()):
        others = torch.arange(len(rows)) != row
        counts = torch.bincount(labels[others], minlength=classes).double()
        if not counts[label]:
            continue
        means, scatter = moments(rows[others], labels[others], classes)
        metric = torch.linalg.inv((1 - head.shrinkage) * scatter / freedom + ball * torch.eye(d).double())
        away = features(rows[row]) - means
        distances = ((away @ metric) * away).sum(dim=1)
        own.append(distances[label] * counts[label] / (counts[label] + 1))
        found.append((distances, counts, label))
    noise = torch.stack(own).mean()
    chances = [
        torch.log_softmax(-head.sharpness / 2 * (distances - noise / counts), dim=0)[label]
        for distances, counts, label in found
    ]
    return torch.stack(chances)


@pytest.mark.parametrize(("counts", "d"), [((6, 5, 9), 7), ((6, 5, 9), 30), ((8, 2, 1, 3), 6), ((2, 1), 9)])
def test_what_a_row_left_out_is_told_is_what_a_head_without_it_says(counts, d):
    rows, labels = clouds(counts, d)
    head = stat_head(rows, labels, len(counts))
    wanted = refitted_without(rows, labels, len(counts), head)
    assert head.unseen.sort().values.tolist() == pytest.approx(wanted.sort().values.tolist(), abs=1e-10)
    assert head.likelihood == pytest.approx(float(wanted.mean()), abs=1e-10)


def test_a_head_is_the_shrunk_discriminant_of_its_rows():
    rows, labels = clouds((6, 5, 9), 7)
    head = stat_head(rows, labels, 3)
    means, scatter = moments(rows, labels, 3)
    scatter /= len(rows) - 3
    shrunk = (1 - head.shrinkage) * scatter + head.shrinkage * scatter.trace() / 7 * torch.eye(7).double()
    weight = head.sharpness * means @ torch.linalg.inv(shrunk)
    torch.testing.assert_close(head.weight, weight, rtol=1e-9, atol=1e-9)
    noise = (head.bias + (weight * means).sum(dim=1) / 2) * torch.tensor([6, 5, 9])
    torch.testing.assert_close(noise, noise.mean().expand(3), rtol=1e-7, atol=0)
    assert noise.mean() > 0, "chance is taken off the distance of every mean, more off means of fewer rows"


histories = st.lists(
    st.tuples(st.sampled_from(["rows", "class", "forget row", "forget class"]), st.integers(0, 2**16)), max_size=12
)


@settings(max_examples=30)
@given(history=histories, few=st.booleans())
def test_a_head_has_the_same_bits_whatever_came_in_which_order_and_was_forgotten(history, few):
    d, held = 24 if few else 5, {0: [0, 1, 2], 1: [3, 4]}
    rows, _ = clouds((200,), d, seed=1)
    fresh = iter(range(5, 200))
    for what, number in history:
        label = list(held)[number % len(held)]
        if what == "rows":
            held[label] += [next(fresh) for _ in range(1 + number % 4)]
        elif what == "class":
            held[max(held) + 1] = [next(fresh) for _ in range(1 + number % 4)]
        elif what == "forget row" and len(held[label]) > 1:
            held[label].pop(number % len(held[label]))
        elif what == "forget class" and len(held) > 2:
            del held[label]
    grown = [(row, place) for place, own in enumerate(held.values()) for row in own]
    shuffled = random.Random(0).sample(grown, len(grown))
    last = len(held) - 1
    heads = [
        stat_head(rows[[row for row, _ in order]], torch.tensor([name(label) for _, label in order]), len(held))
        for order, name in ((grown, lambda label: label), (shuffled, lambda label: last - label))
    ]
    parts = [
        (
            head.weight,
            head.bias,
            head.unseen,
            head.metric.axes,
            torch.tensor([head.far, head.shrinkage, head.sharpness]),
        )
        for head in heads
    ]
    backwards = (parts[1][0].flip(0), parts[1][1].flip(0), *parts[1][2:])
    assert all(torch.equal(*pair) for pair in zip(parts[0], backwards, strict=True))


def test_a_class_of_few_rows_is_found_beside_classes_of_many():
    rows, labels = clouds((2, 100, 100, 100), 40, apart=0.3)
    new, wanted = clouds((200, 200, 200, 200), 40, apart=0.3, draw=1)
    found = stat_head(rows, labels, 4).logits(new).argmax(dim=1)
    recalls = [float((found[wanted == label] == label).double().mean()) for label in range(4)]
    assert recalls[0] > 0.7
    assert sum(recalls) / 4 > 0.8


def test_it_is_as_sure_as_it_is_right():
    right, said = [], []
    for seed in range(8):
        rows, labels = clouds((40, 40, 40), 12, seed, apart=0.3)
        new, wanted = clouds((200, 200, 200), 12, seed, apart=0.3, draw=1)
        chances = torch.softmax(stat_head(rows, labels, 3).logits(new), dim=1)
        right.append((chances.argmax(dim=1) == wanted).double().mean())
        said.append(chances.max(dim=1).values.mean())
    assert 0.6 < torch.stack(right).mean() < 0.9, "there is something to be sure of, and something to doubt"
    assert float(torch.stack(said).mean()) == pytest.approx(float(torch.stack(right).mean()), abs=0.04)


def test_of_one_row_a_class_the_nearest_is_named():
    rows, labels = clouds((1, 1, 1), 12)
    head = stat_head(rows, labels, 3)
    assert head.logits(rows).argmax(dim=1).tolist() == [0, 1, 2]
    assert head.sharpness == SHARPNESS
    assert math.isnan(head.likelihood)
    assert not head.strange(rows).any()


def test_a_single_row_in_the_midst_of_others_is_not_near_to_everything():
    """The nearest mean would name the middle one for most of what lies between the others and it."""
    corners = torch.eye(4)[:3]
    middle = F.normalize(corners.sum(dim=0) + torch.tensor([0.0, 0.0, 0.0, 0.3]), dim=0)
    rows = (torch.cat([corners, middle[None]]) * (UNIT - 1)).round().to(torch.int16)
    head = stat_head(rows, torch.arange(4), 4)
    lengths = head.weight.norm(dim=1)
    torch.testing.assert_close(lengths, lengths[:1].expand(4))
    near = F.normalize(0.42 * corners[0] + 0.58 * middle, dim=0)
    assert (features(rows) @ near.double()).argmax() == 3, "by the nearest mean"
    assert int(head.logits((near * UNIT).round().to(torch.int16)[None]).argmax()) == 0


def test_copies_of_one_row_are_one_row():
    rows, labels = clouds((1, 1, 1), 12)
    once, often = stat_head(rows, labels, 3), stat_head(rows.repeat(4, 1), labels.repeat(4), 3)
    torch.testing.assert_close(often.logits(rows), once.logits(rows))


def test_what_is_far_from_every_class_is_strange():
    rows, labels = clouds((50, 50), 12, apart=2.0)
    head = stat_head(rows, labels, 2)
    new, _ = clouds((500, 500), 12, apart=2.0, draw=1)
    others, _ = clouds((500,), 12, seed=9, apart=2.0)
    assert head.strange(new).double().mean() < 0.05
    assert head.strange(others).double().mean() > 0.9


@pytest.mark.parametrize(
    ("rows", "labels", "classes", "words"),
    [
        (torch.ones(2, 3), [0, 1], 2, "float32"),
        (torch.ones(2, dtype=torch.int16), [0, 1], 2, "features"),
        (torch.ones(2, 3, dtype=torch.int16), [0, 0], 1, "1 class"),
        (torch.ones(2, 3, dtype=torch.int16), [0, 2], 3, "none of class 1"),
        (torch.ones(1, 1, dtype=torch.int16).expand(2**23 + 1, 1), [0], 2, "8388609 rows"),
    ],
)
def test_rows_that_no_head_can_be_made_of_are_refused(rows, labels, classes, words):
    with pytest.raises(DataError, match=words):
        stat_head(rows, torch.tensor(labels), classes)
