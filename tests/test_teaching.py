"""How an owned zoo is taught: each task on its own scale, as long as its rows need, judged by rows that nobody saw."""

import torch

import zoolearn
from toys import blobs
from zoolearn.data.task import Examples, Task
from zoolearn.nets.net import Net


def rescaled(task: Task, factor: float, shift: float) -> Task:
    """The same task in other units."""
    train, test = (Examples(factor * rows.x + shift, rows.y) for rows in (task.train, task.test))
    return Task(task.name, train, test, task.classes)


def test_table_tasks_of_other_scales_leave_each_other_alone(tmp_path) -> None:
    """In whatever units the columns of one task are: its net and that of the task beside it learn the same."""
    first, second = blobs("first", per_class=40), blobs("second")
    found = []
    for factor, shift in ((1.0, 0.0), (1024.0, 4096.0)):
        zoo = zoolearn.new(tmp_path / str(factor), epochs=3)
        for task in (rescaled(first, factor, shift), second):
            zoo.learn(task)
        found.append(zoo.predict_proba(second.test.x, "second"))
        assert zoo.measure("first").accuracy == 1.0
    assert torch.allclose(found[0], found[1], atol=0.02)


def test_the_scale_of_a_tasks_columns_is_saved_with_the_net() -> None:
    task = rescaled(blobs(), 100.0, 7.0)
    net = zoolearn.ModelZoo(backbone=zoolearn.mlp).new_net([task], seed=0).freeze()
    again = Net.from_spec(net.spec())
    again.load_state_dict(net.state_dict())
    said = again.eval()(task.test.x, task.name)
    assert torch.equal(said, net(task.test.x, task.name))
    deviations = net.standardized(task.train.x, task.name).std(dim=0, correction=0)
    assert torch.allclose(deviations, torch.ones(6), atol=1e-4)
