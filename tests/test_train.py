"""Training: every row once, the optimiser of the paper, and nothing that depends on anything but the seed."""

import math
import pickle
import re
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from toys import TINY, Spy, benchmark, blobs, net_for, pictures, row_set, same, state, with_norm
from zoolearn.data.task import Examples, Task
from zoolearn.errors import Diverged, SettingsError, StoreError
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.er import Er
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.run import run
from zoolearn.training import batches
from zoolearn.training import recipe as recipes
from zoolearn.training.at_once import fit
from zoolearn.training.batches import Batch, batch_sizes
from zoolearn.training.checkpoints import Checkpoints
from zoolearn.training.fit import cross_entropy, iter_fit, run_to_end
from zoolearn.training.predict import compute_features, probabilities
from zoolearn.training.recipe import Recipe

TASKS = (pictures("stripes", 2, 12), pictures("dots", 3, 7))  # 24 and 21 rows


@pytest.fixture
def every_batch(monkeypatch):
    """Word after every batch: a chunk holds just one."""
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1)


def recipe(**changes):
    return Recipe(**{"epochs": 2, "batch_size": 8, "lr": 0.05, "device": "cpu", "dropout": 0.0, **changes})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(epochs=1.5), "epochs is 1.5; it must be a whole number"),
        (lambda: Recipe(epochs=True), "epochs is True; it must be a whole number"),
        (lambda: Recipe(batch_size="16"), "batch_size is '16'; it must be a whole number"),
        (lambda: Recipe(nesterov=1), "nesterov is 1; it must be True or False"),
        (lambda: Recipe(pixel_mean=float("nan")), "pixel_mean is nan; it must be a finite number"),
        (lambda: ModelZoo(backbone="mlp"), "backbone is 'mlp'; it must be the function zoolearn.nets.perceptrons.mlp"),
        (lambda: ModelZoo(recipe={"epochs": 1}), "recipe is {'epochs': 1}; it must be a Recipe"),
        (lambda: run("model-zoo", benchmark()), "'model-zoo' is no learner"),
        (lambda: run(ModelZoo(), "split-digits"), "'split-digits' is no Benchmark"),
    ],
)
def test_a_value_of_another_kind_is_named_before_anything_is_done(make, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("lr", 0.0),
        ("lr", math.inf),
        ("lr", math.nan),
        ("warm_up", 1.5),
        ("step_share", 0.0),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("weight_decay", -1e-5),
        ("weight_decay", math.nan),
        ("dropout", 1.0),
        ("pixel_std", 0.0),
    ],
)
def test_an_impossible_setting_is_named_with_its_value(name, value):
    with pytest.raises(SettingsError, match=f"{name} is {value}"):
        Recipe(**{name: value})


@pytest.mark.parametrize(
    ("name", "word"), [("schedule", "linear"), ("augment", "maybe"), ("precision", "float64"), ("device", "tpu")]
)
def test_a_word_that_is_no_choice_is_refused(name, word):
    with pytest.raises(SettingsError, match=f"unknown {name} '{word}'"):
        Recipe(**{name: word})


