"""The reservoir: uniform over everything offered, never too large, and a function of place."""

import pytest
import torch

from toys import same
from zoolearn.errors import SettingsError
from zoolearn.methods.parts.reservoir import Reservoir


def filled(offers: list[int], size: int, seed: int) -> Reservoir:
    """A memory after batches of these sizes; every row is its own number."""
    memory = Reservoir(size)
    for batch in offers:
        numbers = torch.arange(memory.seen, memory.seen + batch)
        memory.offer(numbers[:, None].float(), numbers, task=int(numbers[0]) % 3, seed=seed)
    return memory


def test_every_row_offered_is_kept_equally_often() -> None:
    size, offers, repeats = 6, [4, 7, 1, 5, 7], 1500
    rows = sum(offers)
    kept = torch.zeros(rows)
    for seed in range(repeats):
        kept[filled(offers, size, seed).columns["y"]] += 1
    expected = repeats * size / rows
    chi_square = float(((kept - expected).square() / expected).sum()) / (1 - size / rows)
    assert chi_square < 49.7  # of 23 degrees of freedom, exceeded by chance once in 1000


def test_of_two_rows_a_memory_for_one_keeps_each_half_of_the_time() -> None:
    last = sum(int(filled([2], 1, seed).columns["y"][0]) for seed in range(400))
    assert abs(last - 200) < 50  # five deviations


def test_it_never_holds_more_than_its_size_nor_a_row_that_was_not_offered() -> None:
    memory = Reservoir(5)
    for seen in range(0, 40, 4):
        rows = torch.arange(seen, seen + 4)
        memory.offer(rows[:, None].float(), rows, task=0, seed=1)
        held = memory.columns["y"][: memory.filled]
        assert memory.filled == min(5, memory.seen) == len(set(held.tolist()))
        assert int(held.max()) < memory.seen
        assert torch.equal(memory.columns["x"][: memory.filled, 0], held.float())


def test_the_first_rows_fill_it_in_order() -> None:
    assert filled([3, 2], 8, seed=0).columns["y"][:5].tolist() == [0, 1, 2, 3, 4]


def test_a_draw_gives_different_rows_with_their_labels_and_tasks() -> None:
    memory = filled([10, 10, 10], 12, seed=0)
    x, y, task = memory.draw(8, seed=5).values()
    assert len(set(y.tolist())) == 8
    assert torch.equal(x[:, 0], y.float())
    assert torch.equal(task, y // 10 * 10 % 3)


def test_a_draw_of_more_than_there_is_gives_all() -> None:
    assert sorted(filled([3], 12, seed=0).draw(8, seed=5)["y"].tolist()) == [0, 1, 2]


def test_draws_are_uniform_and_differ_from_each_other() -> None:
    memory = filled([10], 10, seed=0)
    counts = torch.zeros(10)
    draws = [memory.draw(3, seed=0)["y"] for _ in range(2000)]
    for drawn in draws:
        counts[drawn] += 1
    assert float(((counts - 600).square() / 600).sum()) / (1 - 0.3) < 27.9  # 9 degrees of freedom, 1 in 1000
    assert len({tuple(drawn.tolist()) for drawn in draws[:20]}) > 10


def test_a_copy_goes_on_exactly_as_the_original() -> None:
    memory = filled([9, 9], 6, seed=3)
    twin = memory.copy()
    for each in (memory, twin):
        each.draw(2, seed=3)
        each.offer(torch.ones(4, 1), torch.arange(4), task=2, seed=3)
    assert same(memory.columns, twin.columns)
    assert (memory.seen, memory.draws) == (twin.seen, twin.draws)
    memory.offer(torch.ones(4, 1), torch.arange(4), task=2, seed=3)
    assert twin.seen == memory.seen - 4


def test_without_room_it_holds_nothing() -> None:
    memory = filled([4], 0, seed=0)
    assert (memory.seen, memory.filled) == (4, 0)
    assert len(memory.draw(3, seed=0)["y"]) == 0


def test_a_column_of_ones_own_goes_with_its_rows_and_grows_as_wide_as_the_widest() -> None:
    memory = Reservoir(4)
    memory.offer(torch.zeros(3, 1), torch.arange(3), task=0, seed=0, logits=torch.ones(3, 2))
    slots = memory.offer(torch.zeros(3, 1), torch.arange(3, 6), task=1, seed=0, logits=2 * torch.ones(3, 3))
    memory.offer(torch.zeros(1, 1), torch.tensor([6]), task=2, seed=8, logits=3 * torch.ones(1, 1))
    assert memory.columns["logits"].shape == (4, 3)
    assert 0 < len(slots) <= 3
    for label, task, logits in zip(*(memory.columns[name].tolist() for name in ("y", "task", "logits")), strict=True):
        assert logits == [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [3.0, 0.0, 0.0]][task]
        assert label // 3 == task


def test_the_slots_that_were_taken_are_told() -> None:
    memory = filled([4], 4, seed=0)
    before = memory.columns["y"].clone()
    slots = memory.offer(torch.zeros(20, 1), torch.arange(4, 24), task=0, seed=1)
    assert sorted(slots.tolist()) == (memory.columns["y"] != before).nonzero()[:, 0].tolist()


def test_columns_that_come_and_go_are_refused() -> None:
    memory = filled([2], 4, seed=0)
    with pytest.raises(SettingsError, match="columns x, y, task, the rows offered x, y, task, logits"):
        memory.offer(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), task=0, seed=0, logits=torch.ones(1, 2))
