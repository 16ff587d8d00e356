"""Random crops and mirror images: each result is exactly a shifted, perhaps mirrored, copy."""

import pytest
import torch
import torch.nn.functional as F

from zoolearn.data.augment import augment
from zoolearn.seeds import generator

PADDING = 4  # as published
SHIFTS = 2 * PADDING + 1


def all_different(count, channels=2, height=9, width=7):
    """Images in which no two pixels of a channel are equal and none is black; all images are the same."""
    one = torch.randperm(channels * height * width, generator=generator(1)).reshape(channels, height, width) + 1
    return one.to(torch.uint8).expand(count, channels, height, width).contiguous()


def origins(before, after):
    """For each image the (row, column, mirrored) that explains it; an error if there is none or more than one."""
    height, width = before.shape[2:]
    padded = F.pad(before, (PADDING,) * 4)
    mirrored = F.pad(before.flip(3), (PADDING,) * 4)
    found = []
    for source_flip, source in ((False, padded), (True, mirrored)):
        for row in range(SHIFTS):
            for column in range(SHIFTS):
                crop = source[:, :, row : row + height, column : column + width]
                match = (crop == after).flatten(1).all(1)
                found += [(int(image), (row, column, source_flip)) for image in match.nonzero()]
    explained = dict(found)
    assert len(found) == len(explained) == len(before)
    return [explained[image] for image in range(len(before))]


def test_a_crop_is_a_shifted_copy_with_black_where_the_image_ends():
    before = all_different(600)
    where = origins(before, augment(before, ["crop"], generator(0)))
    assert {mirrored for _, _, mirrored in where} == {False}
    assert {(row, column) for row, column, _ in where} == {(r, c) for r in range(SHIFTS) for c in range(SHIFTS)}


def test_a_flip_is_the_mirror_image_for_about_half():
    before = all_different(600)
    after = augment(before, ["flip"], generator(0))
    mirrored = (after == before.flip(3)).flatten(1).all(1)
    untouched = (after == before).flatten(1).all(1)
    assert bool((mirrored ^ untouched).all())
    assert 250 < int(mirrored.sum()) < 350


def test_crop_and_flip_go_together_and_do_not_depend_on_each_other():
    before = all_different(600)
    where = origins(before, augment(before, ["crop", "flip"], generator(0)))
    upper = [mirrored for row, _, mirrored in where if row < PADDING]
    lower = [mirrored for row, _, mirrored in where if row > PADDING]
    assert 0.4 < sum(upper) / len(upper) < 0.6
    assert 0.4 < sum(lower) / len(lower) < 0.6


def test_every_image_is_varied_for_itself():
    where = origins(all_different(40), augment(all_different(40), ["crop", "flip"], generator(0)))
    assert len(set(where)) > 25


def test_what_happens_to_an_image_does_not_depend_on_the_others():
    before = all_different(6)
    other = before.clone()
    other[3:] = 0
    after, other_after = (augment(x, ["crop", "flip"], generator(5)) for x in (before, other))
    assert torch.equal(after[:3], other_after[:3])


@pytest.mark.parametrize("kinds", [["crop"], ["flip"], ["crop", "flip"]])
def test_the_generator_alone_decides(kinds):
    before = all_different(50)
    kept = before.clone()
    outside = torch.get_rng_state()
    first, again, other = (augment(before, kinds, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, kept)
    assert torch.equal(torch.get_rng_state(), outside)


def test_nothing_asked_is_nothing_changed():
    before = all_different(5)
    assert torch.equal(augment(before, [], generator(0)), before)
