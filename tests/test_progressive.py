"""Progressive Nets: frozen columns, what new ones hear of them, and how large it all is."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import TINY, benchmark, pictures, same, show, state, with_norm
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.task_net import Norm
from zoolearn.methods.progressive import LATERALS, Progressive, Shortcut
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp, mlp_100
from zoolearn.nets.published import lenet_apd, resnet18_s, resnet18_s_one_conv, wrn_16_4
from zoolearn.runs.state import save

HARSH = replace(TINY, momentum=0.9, weight_decay=0.1, dropout=0.3)
BOTH = pytest.mark.parametrize("lateral", LATERALS.values(), ids=LATERALS)
RESIDUAL = (resnet18_s, resnet18_s_one_conv, wrn_16_4)


def logits(learner, task):
    net = next(net for net in learner.columns if task.name in net.head_index)
    with torch.no_grad():
        return net.eval()(task.test.x, task.name)


def forget_laterals(net):
    """Cuts a column off from the older ones."""
    own = net.backbone.trace_through(
        torch.zeros(1, *net.shape), [_silence(column, net.shape) for column in net.backbone.older]
    )
    with torch.no_grad():
        for name, parameter in net.backbone.laterals.named_parameters():
            if "join" in name:
                parameter.zero_()
        for head in net.heads:
            head.weight[:, own.features.shape[1] :] = 0


def _silence(column, shape):
    heard = []
    for older in column.older:
        heard.append(older.trace_through(torch.zeros(1, *shape), heard))
    return column.trace_through(torch.zeros(1, *shape), heard)


@BOTH
@pytest.mark.parametrize("backbone", [mlp_100, small_conv, with_norm])
def test_old_columns_and_their_answers_stay_bit_for_bit(backbone, lateral):
    tasks = benchmark(3)
    learner = Progressive(backbone=backbone, recipe=HARSH, lateral=lateral)
    columns, answers = [], {}
    for task in tasks:
        learner.learn(task)
        columns.append(state(learner.columns[-1]))
        answers[task.name] = logits(learner, task)
    assert all(same(state(net), before) for net, before in zip(learner.columns, columns, strict=True))
    assert all(torch.equal(logits(learner, task), answers[task.name]) for task in tasks)


def test_training_mode_does_not_reach_old_columns():
    first, second = benchmark(2)
    learner = show(Progressive(backbone=small_conv, recipe=HARSH), [first])
    net = learner.new_net([second], seed=0).train()
    old = learner.columns[0].backbone
    assert net.backbone.older == (old,)
    assert not any(module.training for module in old.modules())
    assert not any(parameter.requires_grad for parameter in old.parameters())
    assert not set(map(id, old.parameters())) & set(map(id, net.parameters()))
    assert any(isinstance(module, Norm) and module.training for module in net.modules())


@BOTH
@pytest.mark.parametrize("backbone", [mlp_100, small_conv, lenet_apd, *RESIDUAL])
def test_a_column_that_hears_nothing_is_a_net_of_its_own(backbone, lateral):
    tasks = [pictures(name, per_class=4, shape=(3, 8, 8)) for name in ("stripes", "dots")]
    recipe = replace(TINY, epochs=1)
    learner = show(Progressive(backbone=backbone, recipe=recipe, lateral=lateral), tasks[:1])
    column = learner.new_net([tasks[1]], seed=5).eval()
    alone = Net(backbone, (3, 8, 8), dropout=recipe.dropout, seed=5).eval()
    alone.add_head("dots", 2)
    x = tasks[1].test.x
    with torch.no_grad():
        alone.head("dots").weight.copy_(column.head("dots").weight[:, : alone.features])
        assert not torch.allclose(column(x, "dots"), alone(x, "dots"), atol=1e-4)
        forget_laterals(column)
        assert torch.allclose(column(x, "dots"), alone(x, "dots"), atol=1e-5)


def test_a_linear_lateral_adds_what_the_same_layer_of_the_old_column_takes_in():
    first, second = benchmark(2)
    learner = show(Progressive(backbone=mlp_100, recipe=HARSH), [first])
    net = learner.new_net([second], seed=0).eval()
    old, new = learner.columns[0].backbone.stages, net.backbone.stages
    laterals = [net.backbone.laterals[str(place)].join.weight for place in range(2)]
    x = net.normalize(second.test.x)
    with torch.no_grad():
        hidden = [x.flatten(1), torch.relu(old[1](x.flatten(1)))]
        own = torch.relu(new[1](hidden[0]) + hidden[0] @ laterals[0].T)
        own = torch.relu(new[4](own) + hidden[1] @ laterals[1].T)
        both = torch.cat([own, learner.columns[0].embed(second.test.x)], dim=1)
        assert torch.allclose(net.embed(second.test.x), both, atol=1e-5)


def test_an_adapter_scales_narrows_cuts_and_joins_what_older_columns_take_in():
    tasks = benchmark(3)
    learner = show(Progressive(backbone=mlp_100, recipe=HARSH, lateral=LATERALS["adapter"]), tasks[:2])
    net = learner.new_net([tasks[2]], seed=0).eval()
    (place,) = net.backbone.laterals
    adapter = net.backbone.laterals[place]
    x = tasks[2].test.x
    with torch.no_grad():
        adapter.scales.copy_(torch.tensor([0.3, -2.0]))
        first = [
            torch.relu(body.stages[1](net.normalize(x).flatten(1))) for body in (*net.backbone.older, net.backbone)
        ]
        heard = torch.cat([0.3 * first[0], -2.0 * first[1]], dim=1)
        narrow = heard @ adapter.narrow.weight.T + adapter.narrow.bias
        assert 0.1 < float((narrow < 0).float().mean()) < 0.9
        own = torch.relu(net.backbone.stages[4](first[2]) + narrow.clamp_min(0) @ adapter.join.weight.T)
        assert torch.allclose(net.embed(x)[:, :100], own, atol=1e-5)


def test_what_an_old_column_says_is_what_it_was_trained_with():
    tasks = benchmark(3)
    learner = show(Progressive(backbone=mlp_100, recipe=HARSH), tasks[:2])
    net = learner.new_net([tasks[2]], seed=0).eval()
    with torch.no_grad():
        x = tasks[2].test.x
        features = [column.embed(x)[:, :100] for column in learner.columns]
        assert torch.equal(net.embed(x)[:, 100:], torch.cat(features, dim=1))


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_linear_columns_are_counted_by_hand(tasks):
    names = [pictures(f"task {number}", 3) for number in range(tasks)]
    learner = show(Progressive(backbone=mlp, recipe=replace(TINY, epochs=1)), names)
    column = (64 * 256 + 256) + (256 * 256 + 256) + (256 * 3 + 3)
    pair = 64 * 256 + 256 * 256 + 256 * 3
    assert learner.num_parameters == tasks * column + tasks * (tasks - 1) // 2 * pair
    assert learner.stored_samples == 0


def test_adapters_are_counted_by_hand():
    learner = show(Progressive(backbone=mlp_100, recipe=TINY, lateral=LATERALS["adapter"]), benchmark(3))
    column = (64 * 100 + 100) + (100 * 100 + 100)
    heads = (101 * 2) + (201 * 3) + (301 * 2)
    adapters = sum(older + (older * 100 * 100 + 100) + 100 * 100 for older in (1, 2))
    assert learner.num_parameters == 3 * column + heads + adapters


@pytest.mark.parametrize("backbone", RESIDUAL)
def test_a_residual_block_hears_before_its_last_activation(backbone):
    learner = show(
        Progressive(backbone=backbone, recipe=replace(TINY, epochs=1)), [pictures(per_class=4, shape=(3, 8, 8))]
    )
    net = learner.new_net([pictures("dots", shape=(3, 8, 8))], seed=0)
    blocks = [stage for stage in net.backbone.stages if hasattr(stage, "shortcut")]
    opened = [isinstance(block.shortcut, Shortcut) for block in blocks]
    assert len(net.backbone.laterals) == len(blocks) + 1
    assert all(opened) or backbone is wrn_16_4  # which has no last activation


def test_an_episode_evaluates_and_saves_its_own_column_only():
    tasks = benchmark(2)
    learner = show(Progressive(backbone=mlp_100, recipe=TINY), tasks)
    assert list(learner.evaluate(tasks)) == [tasks[1].name]
    assert list(save(learner).files) == ["columns/0002"]


def test_a_body_that_is_no_sequence_is_refused():
    class Whole(nn.Module):
        def __init__(self, pixels):
            super().__init__()
            self.layer = nn.Linear(pixels, 4)

        def forward(self, x):
            return self.layer(x.flatten(1))

    learner = Progressive(backbone=lambda shape, dropout: Whole(64), recipe=TINY)
    with pytest.raises(SettingsError, match="cannot feed the Whole"):
        learner.learn(pictures())
    assert learner.episode == 0


def test_old_columns_come_to_the_cpu_while_a_new_one_is_built_there(monkeypatch):
    first, second = benchmark(2)
    learner = show(Progressive(backbone=mlp_100, recipe=TINY), [first])
    learner.columns[0].device = torch.device("meta")  # stands in for a GPU
    places = []
    new_net = Progressive.new_net

    def noting(self, tasks, seed):
        places.extend(column.device.type for column in self.columns)
        return new_net(self, tasks, seed)

    monkeypatch.setattr(Progressive, "new_net", noting)
    learner.learn(second)
    assert places == ["cpu"]
