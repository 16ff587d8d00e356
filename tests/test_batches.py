"""The batches of an epoch: which rows come in which order, and how each image is varied."""

from itertools import pairwise, permutations
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from toys import Spy, blobs, net_for, row_set
from zoolearn.data.task import Examples, Task
from zoolearn.training import batches
from zoolearn.training.at_once import fit
from zoolearn.training.batches import Batch, balanced_order, to_device
from zoolearn.training.recipe import Recipe

IMAGE = torch.arange(1, 65, dtype=torch.uint8).reshape(1, 8, 8)  # no two pixels alike, none black
ROWS = 40
BATCH = 8


def alike(name: str = "alike", augment: tuple[str, ...] = ("crop",)) -> Task:
    """A task of one image, many times: what is shown of it tells how it was varied."""
    rows = Examples(IMAGE.repeat(ROWS, 1, 1, 1), torch.arange(ROWS) % 2)
    return Task(name, rows, rows, augment=augment)


def shown(tasks: list[Task], epochs: int = 1) -> list[Batch]:
    """All batches of a training."""
    spy = Spy()
    fit(net_for(tasks), tasks, Recipe(epochs=epochs, batch_size=BATCH, augment="yes", device="cpu"), seed=0, loss=spy)
    return spy.batches


def crops(image: Tensor) -> set[bytes]:
    """The image padded by 4 black pixels and cropped back in all 81 places."""
    padded = F.pad(image, (4,) * 4)
    return row_set(torch.stack([padded[:, row : row + 8, left : left + 8] for row in range(9) for left in range(9)]))


def share_of_equals(first: Tensor, second: Tensor) -> float:
    """How many of the images at the same place are the same."""
    return float((first == second).flatten(1).all(1).float().mean())


def test_every_epoch_shows_other_crops():
    met = shown([alike()], epochs=4)
    epochs = [torch.cat([batch.x for batch in met[start : start + 5]]) for start in range(0, 20, 5)]
    assert [len(epoch) for epoch in epochs] == [ROWS] * 4
    for first in range(4):
        for second in range(first):
            assert share_of_equals(epochs[first], epochs[second]) < 0.2  # by chance, one in 81


@pytest.mark.parametrize("chunk_bytes", [1, 2 * BATCH * 64, 1 << 20], ids=["one batch", "two batches", "all"])
def test_every_image_is_cropped_for_itself_however_many_are_gathered_at_once(monkeypatch, chunk_bytes):
    monkeypatch.setattr(batches, "CHUNK_BYTES", chunk_bytes)
    met = shown([alike()])
    assert [len(batch.x) for batch in met] == [BATCH] * 5
    for batch in met:
        assert row_set(batch.x) <= crops(IMAGE)
        assert len(row_set(batch.x)) > BATCH / 2
    for first in range(5):
        for second in range(first):
            assert share_of_equals(met[first].x, met[second].x) < 0.5


KINDS: list[tuple[str, ...]] = [(), ("crop",), ("flip",), ("crop", "flip")]


@pytest.mark.parametrize(
    "kinds", [*permutations(KINDS[:3]), *permutations(KINDS[1:]), (KINDS[1],) * 2, (KINDS[0],) * 2]
)
def test_in_a_mixture_each_task_is_varied_as_it_allows(kinds):
    met = shown([alike(f"task {place}", kind) for place, kind in enumerate(kinds)])
    mirrored = IMAGE.flip(2)
    for place, kind in enumerate(kinds):
        images = torch.cat([batch.x[batch.task_index == place] for batch in met])
        seen = row_set(images)
        assert len(images) == ROWS
        if kind == ():
            assert seen == row_set(IMAGE[None])
        elif kind == ("flip",):
            assert seen == row_set(torch.stack([IMAGE, mirrored]))
        elif kind == ("crop",):
            assert seen <= crops(IMAGE)
            assert len(seen) > ROWS / 2
        else:
            assert seen <= crops(IMAGE) | crops(mirrored)
            assert len(seen & crops(IMAGE)) > ROWS / 5
            assert len(seen & crops(mirrored)) > ROWS / 5


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_a_batch_holds_the_rows_that_its_places_name(monkeypatch, chunk_bytes, count):
    monkeypatch.setattr(batches, "CHUNK_BYTES", chunk_bytes)
    tasks = [blobs(f"task {place}", 2 + place, 5) for place in range(count)]
    x, y = (torch.cat([getattr(task.train, part) for task in tasks]) for part in ("x", "y"))
    owners = torch.cat([torch.full((len(task.train),), place) for place, task in enumerate(tasks)])
    met = shown(tasks)
    assert sorted(torch.cat([batch.row_index for batch in met]).tolist()) == list(range(len(x)))
    for batch in met:
        assert torch.equal(batch.x, x[batch.row_index])
        assert torch.equal(batch.y, y[batch.row_index])
        assert torch.equal(batch.task_index, owners[batch.row_index])
        assert batch.tasks == tuple(task.name for task in tasks)


NEW, FEW, MANY = blobs("new", per_class=12), blobs("few", per_class=5), blobs("many", per_class=15)  # 24, 10, 30 rows


def replayed_rows(tasks: list[Task], seed: int) -> list[int]:
    """The replayed rows of an epoch in their order, numbered through all past tasks; the new ones are looked at here."""
    order = balanced_order(tasks, seed)
    new = order[::2].tolist()
    assert sorted(new) == list(range(24))
    assert new != sorted(new)
    return (order[1::2] - 24).tolist()


def test_replayed_rows_come_in_another_order_every_epoch_and_none_is_left_out():
    counts = torch.zeros(40, dtype=torch.int64)
    epochs = [replayed_rows([NEW, FEW, MANY], seed) for seed in range(60)]
    for rows in epochs:
        assert len(set(rows)) == 24  # more past than new: none twice
        counts += torch.bincount(torch.tensor(rows), minlength=40)
    assert all(first != second for first, second in pairwise(epochs))
    assert 60 * 24 / 40 - 20 < int(counts.min()) <= int(counts.max()) < 60 * 24 / 40 + 20  # 36 each; deviation 3.8


def test_fewer_past_rows_than_new_come_all_before_any_comes_again():
    rows = replayed_rows([NEW, FEW], seed=0)
    rounds = [rows[:10], rows[10:20]]
    assert all(sorted(met) == list(range(10)) for met in rounds)
    assert len(set(rows[20:])) == 4
    assert rounds[0] != rounds[1]
    assert all(met != sorted(met) for met in rounds)


def test_rows_that_lie_on_a_gpu_stay_and_rows_of_a_cpu_go_there_through_pinned_memory():
    gpu, moves = torch.device("cuda", 0), list[tuple[Any, ...]]()

    def rows(device: torch.device) -> Any:
        """Rows that note how they are moved; they cannot be pinned, as those on a GPU."""
        made = SimpleNamespace(device=device)
        made.to = lambda *place, **how: moves.append((made, *place, how)) or made
        return made

    there, here, pinned = (rows(device) for device in (gpu, torch.device("cpu"), torch.device("cpu")))
    here.pin_memory = lambda: pinned
    assert to_device(cast(Tensor, there), gpu) is there
    assert to_device(cast(Tensor, here), gpu) is pinned
    assert moves == [(pinned, gpu, {"non_blocking": True})]