def test_the_defaults_are_the_papers():
    paper = Recipe()
    assert (paper.epochs, paper.batch_size, paper.lr, paper.momentum) == (200, 16, 0.01, 0.9)
    assert (paper.weight_decay, paper.dropout, paper.schedule, paper.nesterov) == (1e-5, 0.2, "cosine", True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_to_be_missing():
    with pytest.raises(SettingsError, match="no GPU"):
        _ = Recipe(device="cuda").torch_device
    assert Recipe().torch_device.type == "cpu"


def test_a_gpu_is_named_with_its_number_and_by_each_process_for_itself(monkeypatch):
    monkeypatch.setattr(recipes, "_sees_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    ours = Recipe()
    assert ours.torch_device == torch.device("cuda", 1)
    assert Recipe(device="cpu").torch_device == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    theirs = pickle.loads(pickle.dumps(ours))
    assert theirs == ours
    assert (ours.torch_device.index, theirs.torch_device.index) == (1, 0)


def test_the_learning_rate_falls_along_a_cosine_from_the_first_step():
    rates = [Recipe(lr=0.4).lr_at(step, 4) for step in range(4)]
    assert rates == pytest.approx([0.4, 0.2 + 0.2 * math.sqrt(0.5), 0.2, 0.2 - 0.2 * math.sqrt(0.5)])
    assert Recipe(lr=0.4).lr_at(4, 4) == pytest.approx(0)
    assert Recipe(lr=0.4, schedule="constant").lr_at(3, 4) == 0.4


def test_a_rate_in_steps_is_a_tenth_after_each_share_of_the_training():
    rates = [Recipe(lr=1.0, schedule="steps", step_share=0.4).lr_at(step, 10) for step in range(10)]
    assert rates == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01])
    tenths = Recipe(lr=1.0, schedule="steps", step_share=0.1)
    assert [tenths.lr_at(step, 30) for step in range(30)] == pytest.approx([0.1 ** (step // 3) for step in range(30)])
    falling = Recipe(lr=2.0, epochs=3, schedule="exponential", epoch_decay=0.5)
    assert [falling.lr_at(step, 6) for step in range(6)] == pytest.approx([2, 2, 1, 1, 0.5, 0.5])
    halves = Recipe(lr=1.0, schedule="steps", step_share=0.5, warm_up=0.2)
    assert [halves.lr_at(step, 10) for step in range(10)] == pytest.approx([0.5, *[1] * 4, *[0.1] * 5])


def test_the_learning_rate_can_grow_to_its_height_first():
    plain, warm = Recipe(lr=1.0), Recipe(lr=1.0, warm_up=0.25)
    rates = [warm.lr_at(step, 100) / plain.lr_at(step, 100) for step in range(99)]
    assert rates[:25] == pytest.approx([(step + 1) / 25 for step in range(25)])
    assert rates[25:] == pytest.approx([1.0] * 74)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_smoothing_spreads_a_share_of_each_label_over_its_own_tasks_classes(count):
    tasks = [blobs(f"task {place}", classes=2 + place) for place in range(count)]
    net = net_for(tasks)
    net.eval()
    x = torch.cat([task.train.x[:5] for task in tasks])
    y = torch.cat([task.train.y[:5] for task in tasks])
    batch = Batch(x, y, torch.arange(count).repeat_interleave(5), tuple(task.name for task in tasks))
    wanted = [
        F.cross_entropy(net(task.train.x[:5], task.name), task.train.y[:5], label_smoothing=0.3) for task in tasks
    ]
    loss = cross_entropy(net, batch, smoothing=0.3)
    assert loss.item() == pytest.approx(torch.stack(wanted).mean().item(), rel=1e-5)
    loss.backward()
    assert all(bool(part.grad.isfinite().all()) for part in net.parameters() if part.grad is not None)


def test_labels_are_smoothed_as_the_recipe_says():
    task = blobs("task", classes=3)
    smooth = replace(TINY, label_smoothing=0.3)
    ours, by_hand, plain = (net_for([task]) for _ in range(3))
    fit(ours, [task], smooth, seed=1)
    fit(by_hand, [task], TINY, seed=1, loss=partial(cross_entropy, smoothing=0.3))
    fit(plain, [task], TINY, seed=1)
    assert same(state(ours), state(by_hand))
    assert not same(state(ours), state(plain))


def test_a_method_whose_loss_does_not_smooth_labels_refuses_to_be_told_so():
    smooth = replace(TINY, label_smoothing=0.3)
    for method in (ModelZoo, Isolated, FineTune):
        method(recipe=smooth)
    with pytest.raises(SettingsError, match=r"label_smoothing is 0\.3, but the loss of Er does not smooth labels"):
        Er(recipe=smooth)


def trained_by_hand(net, batches, tasks, settings, steps):
    """Nesterov momentum with weight decay and cosine annealing, written out a second time."""
    parameters = net.trainable([task.name for task in tasks])
    velocities = [torch.zeros_like(parameter) for parameter in parameters]
    net.train()
    for step, batch in enumerate(batches):
        rate = settings.lr / 2 * (1 + math.cos(math.pi * step / steps))
        gradients = torch.autograd.grad(cross_entropy(net, batch), parameters)
        with torch.no_grad():
            for parameter, velocity, gradient in zip(parameters, velocities, gradients, strict=True):
                decayed = gradient + settings.weight_decay * parameter
                velocity.mul_(settings.momentum).add_(decayed)
                towards = decayed + settings.momentum * velocity if settings.nesterov else velocity
                parameter.sub_(rate * towards)


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("tasks", [TASKS[:1], TASKS])
def test_training_is_sgd_with_momentum_decay_and_annealing(tasks, nesterov):
    settings = recipe(weight_decay=0.01, nesterov=nesterov)
    net, by_hand = net_for(tasks), net_for(tasks)
    before = state(net)
    spy = Spy()
    fit(net, tasks, settings, seed=0, loss=spy)
    rows = sum(len(task.train) for task in tasks)
    steps = 2 * math.ceil(rows / 8)
    assert len(spy.batches) == steps
    trained_by_hand(by_hand, spy.batches, tasks, settings, steps)
    assert not same(state(net), before)
    for name, tensor in state(net).items():
        assert torch.allclose(tensor.double(), state(by_hand)[name].double(), atol=1e-6), name


def test_the_first_step_of_plain_sgd_is_the_gradient_times_the_learning_rate():
    task = blobs(per_class=4)
    settings = recipe(epochs=1, momentum=0.0, weight_decay=0.0, lr=0.1)
    net = net_for([task])
    before = net.head(task.name).bias.detach().clone()
    gradients = []
    fit(
        net, [task], settings, seed=0, adjust=lambda net, batch: gradients.append(net.head(task.name).bias.grad.clone())
    )
    assert torch.allclose(net.head(task.name).bias.detach(), before - 0.1 * gradients[0], atol=1e-7)


def test_every_row_is_seen_once_an_epoch_in_an_order_of_the_epochs_own():
    spy = Spy()
    fit(net_for(TASKS), TASKS, recipe(), seed=0, loss=spy)
    assert [len(batch.y) for batch in spy.batches] == [8, 8, 8, 8, 8, 5] * 2
    epochs = [spy.batches[:6], spy.batches[6:]]
    for epoch in epochs:
        for place, task in enumerate(TASKS):
            x = torch.cat([batch.x[batch.task_index == place] for batch in epoch])
            y = torch.cat([batch.y[batch.task_index == place] for batch in epoch])
            assert len(x) == len(task.train)
            assert row_set(x) == row_set(task.train.x)
            labels = {row.numpy().tobytes(): int(label) for row, label in zip(task.train.x, task.train.y, strict=True)}
            assert [labels[row.numpy().tobytes()] for row in x] == y.tolist()
    assert not torch.equal(epochs[0][0].x, epochs[1][0].x)


def test_batches_mix_the_tasks():
    spy = Spy()
    fit(net_for(TASKS), TASKS, recipe(), seed=0, loss=spy)
    assert sum(len(batch.task_index.unique()) == 2 for batch in spy.batches) >= 10


@pytest.mark.parametrize("past", [pictures("dots", 2, 3), pictures("dots", 2, 40)])
def test_half_of_a_balanced_batch_is_of_the_first_task(past):
    new = pictures("stripes", 2, 12)
    spy = Spy()
    fit(net_for([new, past]), [new, past], recipe(epochs=1), seed=0, loss=spy, balanced=True)
    assert [int((batch.task_index == 0).sum()) for batch in spy.batches] == [4] * 6
    assert [len(batch.task_index) for batch in spy.batches] == [8] * 6
    fresh = torch.cat([batch.x[batch.task_index == 0] for batch in spy.batches])
    replayed = torch.cat([batch.x[batch.task_index == 1] for batch in spy.batches])
    assert len(fresh) == len(row_set(fresh)) == 24
    assert row_set(fresh) == row_set(new.train.x)
    assert len(replayed) == 24
    assert len(row_set(replayed)) == min(24, len(past.train))
    assert row_set(replayed) <= row_set(past.train.x)


def test_a_rest_of_one_row_joins_the_batch_before_it_because_of_batch_norm():
    task = blobs(classes=3, per_class=3)
    spy = Spy()
    fit(net_for([task]), [task], recipe(epochs=1, batch_size=4), seed=0, loss=spy)
    assert [len(batch.y) for batch in spy.batches] == [4, 5]


def test_batches_of_one_row_are_refused_for_batch_norm_only():
    task = blobs(per_class=2)
    with pytest.raises(SettingsError, match=r"batch_size is 1 but the net has batch-norm.*; use more rows"):
        fit(net_for([task]), [task], recipe(batch_size=1), seed=0)
    spy = Spy()
    fit(net_for([task], mlp_100), [task], recipe(batch_size=1, epochs=1), seed=0, loss=spy)
    assert [len(batch.y) for batch in spy.batches] == [1] * 4


def trained(seed=0, settings=TINY, tasks=TASKS):
    net = net_for(tasks, dropout=0.5)
    loss = fit(net, tasks, settings, seed=seed)
    return state(net), loss


def test_the_same_seed_gives_the_same_weights_with_dropout_and_augmentation():
    tasks = [pictures("stripes", augment=("crop", "flip"))]
    first, again, other = (trained(seed, tasks=tasks) for seed in (1, 1, 2))
    assert same(first[0], again[0])
    assert first[1] == again[1]
    assert not same(first[0], other[0])


def test_dropout_and_augmentation_do_something():
    tasks = [pictures("stripes", augment=("crop", "flip"))]

    def weights(dropout, augment):
        net = net_for(tasks, dropout=dropout)
        fit(net, tasks, recipe(augment=augment), seed=0)
        return state(net)

    plain = weights(0.0, "no")
    assert same(plain, weights(0.0, "no"))
    assert not same(plain, weights(0.5, "no"))
    assert not same(plain, weights(0.0, "yes"))


@pytest.mark.parametrize(
    ("augment", "epochs", "varies"), [("auto", 1, False), ("auto", 2, True), ("yes", 1, True), ("no", 2, False)]
)
def test_images_are_varied_when_the_recipe_and_the_task_say_so(augment, epochs, varies):
    for kinds, expected in ((("crop",), varies), ((), False)):
        task = pictures("stripes", augment=kinds)
        spy = Spy()
        fit(net_for([task]), [task], recipe(augment=augment, epochs=epochs), seed=0, loss=spy)
        seen = torch.cat([batch.x for batch in spy.batches])
        assert (not row_set(seen) <= row_set(task.train.x)) == expected


def test_the_callers_randomness_is_untouched_between_and_after_steps(every_batch):
    net = net_for(TASKS, dropout=0.5)
    before = torch.get_rng_state()
    steps = 0
    for _ in iter_fit(net, TASKS, TINY, seed=0):
        assert torch.equal(torch.get_rng_state(), before)
        steps += 1
    assert torch.equal(torch.get_rng_state(), before)
    assert steps == 12


def test_what_the_caller_draws_between_steps_changes_nothing(every_batch):
    nets = [net_for(TASKS, dropout=0.5), net_for(TASKS, dropout=0.5)]
    for _ in iter_fit(nets[0], TASKS, TINY, seed=0):
        pass
    with torch.random.fork_rng():
        for _ in iter_fit(nets[1], TASKS, TINY, seed=0):
            torch.rand(3)
    assert same(state(nets[0]), state(nets[1]))


def test_what_the_caller_asks_the_net_between_steps_changes_nothing(every_batch):
    nets = [net_for(TASKS, dropout=0.5), net_for(TASKS, dropout=0.5)]
    for _ in iter_fit(nets[0], TASKS, TINY, seed=0):
        pass
    for _ in iter_fit(nets[1], TASKS, TINY, seed=0):
        probabilities(nets[1], TASKS[0].test.x, TASKS[0].name, TINY)
    assert same(state(nets[0]), state(nets[1]))


def test_every_step_of_every_epoch_drops_other_units():
    def only_drops(shape, dropout):
        return nn.Sequential(nn.Flatten(), nn.Dropout(dropout))

    ones = torch.full((24, 1, 8, 8), 255, dtype=torch.uint8)
    task = Task("white", *[Examples(ones, torch.arange(24) % 2)] * 2)
    net = net_for([task], only_drops, dropout=0.3)
    masks = []
    net.backbone.register_forward_hook(
        lambda module, inputs, output: masks.append(output == 0) if module.training else None
    )
    fit(net, [task], recipe(epochs=3), seed=0)
    assert [tuple(mask.shape) for mask in masks] == [(8, 64)] * 9
    assert float(torch.stack(masks).float().mean()) == pytest.approx(0.3, abs=0.04)  # deviation 0.007
    for first in range(9):
        for second in range(first):
            both = float((masks[first] == masks[second]).float().mean())
            assert both == pytest.approx(0.3**2 + 0.7**2, abs=0.15)  # by chance; deviation 0.02


def test_how_much_is_gathered_at_once_changes_nothing(monkeypatch):
    whole, whole_loss = trained()
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1)
    single, single_loss = trained()
    assert same(whole, single)
    assert whole_loss == single_loss


def test_progress_counts_steps_and_epochs_and_gives_the_mean_loss(every_batch):
    losses = []

    def noting(net, batch):
        losses.append(cross_entropy(net, batch))
        return losses[-1]

    told = list(iter_fit(net_for(TASKS), TASKS, recipe(), seed=0, loss=noting))
    assert [progress.step for progress in told] == list(range(1, 13))
    assert [progress.epoch for progress in told] == [1] * 6 + [2] * 6
    assert {(progress.steps, progress.epochs, progress.what) for progress in told} == {(12, 2, "stripes")}
    assert told[8].loss == pytest.approx(sum(float(loss.detach()) for loss in losses[6:9]) / 3)


def test_fit_returns_the_mean_loss_of_the_last_epoch_and_it_falls():
    task = pictures()
    first = fit(net_for([task]), [task], recipe(epochs=1), seed=0)
    last = fit(net_for([task]), [task], recipe(epochs=8), seed=0)
    assert last < first / 2


def test_heads_of_other_tasks_do_not_move():
    net = net_for([*TASKS, pictures("rings")])
    before = state(net.head("rings"))
    fit(net, TASKS, recipe(weight_decay=0.1), seed=0)
    assert same(state(net.head("rings")), before)


def test_only_the_heads_that_are_named_move():
    net = net_for(TASKS)
    before = {task.name: state(net.head(task.name)) for task in TASKS}
    fit(net, TASKS, recipe(weight_decay=0.1), seed=0, heads=["dots"])
    assert same(state(net.head("stripes")), before["stripes"])
    assert not same(state(net.head("dots")), before["dots"])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_divergence_names_task_epoch_and_step(value, every_batch):
    steps = []

    def exploding(net, batch):
        steps.append(batch)
        return cross_entropy(net, batch) * (value if len(steps) == 6 + 4 else 1.0)

    with pytest.raises(Diverged, match=rf"task 'stripes' diverged: the loss is {value} at step 4 of epoch 2;.*--lr"):
        fit(net_for(TASKS), TASKS, recipe(), seed=0, loss=exploding)


def test_too_large_a_learning_rate_is_a_divergence():
    with pytest.raises(Diverged, match=r"at step .* of epoch"):
        fit(net_for(TASKS, mlp_100), TASKS, recipe(lr=1e12, epochs=3), seed=0)


def cut(tasks, settings, folder, steps, every=1, **slots):
    """A training that is abandoned after so many steps."""
    work = iter_fit(
        net_for(tasks, dropout=0.3), tasks, settings, seed=7, checkpoints=Checkpoints(folder, every), **slots
    )
    assert len(list(islice(work, steps))) == steps
    work.close()


@pytest.mark.parametrize("momentum", [0.9, 0.0])
@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_training_cut_after_any_epoch_is_taken_up_and_ends_the_same(tmp_path, every_batch, done, momentum):
    tasks = [pictures("stripes", augment=("crop",)), pictures("dots", 3, 7)]
    settings = recipe(epochs=4, momentum=momentum, weight_decay=0.01)
    whole = net_for(tasks, dropout=0.3)
    whole_loss = fit(whole, tasks, settings, seed=7)
    cut(tasks, settings, tmp_path, 6 * done + 2)
    resumed = net_for(tasks, dropout=0.3)
    work = iter_fit(resumed, tasks, settings, seed=7, checkpoints=Checkpoints(tmp_path, 1))
    assert next(work).step == 6 * done + 1
    assert run_to_end(work) == whole_loss
    assert same(state(resumed), state(whole))


def test_a_long_training_is_kept_so_often_at_most(tmp_path):
    often, seldom = Checkpoints(tmp_path, 1), Checkpoints(tmp_path, 1, most=4)
    assert [epoch for epoch in range(1, 9) if often.due(epoch, 8)] == [*range(1, 9)]
    assert [epoch for epoch in range(1, 9) if seldom.due(epoch, 8)] == [2, 4, 6, 8]
    assert [epoch for epoch in range(1, 4) if seldom.due(epoch, 3)] == [1, 2, 3]


def test_a_checkpoint_is_written_every_few_epochs_only(tmp_path, every_batch):
    settings = recipe(epochs=5)
    cut(TASKS, settings, tmp_path, 6 * 3 + 2, every=2)
    work = iter_fit(net_for(TASKS), TASKS, settings, seed=7, checkpoints=Checkpoints(tmp_path, 2))
    assert next(work).epoch == 3


def test_a_checkpoint_belongs_to_one_seed(tmp_path, every_batch):
    cut(TASKS, recipe(), tmp_path, 8)
    work = iter_fit(net_for(TASKS), TASKS, recipe(), seed=8, checkpoints=Checkpoints(tmp_path, 1))
    assert next(work).step == 1


class Counter:
    """A loss that changes from step to step, and what makes checkpoints hold its count."""

    def __init__(self):
        self.count = 0

    def __call__(self, net, batch):
        self.count += 1
        return cross_entropy(net, batch) * (1 + self.count / 10)

    def begin(self):
        assert self.count == 0

    def save(self, tensors):
        tensors["count"] = torch.tensor(self.count)
        return {"counts": True}

    def load(self, info, tensors):
        assert info == {"counts": True}
        self.count = int(tensors["count"])


def test_what_is_carried_from_step_to_step_is_taken_up_too(tmp_path, every_batch):
    settings = recipe(epochs=3)
    whole = net_for(TASKS)
    fit(whole, TASKS, settings, seed=7, loss=Counter())
    for steps in (15, None):
        resumed, counter = net_for(TASKS), Counter()
        checkpoints = Checkpoints(tmp_path, 1, carried=counter)
        work = iter_fit(resumed, TASKS, settings, seed=7, loss=counter, checkpoints=checkpoints)
        list(islice(work, steps))
        work.close()
    assert same(state(resumed), state(whole))


def test_a_batch_knows_its_step_and_its_epoch_also_after_a_cut(tmp_path, every_batch):
    settings, spy = recipe(epochs=2), Spy()
    cut(TASKS, settings, tmp_path, 8)
    fit(net_for(TASKS), TASKS, settings, seed=7, loss=spy, checkpoints=Checkpoints(tmp_path, 1))
    steps = len(batch_sizes(sum(len(task.train) for task in TASKS), settings.batch_size))
    assert [(batch.step, batch.epoch) for batch in spy.batches] == [(step, 1) for step in range(steps, 2 * steps)]


def test_a_damaged_checkpoint_is_named_and_not_trained_on(tmp_path, every_batch):
    cut(TASKS, recipe(), tmp_path, 8)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    middle = len(whole) // 2
    loss = whole.index(b"epochs") + 10
    altered = [
        whole[:middle],
        b"",
        whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        whole[:loss] + bytes([whole[loss] ^ 1]) + whole[loss + 1 :],
    ]
    for content in altered:
        path.write_bytes(content)
        with pytest.raises(StoreError, match=path.name):
            fit(net_for(TASKS), TASKS, recipe(), seed=7, checkpoints=Checkpoints(tmp_path, 1))
        assert path.read_bytes() == content


def test_probabilities_are_asked_in_evaluation_mode_whatever_the_number_of_rows():
    task = pictures(per_class=150)
    net = net_for([task], dropout=0.5)
    fit(net, [task], recipe(epochs=1), seed=0)
    before = state(net)
    net.train()
    whole = probabilities(net, task.train.x, task.name, TINY)
    assert len(whole) == 300
    assert torch.equal(probabilities(net, task.train.x, task.name, TINY), whole)
    assert torch.allclose(probabilities(net, task.train.x[:7], task.name, TINY), whole[:7], atol=1e-6)
    assert torch.allclose(whole, torch.softmax(net.eval()(task.train.x, task.name), 1), atol=1e-6)
    assert same(state(net), before)


@pytest.mark.parametrize("part", [0, 1, 2, 3, 4])
def test_a_net_is_asked_in_evaluation_mode_also_if_only_a_part_of_it_is_in_training_mode(part):
    task = pictures()
    net = net_for([task], dropout=0.5)
    fit(net, [task], recipe(epochs=1), seed=0)
    before = state(net)
    ask_probabilities = partial(probabilities, net, task.test.x, task.name, TINY)
    ask_features = partial(compute_features, net, task.test.x, TINY)
    for ask in (ask_probabilities, ask_features):
        net.eval()
        expected = ask()
        net.backbone[part].train()
        assert not net.training
        assert torch.allclose(ask(), expected, atol=1e-6)
    assert same(state(net), before)


def test_a_net_that_moved_to_say_its_features_can_still_be_trained(monkeypatch):
    task = pictures()
    net = net_for([task])
    net.device = torch.device("meta")  # stands in for a GPU: the net must move to answer
    monkeypatch.setattr(net, "to", lambda device: net._apply(torch.clone))
    compute_features(net, task.train.x, TINY)
    assert net.device == torch.device("cpu")
    assert not any(tensor.is_inference() for tensor in net.state_dict().values())
    monkeypatch.undo()
    assert fit(net, [task], recipe(epochs=1), seed=0) > 0


def test_mixed_precision_trains_float32_weights():
    task = pictures()
    net = net_for([task])
    loss = fit(net, [task], recipe(epochs=6, precision="bfloat16"), seed=0)
    assert loss < 0.5
    assert {tensor.dtype for tensor in state(net).values()} == {torch.float32, torch.int64}
    assert probabilities(net, task.test.x, task.name, recipe(precision="bfloat16")).dtype == torch.float32


def test_the_backbone_of_these_tests_has_batch_norm():
    assert any(isinstance(module, torch.nn.BatchNorm1d) for module in with_norm((1, 8, 8)).modules())


def test_a_last_step_that_explodes_is_found_although_no_loss_shows_it():
    task = pictures()
    steps = -(-len(task.train) // recipe().batch_size)
    met = []

    def explode_at_the_end(net, batch):
        met.append(batch)
        if len(met) == steps:
            next(net.backbone.parameters()).grad.fill_(float("inf"))

    with pytest.raises(Diverged, match=rf"weights are not finite at step {steps} of epoch 1;"):
        fit(net_for([task]), [task], recipe(epochs=1), seed=0, adjust=explode_at_the_end)


def test_each_task_of_a_mixture_is_augmented_as_it_allows():
    still, moving = pictures("still"), replace(pictures("moving"), augment=("crop", "flip"))
    seen = []

    def look(net, batch):
        seen.extend(zip(batch.task_index.tolist(), batch.x, strict=True))
        return cross_entropy(net, batch)

    fit(net_for([still, moving]), [still, moving], recipe(epochs=1, augment="yes"), seed=0, loss=look)
    raw = {name: row_set(task.train.x) for name, task in ((0, still), (1, moving))}
    assert row_set(torch.stack([x for row, x in seen if row == 0])) == raw[0]
    assert not row_set(torch.stack([x for row, x in seen if row == 1])) <= raw[1]
