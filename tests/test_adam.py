"""Adam as the optimizer of the training loop: torch's steps, and exact resumption."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest
import torch
from torch import nn

from by_hand import smooth, vague
from toys import TINY, Spy, benchmark, learner_of, net_for, pictures, same, state
from zoolearn.errors import SettingsError
from zoolearn.methods.parts.flat import clip_gradients
from zoolearn.methods.registry import METHODS
from zoolearn.nets.backbones import small_conv
from zoolearn.runs.run import run
from zoolearn.training.adam import Adam
from zoolearn.training.at_once import fit
from zoolearn.training.checkpoints import Checkpoints
from zoolearn.training.fit import OPTIMIZERS, cross_entropy, iter_fit
from zoolearn.training.recipe import Recipe

RECIPE = Recipe(epochs=4, batch_size=8, lr=0.003, schedule="constant", momentum=0.8, device="cpu", weight_decay=0.1)


def test_its_steps_are_those_of_torch_with_weight_decay_too():
    ours, theirs = (nn.Linear(5, 3) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    adam = Adam([*ours.parameters()], Recipe(lr=0.01, momentum=0.8, weight_decay=0.1))
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, betas=(0.8, 0.999), weight_decay=0.1)
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        x = torch.randn(4, 5, generator=rng)
        for layer, optimizer in ((ours, adam), (theirs, reference)):
            layer.zero_grad()
            layer(x).square().sum().backward()
            optimizer.step()
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-6)
    assert torch.allclose(ours.bias, theirs.bias, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "meta"])  # what is no CPU is taken in one piece
def test_empty_parameters_are_passed_over_on_any_device(device, monkeypatch):
    parameters = [nn.Parameter(torch.zeros(count, device=device)) for count in (0, 3, 0, 2)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 5.0)
    adam = Adam(parameters, Recipe(lr=1.0, weight_decay=0.0))
    monkeypatch.setattr(adam, "move", lambda *_, **__: None)
    adam.step()
    assert [parameter.grad.shape for parameter in parameters] == [(0,), (3,), (0,), (2,)]
    assert adam.first.shape == (5,)
    if device == "cpu":  # elsewhere there are no values to look at
        assert torch.allclose(torch.cat([parameter.grad for parameter in parameters]), torch.ones(5))


def test_a_parameter_without_gradient_stays_until_it_has_one():
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    used.sum().backward()
    Adam([used, unused], Recipe(lr=0.5, weight_decay=0.0)).step()
    assert unused.tolist() == [1.0, 1.0]
    assert torch.allclose(used, torch.full((2,), 0.5))


def test_a_training_by_adam_is_torchs_with_the_recipes_momentum_and_weight_decay():
    task, spy = vague("one", classes=3), Spy()
    ours, theirs = (net_for([task], smooth) for _ in range(2))
    fit(ours, [task], RECIPE, seed=0, loss=spy, optimizer=Adam)
    reference = torch.optim.Adam(theirs.parameters(), lr=RECIPE.lr, betas=(0.8, 0.999), weight_decay=0.1)
    for batch in spy.batches:
        reference.zero_grad()
        cross_entropy(theirs, batch).backward()
        reference.step()
    for name, tensor in state(theirs).items():
        torch.testing.assert_close(state(ours)[name], tensor, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["adam", "own"])
def test_a_training_cut_short_is_taken_up_exactly(tmp_path, kind):
    task, recipe = pictures(), OWN if kind == "own" else replace(RECIPE, optimizer=kind)
    whole = net_for([task])
    fit(whole, [task], recipe, seed=0)
    for cut in (1, 3):
        checkpoints = Checkpoints(tmp_path / str(cut), 1)
        work = iter_fit(net_for([task]), [task], recipe, seed=0, checkpoints=checkpoints)
        list(islice(work, cut))
        work.close()
        resumed = net_for([task])
        fit(resumed, [task], recipe, seed=0, checkpoints=checkpoints)
        assert same(state(resumed), state(whole))


def test_long_gradients_are_shortened_and_short_ones_left():
    first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    first.grad, second.grad = torch.tensor([3.0]), torch.tensor([4.0])
    assert clip_gradients([first, second], 0) is None
    clip_gradients([first, second], 5.5)(None, None)
    assert (float(first.grad), float(second.grad)) == (3.0, 4.0)
    clip_gradients([first, second], 0.5)(None, None)
    assert float(first.grad) == pytest.approx(0.3, rel=1e-4)
    assert float(second.grad) == pytest.approx(0.4, rel=1e-4)


def test_the_recipe_names_adamw_whose_steps_are_torchs():
    ours = nn.Linear(5, 3)
    theirs = deepcopy(ours)
    adamw = OPTIMIZERS["adamw"]([*ours.parameters()], Recipe(lr=0.01, momentum=0.8, weight_decay=0.1))
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, betas=(0.8, 0.999), weight_decay=0.1)
    for _ in range(5):
        x = torch.randn(7, 5)
        for layer, optimizer in ((ours, adamw), (theirs, reference)):
            layer.zero_grad()
            layer(x).square().sum().backward()
            optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


@pytest.mark.parametrize("name", ["model-zoo", "isolated", "fine-tune", "er", "multi-head"])
def test_methods_that_leave_gradients_alone_are_trained_by_any(name):
    losses = {}
    for kind in OPTIMIZERS:
        own = {"optimizer_by": rms} if kind == "own" else {}
        recipe = replace(TINY, optimizer=kind, lr=0.003, weight_decay=0.1, **own)
        losses[kind] = run(learner_of(METHODS[name], recipe), benchmark(2)).episodes[-1].loss
    assert len({*losses.values()}) == 4


@pytest.mark.parametrize(
    ("name", "kind"), [("gem", "adam"), ("hat", "adamw"), ("stable-sgd", "adam"), ("vcl", "adamw"), ("gem", "own")]
)
def test_methods_that_need_steps_of_their_own_say_so(name, kind):
    own = {"optimizer_by": rms} if kind == "own" else {}
    with pytest.raises(SettingsError, match=f"optimizer is {kind}, but .* is trained by sgd"):
        learner_of(METHODS[name], replace(TINY, optimizer=kind, **own))


def rms(parameters, recipe):
    slow, *others = parameters
    return torch.optim.RMSprop(
        [{"params": [slow], "lr": recipe.lr / 4}, {"params": others}], lr=recipe.lr, momentum=0.5
    )


OWN = replace(RECIPE, optimizer="own", optimizer_by=rms, schedule="cosine")


def test_an_optimizer_of_ones_own_takes_torchs_steps_at_the_rates_of_the_schedule():
    task, spy = vague("one", classes=3), Spy()
    ours, theirs = (net_for([task], smooth) for _ in range(2))
    fit(ours, [task], OWN, seed=0, loss=spy)
    reference = rms([*theirs.parameters()], OWN)
    for step, batch in enumerate(spy.batches):
        rate = OWN.lr_at(step, len(spy.batches))
        for group, share in zip(reference.param_groups, (0.25, 1.0), strict=True):
            group["lr"] = share * rate
        reference.zero_grad()
        cross_entropy(theirs, batch).backward()
        reference.step()
    for name, tensor in state(theirs).items():
        torch.testing.assert_close(state(ours)[name], tensor, atol=1e-5, rtol=1e-4)


def test_what_makes_no_optimizer_or_stands_alone_is_refused():
    with pytest.raises(SettingsError, match="'own' and optimizer_by, what makes it, go together"):
        Recipe(optimizer_by=rms)
    with pytest.raises(SettingsError, match="'own' and optimizer_by, what makes it, go together"):
        Recipe(optimizer="own")
    with pytest.raises(SettingsError, match=r"optimizer_by <lambda> gave a .*; it must give a torch.optim.Optimizer"):
        fit(
            net_for([pictures()]),
            [pictures()],
            replace(OWN, optimizer_by=lambda parameters, recipe: parameters),
            seed=0,
        )


def fused(parameters, recipe):
    return torch.optim.Adam(parameters, lr=recipe.lr, fused=True)


class Slowing(torch.optim.Optimizer):
    """Keeps what changes in its groups, as Prodigy and schedule-free optimizers do."""

    def __init__(self, parameters, recipe):
        own = {"count": 0, "size": 1.0, "begun": False, "largest": torch.zeros(())}
        super().__init__([{"params": [one]} for one in parameters], {"lr": recipe.lr, "betas": (0.9, 0.5), **own})

    def step(self):
        for group in self.param_groups:
            (parameter,) = group["params"]
            group["count"] += 1
            group["size"] *= 0.9
            group["begun"] = True
            group["largest"].clamp_(min=float(parameter.grad.abs().max()))
            group["latest"] = parameter.grad.sign()
            parameter.sub_(group["latest"] * group["lr"] * group["size"] / group["count"] / (1 + group["largest"]))


@pytest.mark.parametrize("made", [fused, Slowing])
def test_what_an_optimizer_of_ones_own_counts_is_taken_up_exactly(tmp_path, made):
    task, recipe = pictures(), replace(OWN, optimizer_by=made)
    whole = net_for([task], small_conv)
    fit(whole, [task], recipe, seed=0)
    checkpoints = Checkpoints(tmp_path, 1)
    work = iter_fit(net_for([task], small_conv), [task], recipe, seed=0, checkpoints=checkpoints)
    list(islice(work, 2))
    work.close()
    resumed = net_for([task], small_conv)
    fit(resumed, [task], recipe, seed=0, checkpoints=checkpoints)
    assert same(state(resumed), state(whole))


@pytest.mark.parametrize("capturable", [False, True])
def test_steps_are_counted_on_the_device_where_a_kernel_reads_them_and_else_on_the_cpu(capturable):
    parameters = [nn.Parameter(torch.zeros(shape, device="meta")) for shape in ((), (2, 3))]
    by = partial(made_capturable, capturable=capturable)
    own = OPTIMIZERS["own"](parameters, replace(OWN, optimizer_by=by))
    own.load({f"{place}.step": torch.tensor(3.0) for place in (0, 1)} | {"0.exp_avg": torch.tensor(1.0)})
    counted = [own.made.state[parameter]["step"].device.type for parameter in parameters]
    assert counted == ["meta" if capturable else "cpu"] * 2
    assert own.made.state[parameters[0]]["exp_avg"].device.type == "meta"


def made_capturable(parameters, recipe, capturable):
    return torch.optim.Adam(parameters, lr=recipe.lr, capturable=capturable)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made: made.param_groups[0].update(betas=(0.1, 0.2)), "in its groups a betas that changes, a tuple"),
        (lambda made: made.state["all"].update(count=torch.ones(())), "a state that belongs to no parameter"),
    ],
)
def test_what_is_kept_elsewhere_and_cannot_be_saved_is_refused(change, said):
    own = OPTIMIZERS["own"]([nn.Parameter(torch.zeros(2))], replace(OWN, optimizer_by=fused))
    assert own.tensors() == {}
    change(own.made)
    with pytest.raises(SettingsError, match=f"Adam keeps {said}, which a checkpoint cannot hold"):
        own.tensors()


def test_a_state_that_no_checkpoint_could_hold_is_refused(tmp_path):
    recipe = replace(OWN, optimizer_by=lambda parameters, _: Counting(parameters, {"lr": OWN.lr}))
    with pytest.raises(SettingsError, match="Counting keeps count as a int, which a checkpoint cannot hold"):
        fit(net_for([pictures()]), [pictures()], recipe, seed=0, checkpoints=Checkpoints(tmp_path, 1))


class Counting(torch.optim.Optimizer):
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["count"] = 1
