import pytest
import torch

from zoolearn.data.task import Examples, Task
from zoolearn.methods.parts.memory import Memory


def task(name, count=30, classes=3):
    x = torch.arange(count, dtype=torch.float32)[:, None].repeat(1, 2)
    examples = Examples(x, torch.arange(count) % classes)
    return Task(name, examples, examples)


def test_the_bound_holds_per_task_and_per_class():
    memory = Memory().keep(task("a"), 7, "task", 0).keep(task("b"), 4, "class", 0)
    assert torch.bincount(memory.task_index).tolist() == [7, 12]
    assert torch.bincount(memory.y[memory.task_index == 1]).tolist() == [4, 4, 4]


def test_a_short_task_is_kept_whole_and_no_more():
    memory = Memory().keep(task("a", 5), 256, "task", 0)
    assert sorted(memory.x[:, 0].tolist()) == [0, 1, 2, 3, 4]


def test_only_examples_that_were_seen_are_kept_with_their_labels():
    memory = Memory().keep(task("a"), 3, "class", 0)
    assert (memory.x[:, 0].long() % 3).equal(memory.y)


def test_every_example_is_kept_equally_often():
    counts = torch.zeros(30)
    for seed in range(600):
        counts[Memory().keep(task("a"), 6, "task", seed).x[:, 0].long()] += 1
    chi_square = ((counts - 120) ** 2 / 120).sum() / (1 - 6 / 30)  # 29 degrees of freedom, draws without repeats
    assert chi_square < 58  # one in a thousand


@pytest.mark.parametrize("per", ["task", "class"])
def test_the_bound_holds_for_a_task_that_grows_and_other_tasks_stay_as_they_are(per):
    memory = Memory().keep(task("a"), 3, per, 0).keep(task("b"), 4, per, 1)
    grown = memory.keep(task("a", 6), 3, per, 2, arrived=(10, 10, 10)).keep(task("a", 6), 3, per, 3, arrived=(12,) * 3)
    sizes = [len(batch.y) for batch in memory.by_task()]
    assert {batch.tasks[0]: len(batch.y) for batch in grown.by_task()} == dict(zip(("a", "b"), sizes, strict=True))
    before, after = ({batch.tasks[0]: batch for batch in held.by_task()}["b"] for held in (memory, grown))
    assert before.x.equal(after.x)
    assert before.y.equal(after.y)


@pytest.mark.parametrize("per", ["task", "class"])
def test_every_row_of_a_task_that_grew_is_kept_equally_often(per):
    arrivals, counts = torch.arange(30).split([18, 3, 9]), torch.zeros(30)
    for seed in range(600):
        memory, seen = Memory(), ()
        for number, rows in enumerate(arrivals):
            part = Examples(rows[:, None].float(), rows % 3)
            memory = memory.keep(Task("a", part, part), 6 if per == "task" else 2, per, seed * 3 + number, seen)
            seen = torch.bincount(torch.cat(arrivals[: number + 1]) % 3).tolist()
        assert len(memory) == 6
        counts[memory.x[:, 0].long()] += 1
    chi_square = ((counts - 120) ** 2 / 120).sum() / (1 - 6 / 30)  # 29 degrees of freedom, or 27
    assert chi_square < 58  # one in a thousand


def test_a_draw_has_no_repeats_keeps_rows_together_and_depends_on_its_seed_only():
    memory = Memory().keep(task("a"), 10, "task", 0).keep(task("b"), 10, "task", 1)
    first, again, other = memory.draw(8, 5), memory.draw(8, 5), memory.draw(8, 6)
    assert first.x.equal(again.x)
    assert first.task_index.equal(again.task_index)
    assert not first.x.equal(other.x)
    assert len({(float(x[0]), int(row)) for x, row in zip(first.x, first.task_index, strict=True)}) == 8
    assert len(memory.draw(100, 5).y) == 20


def test_tasks_come_apart_again():
    memory = Memory().keep(task("a"), 4, "task", 0).keep(task("b"), 0, "task", 0).keep(task("c"), 2, "task", 0)
    assert [(batch.tasks, len(batch.y)) for batch in memory.by_task()] == [(("a",), 4), (("c",), 2)]
    assert Memory().by_task() == []
