"""HAT: gates, what they protect, and the promises of the binary form."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import TINY, benchmark, pictures, same, show
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.task_net import LAYERS, TaskNorm, parts
from zoolearn.methods.hat import Gate, Hat, compensation, freedom, new_use, scale_at, with_gates
from zoolearn.nets.backbones import small_conv
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.nets.published import lenet_apd, resnet18_s
from zoolearn.training.recipe import Recipe

HARSH = replace(TINY, epochs=4, momentum=0.9, weight_decay=0.05)  # what must not move protected weights
NETS = pytest.mark.parametrize("backbone", [mlp_100, small_conv, lenet_apd], ids=["mlp", "conv", "lenet"])


def layers(learner):
    return [module for module in learner.net.backbone if isinstance(module, LAYERS)]


def logits(learner, task):
    with torch.no_grad():
        return learner.net.eval()(task.test.x, task.name)


@NETS
def test_weights_between_units_in_use_stay_bit_for_bit(backbone):
    first, second, third = benchmark(3)
    learner = show(Hat(backbone=backbone, recipe=HARSH, binary=True), [first, second])
    factors = freedom(learner.net.backbone)
    before = [weight.detach().clone() for weight, _ in factors]
    held = [factor.expand_as(weight) == 0 for weight, factor in factors]
    assert all(0 < place.float().mean() < 1 for place in held)
    learner.learn(third)
    for old, (weight, _), place in zip(before, freedom(learner.net.backbone), held, strict=True):
        assert torch.equal(old[place], weight[place])
        assert not torch.equal(old[~place], weight[~place])


@NETS
def test_binary_gates_keep_old_answers_bit_for_bit(backbone):
    tasks = benchmark(3)
    learner = Hat(backbone=backbone, recipe=HARSH, binary=True)
    answers = {}
    for task in tasks:
        learner.learn(task)
        answers[task.name] = logits(learner, task)
        assert all(torch.equal(logits(learner, old), answers[old.name]) for old in tasks if old.name in answers)


def test_published_gates_hold_old_answers_nearly():
    tasks = benchmark(3)
    recipe = replace(HARSH, epochs=10)
    learner = Hat(backbone=mlp_100, recipe=recipe, s_max=800)
    drift = []
    for task in tasks:
        learner.learn(task)
        if task is tasks[0]:
            before = learner.predict_proba(task.test.x, task.name)
        drift.append(float((learner.predict_proba(tasks[0].test.x, tasks[0].name) - before).abs().max()))
    assert max(drift) < 1e-3


def test_a_large_weight_on_use_closes_the_gates():
    task = pictures()
    recipe = replace(TINY, epochs=15, momentum=0.0, schedule="constant")
    free = show(Hat(backbone=mlp_100, recipe=recipe, sparsity=0.0), [task])
    sparse = show(Hat(backbone=mlp_100, recipe=recipe, sparsity=300.0), [task])
    assert free.used > 0.4
    assert sparse.used < 0.02


def test_embeddings_never_leave_their_bounds(monkeypatch):
    seen = []
    gates = Gate.gates

    def noting(gate):
        seen.append(float(gate.embeddings[-1].detach().abs().max()))
        return gates(gate)

    monkeypatch.setattr(Gate, "gates", noting)
    recipe = replace(TINY, epochs=15, momentum=0.0, schedule="constant")
    learner = show(Hat(backbone=mlp_100, recipe=recipe, sparsity=300.0), [pictures()])
    ends = torch.cat([gate.embeddings[0].detach() for gate in parts(learner.net, Gate)])
    assert max(seen) == 6.0 == float(-ends.min())  # a price that drives most gates down without end
    assert float(ends.max()) <= 6.0


@pytest.mark.parametrize(("scale", "end"), [(1 / 400, 6), (0.3, 6), (7.0, 1.5)])
def test_the_compensation_turns_the_gradient_into_that_of_a_plain_sigmoid(scale, end):
    embedding = torch.linspace(-end, end, 41, dtype=torch.float64, requires_grad=True)
    torch.sigmoid(scale * embedding).sum().backward()
    plain = torch.sigmoid(embedding) * (1 - torch.sigmoid(embedding))
    wanted = 400 * plain
    with torch.no_grad():
        got = embedding.grad * compensation(embedding, scale, 400.0)
    assert torch.allclose(got, wanted, rtol=1e-9)


def test_gates_start_every_epoch_undecided_and_end_it_steep():
    gate = Gate(50, 400.0, binary=False).train()
    gate.begin_task()
    gate.scale = scale_at(0, 9, 400.0)
    assert bool(((gate.gates() - 0.5).abs() < 0.01).all())
    gate.scale = scale_at(8, 9, 400.0)
    assert gate.scale == 400.0
    assert torch.equal(gate.gates(), gate.eval().gates())


def test_a_closed_gate_passes_nothing_but_can_open_again():
    gate = Gate(3, 400.0, binary=False).train()
    gate.begin_task()
    with torch.no_grad():
        gate.embeddings[0].copy_(torch.tensor([-0.1, 0.0, 0.1]))
    gates = gate.gates()
    gates.sum().backward()
    assert gates.tolist() == [0.0, 0.5, 1.0]
    assert gate.embeddings[0].grad[0] > 0
    assert gate.eval().gates()[0] == 0


def test_only_units_that_past_tasks_leave_free_count_as_new_use():
    gates = [Gate(4, 400.0, binary=False), Gate(2, 400.0, binary=False)]
    for gate in gates:
        gate.begin_task()
    everything = torch.cat([gate.gates() for gate in gates])
    assert torch.allclose(new_use(gates), everything.mean())
    gates[0].used.copy_(torch.tensor([1.0, 0.0, 0.5, 1.0]))
    expected = (everything * torch.tensor([0, 1, 0.5, 0, 1, 1])).sum() / 3.5
    assert torch.allclose(new_use(gates), expected)
    for gate in gates:
        gate.used.fill_(1.0)
    assert new_use(gates).item() == 0.0


def test_a_flattened_channel_protects_all_its_positions():
    body = with_gates(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.ReLU()), "own", 400.0, True
    )
    gates = [module for module in body if isinstance(module, Gate)]
    assert [type(module).__name__ for module in body] == ["Conv2d", "ReLU", "Gate", "Flatten", "Linear", "ReLU", "Gate"]
    gates[0].used.copy_(torch.tensor([1.0, 0.0]))
    gates[1].used.copy_(torch.tensor([0.0, 1.0, 0.25]))
    (_, conv), (_, conv_bias), (_, linear), (_, linear_bias) = freedom(body)
    assert conv[:, 0, 0, 0].tolist() == conv_bias.tolist() == [0.0, 1.0]
    assert linear_bias.tolist() == [1.0, 0.0, 0.75]
    assert linear.tolist() == [[1.0] * 8, [0.0] * 4 + [1.0] * 4, [0.75] * 4 + [1.0] * 4]


def test_old_gates_heads_and_norms_do_not_move():
    first, second = benchmark(2)
    learner = show(Hat(backbone=small_conv, recipe=HARSH), [first])
    norms = parts(learner.net, TaskNorm)
    assert len(norms) == 2
    own = {
        name: tensor.clone()
        for name, tensor in learner.net.state_dict().items()
        if "embeddings.0" in name or "norms.0" in name or name.startswith("heads.0")
    }
    learner.learn(second)
    now = learner.net.state_dict()
    assert same(own, {name: now[name] for name in own})
    assert all(len(norm.norms) == 2 for norm in parts(learner.net, TaskNorm))


def test_what_is_kept_is_counted_unit_by_unit():
    first, second = benchmark(2)
    learner = show(Hat(backbone=mlp_100, recipe=TINY), [first, second])
    body = 64 * 100 + 100 + 100 * 100 + 100
    heads = 101 * 2 + 101 * 3
    assert learner.num_parameters == body + heads + 2 * 200 + 200
    assert learner.stored_samples == 0
    assert 0 < learner.used <= 1


def test_nets_without_plain_layers_are_refused_by_name():
    with pytest.raises(SettingsError, match=r"'resnet18-s' has a _BasicBlock; use mlp"):
        Hat(backbone=resnet18_s, recipe=TINY).learn(pictures(shape=(3, 16, 16)))
    with pytest.raises(SettingsError, match="hat keeps a head for every task"):
        Hat(shared_head=True)


@pytest.mark.parametrize("setting", [{"s_max": 0.5}, {"sparsity": -1.0}, {"max_grad_norm": 0.0}])
def test_impossible_settings_are_refused(setting):
    with pytest.raises(SettingsError, match=next(iter(setting))):
        Hat(**setting)


def test_an_episode_without_steps_between_is_possible():
    learner = show(Hat(backbone=mlp_100, recipe=Recipe(epochs=1, batch_size=64, device="cpu")), [pictures()])
    assert learner.episode == 1
