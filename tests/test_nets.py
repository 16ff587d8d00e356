"""Networks: the sizes of the papers, any input, and one head per task."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from toys import net_for, pictures, same, state, with_norm
from zoolearn.errors import SettingsError, UnknownTask
from zoolearn.files import load_state
from zoolearn.nets.backbones import BACKBONES, small_conv
from zoolearn.nets.net import Net, flip_is_safe
from zoolearn.nets.perceptrons import mlp, mlp_100, mlp_2000
from zoolearn.nets.published import resnet18_s, wrn_16_4
from zoolearn.training.batches import Batch
from zoolearn.training.fit import cross_entropy


def numbers(module):
    return sum(parameter.numel() for parameter in module.parameters())


def pixels(count, *shape, seed=0):
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def one_head(backbone, shape, classes):
    net = Net(backbone, shape)
    net.add_head("task", classes)
    return net


@pytest.mark.parametrize(
    ("backbone", "shape", "classes", "weights"),
    [
        (small_conv, (3, 32, 32), 5, 119_445),
        (mlp_100, (1, 28, 28), 10, 89_610),
        (mlp, (1, 28, 28), 10, 269_322),
        (mlp_2000, (1, 28, 28), 10, 5_592_010),
        (wrn_16_4, (3, 32, 32), 5, 2_747_605),
        (resnet18_s, (3, 32, 32), 100, 1_109_240),
    ],
)
def test_a_net_has_as_many_weights_as_published(backbone, shape, classes, weights):
    net = one_head(backbone, shape, classes)
    assert net.num_parameters == weights == numbers(net)


def test_the_body_of_resnet18_s_has_as_many_weights_as_published():
    assert numbers(resnet18_s((3, 32, 32), 0.0)) == 1_093_140


def test_wrn_16_4_is_counted_by_hand():
    def block(inputs, outputs):
        norms = 2 * inputs + 2 * outputs
        return norms + 9 * outputs * (inputs + outputs) + (inputs * outputs if inputs != outputs else 0)

    blocks = block(16, 64) + block(64, 64) + block(64, 128) + block(128, 128) + block(128, 256) + block(256, 256)
    assert numbers(wrn_16_4((3, 32, 32), 0.0)) == 9 * 3 * 16 + blocks + 2 * 256


@pytest.mark.parametrize(("shape", "features"), [((3, 32, 32), 320), ((1, 28, 28), 80), ((3, 84, 84), 320)])
def test_small_conv_gives_the_papers_number_of_features(shape, features):
    assert Net(small_conv, shape).features == features


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 84, 84)])
def test_pooling_before_relu_equals_relu_before_pooling(shape):
    net = Net(small_conv, shape, seed=3).train()
    x = pixels(4, *shape)
    scaled = ((x.float() / 255) - 0.5) / 0.25
    convolutions = [module for module in net.backbone if isinstance(module, nn.Conv2d)]
    pool = 3 if shape[1] == 84 else 2
    for block, convolution in enumerate(convolutions):
        assert (convolution.bias is None) == (block == 0)
        bias = None if convolution.bias is None else convolution.bias
        scaled = F.conv2d(scaled, convolution.weight.contiguous(), bias)
        if block:
            scaled = F.batch_norm(scaled, None, None, training=True)
        scaled = F.max_pool2d(F.relu(scaled), pool)
    assert len(convolutions) == 3
    assert torch.allclose(net.embed(x), scaled.flatten(1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("side", [(8, 8), (9, 21), (22, 22), (31, 63), (64, 64), (100, 70)])
def test_small_conv_takes_any_image(channels, side):
    net = one_head(small_conv, (channels, *side), 3)
    logits = net(pixels(2, channels, *side), "task")
    assert logits.shape == (2, 3)
    assert bool(torch.isfinite(logits).all())


@pytest.mark.parametrize("backbone", [wrn_16_4, resnet18_s, mlp])
@pytest.mark.parametrize("shape", [(1, 8, 8), (4, 13, 30), (2, 40, 40), (3, 100, 100)])
def test_the_other_backbones_take_any_image(backbone, shape):
    net = one_head(backbone, shape, 3).train()
    logits = net(pixels(2, *shape), "task")
    assert logits.shape == (2, 3)
    assert bool(torch.isfinite(logits).all())


@pytest.mark.parametrize("name", ["small-conv", "wrn-16-4", "resnet18-s"])
def test_features_for_an_image_backbone_are_refused(name):
    with pytest.raises(SettingsError, match=rf"{name} takes images.*\(6,\); use mlp"):
        Net(BACKBONES[name], (6,))


def test_pixels_are_scaled_inside_the_net():
    net = Net(lambda shape, dropout: nn.Flatten(), (1, 1, 3), pixel_mean=0.5, pixel_std=0.25)
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(1, 1, 1, 3)
    assert torch.allclose(net.embed(x), torch.tensor([[-2.0, -1.2, 2.0]]), atol=1e-6)


def test_pixels_are_scaled_channel_by_channel_where_each_has_its_numbers():
    net = Net(lambda shape, dropout: nn.Flatten(), (3, 1, 1), pixel_mean=(0.0, 0.5, 1.0), pixel_std=[1.0, 0.5, 0.25])
    again = Net.from_spec(json.loads(json.dumps({**net.spec(), "backbone": "flat"})), {"flat": net.backbone_fn})
    x = torch.tensor([255, 255, 0], dtype=torch.uint8).reshape(1, 3, 1, 1)
    for either in (net, again):
        assert torch.allclose(either.embed(x), torch.tensor([[1.0, 1.0, -4.0]]), atol=1e-6)
    alike = Net(net.backbone_fn, (3, 1, 1), pixel_mean=(0.4,) * 3, pixel_std=(0.3,) * 3)
    assert torch.equal(alike.embed(x), Net(net.backbone_fn, (3, 1, 1), pixel_mean=0.4, pixel_std=0.3).embed(x))


@pytest.mark.parametrize(("shape", "wanted"), [((1, 4, 4), "or 1, one a channel"), ((6,), "give one number$")])
def test_numbers_of_other_channels_than_the_inputs_have_are_refused(shape, wanted):
    with pytest.raises(SettingsError, match=rf"pixel_std is \[0.1, 0.2\], but inputs have shape .*{wanted}"):
        Net(mlp, shape, pixel_std=(0.1, 0.2))


def test_any_module_that_gives_feature_vectors_is_a_backbone():
    net = one_head(with_norm, (1, 4, 4), 2)
    assert net.features == 8
    assert net(pixels(5, 1, 4, 4), "task").shape == (5, 2)


def test_a_backbone_without_weights_makes_a_linear_classifier():
    net = one_head(lambda shape, dropout: nn.Flatten(), (6,), 2)
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(net(x, "task"), F.linear(x, net.head("task").weight))


@pytest.mark.parametrize("module", [nn.Identity(), nn.LSTM(4, 2)])
def test_a_module_that_gives_anything_else_is_no_backbone(module):
    def odd(shape, dropout):
        return nn.Sequential(nn.Flatten(0, 2), module)

    with pytest.raises(SettingsError, match="backbone 'odd' gave"):
        Net(odd, (1, 4, 4))


def test_a_head_starts_with_biases_of_zero():
    net = net_for([pictures("dots", 3)])
    assert net.head("dots").bias.tolist() == [0, 0, 0]
    assert float(net.head("dots").weight.detach().abs().min()) > 0


def test_the_heads_of_two_tasks_start_from_different_weights():
    net = net_for([pictures("dots", 3), pictures("rings", 3)])
    dots, rings = (net.head(name).weight.detach() for name in ("dots", "rings"))
    assert not torch.isclose(dots, rings, rtol=1e-3).any()


def test_the_seed_decides_the_first_weights_and_the_caller_keeps_its_own_randomness():
    before = torch.get_rng_state()
    nets = [net_for([pictures("dots")], seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert same(state(nets[0]), state(nets[1]))
    assert not torch.equal(nets[0].head("dots").weight, nets[2].head("dots").weight)
    assert not torch.equal(nets[0].backbone[1].weight, nets[2].backbone[1].weight)


def test_adding_a_head_leaves_the_others_and_the_body_as_they_are():
    net = net_for([pictures("dots")])
    before = state(net)
    net.add_head("rings", 4)
    assert same({name: tensor for name, tensor in state(net).items() if name in before}, before)
    assert net.tasks == ("dots", "rings")


def test_an_unknown_task_is_named_with_the_one_that_was_meant():
    with pytest.raises(UnknownTask, match="unknown task 'dot'; did you mean 'dots'"):
        net_for([pictures("dots")])(pixels(1, 1, 8, 8), "dot")


TASKS = (pictures("stripes", 2), pictures("dots", 3), pictures("rings", 4))
NAMES = tuple(task.name for task in TASKS)


def mixed_batch(rows, names=NAMES):
    rows = torch.tensor(rows)
    x = torch.stack([TASKS[row].train.x[place] for place, row in enumerate(rows)])
    y = torch.stack([TASKS[row].train.y[place] for place, row in enumerate(rows)])
    return Batch(x, y, rows, names)


def test_the_loss_of_a_mixed_batch_is_the_mean_of_its_tasks_losses_by_size():
    net = net_for(TASKS, mlp_100)
    batch = mixed_batch([0, 1, 2, 1, 0, 1, 1])
    expected = 0.0
    for place, name in enumerate(NAMES):
        own = batch.task_index == place
        loss = cross_entropy(net, Batch(batch.x[own], batch.y[own], batch.task_index[own] * 0, (name,)))
        expected += loss.item() * int(own.sum()) / len(own)
    assert cross_entropy(net, batch).item() == pytest.approx(expected, abs=1e-6)


def test_a_mixed_batch_passes_the_backbone_once(monkeypatch):
    net = net_for(TASKS, mlp_100)
    seen = []
    net.backbone.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    cross_entropy(net, mixed_batch([0, 1, 2, 0]))
    assert seen == [4]


def test_the_softmax_of_a_mixed_row_is_the_softmax_of_its_own_head():
    net = net_for(TASKS, mlp_100).eval()
    batch = mixed_batch([2, 0, 1])
    logits, first = net.forward_mixed(batch.x, NAMES, batch.task_index)
    assert first.tolist() == [5, 0, 2]
    for row, (name, start, size) in enumerate([("rings", 5, 4), ("stripes", 0, 2), ("dots", 2, 3)]):
        probabilities = torch.softmax(logits[row], 0)
        own = torch.softmax(net(batch.x[row : row + 1], name)[0], 0)
        assert torch.allclose(probabilities[start : start + size], own, atol=1e-6)
        assert probabilities.sum().item() == pytest.approx(probabilities[start : start + size].sum().item(), abs=1e-7)


def test_a_head_that_is_absent_from_a_batch_has_a_gradient_of_zeros():
    net = net_for(TASKS, mlp_100)
    cross_entropy(net, mixed_batch([0, 2, 2, 0])).backward()
    absent, present = net.head("dots"), net.head("rings")
    for parameter in absent.parameters():
        assert parameter.grad is not None
        assert not bool(parameter.grad.any())
    assert bool(present.weight.grad.any())


def test_only_the_heads_of_named_tasks_are_trainable():
    net = net_for(TASKS, mlp_100)
    trainable = {id(parameter) for parameter in net.trainable(["dots"])}
    assert trainable == {
        id(parameter) for module in (net.backbone, net.head("dots")) for parameter in module.parameters()
    }
    assert net.freeze().trainable(NAMES) == []
    assert not net.training


def test_tasks_can_share_one_head():
    net = net_for([pictures("dots", 3)])
    before = net.num_parameters
    net.share_head("rings", "dots")
    assert net.tasks == ("dots", "rings")
    assert net.num_parameters == before
    x = pixels(3, 1, 8, 8)
    assert torch.equal(net.eval()(x, "rings"), net(x, "dots"))
    assert len(net.trainable(["dots", "rings"])) == len(net.trainable(["dots"]))


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_a_net_is_rebuilt_from_its_spec_and_its_tensors(name):
    net = Net(BACKBONES[name], (3, 12, 10), dropout=0.1, pixel_mean=0.4, pixel_std=0.3, seed=5)
    net.add_head("dots", 3)
    net.add_head("rings", 2)
    net.share_head("waves", "rings")
    x = pixels(4, 3, 12, 10)
    net.train()(x, "dots")
    again = Net.from_spec(net.spec())
    load_state(again, {key: tensor.contiguous() for key, tensor in net.state_dict().items()}, "the test")
    assert again.spec() == net.spec()
    for task in ("dots", "rings", "waves"):
        assert torch.equal(again.eval()(x, task), net.eval()(x, task))


def test_a_spec_of_an_unknown_backbone_asks_for_it():
    spec = net_for([pictures("dots")]).spec()
    assert spec["backbone"] == "with_norm"
    with pytest.raises(SettingsError, match=r"unknown backbone 'with_norm'.*pass your own"):
        Net.from_spec(spec)
    assert Net.from_spec(spec, {"with_norm": with_norm}).spec() == spec


def test_a_head_answers_in_single_precision_whatever_its_backbone_computes_in():
    net = Net(mlp, (6,)).eval()
    net.add_head("task", 2, torch.zeros(1, 6))
    with torch.no_grad():
        net.head("task").weight.copy_(100 + torch.randn(2, net.features))
    x = torch.randn(20, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        features, logits = net.embed(x).float(), net(x, "task")
    with torch.no_grad():
        assert torch.equal(logits, net.head("task")(features))


def test_colour_pictures_may_be_mirrored_and_grey_ones_or_features_not():
    assert [flip_is_safe(shape) for shape in ((3, 32, 32), (1, 28, 28), (784,))] == [True, False, False]
