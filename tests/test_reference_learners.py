"""The learners that a zoo is compared with: joint training, isolated ensembles and plain fine-tuning."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from toys import TINY, benchmark, embedded, learner_of, net_for, pictures, row_set, same, show, state, with_norm
from zoolearn.beyond.linear_head import fit_head, refit_heads
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, SettingsError, UnknownTask
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.multi_head import MultiHead
from zoolearn.methods.registry import METHODS, settings_of
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.run import episodes, run
from zoolearn.runs.store import load
from zoolearn.training import batches
from zoolearn.training.at_once import fit
from zoolearn.training.fit import run_to_end
from zoolearn.training.predict import compute_features, probabilities
from zoolearn.training.recipe import Recipe

TOYS = benchmark(3)
DECAYING = Recipe(epochs=2, batch_size=8, lr=0.05, weight_decay=0.1, momentum=0.9, device="cpu")


def trained_rows(passes):
    return sum(len(x) for _, training, x in passes if training)


def test_multi_head_trains_once_when_all_tasks_are_met(monkeypatch):
    learner = learner_of(MultiHead)
    with embedded(monkeypatch) as passes:
        for task in TOYS:
            learner.learn(task)
    assert passes == []
    with pytest.raises(UnknownTask, match="has not trained yet"):
        learner.predict_proba(TOYS[0].test.x, "stripes")
    with embedded(monkeypatch) as passes:
        run_to_end(learner.iter_finish())
    assert trained_rows(passes) == TINY.epochs * sum(len(task.train) for task in TOYS)
    assert len({id(net) for net, _, _ in passes}) == 1


def test_the_order_of_the_tasks_does_not_change_the_losses_of_multi_head(monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1)  # word after every batch
    seen = [losses_of_the_same_rows(tasks, monkeypatch) for tasks in (TOYS, TOYS[::-1])]
    assert len(seen[0]) == TINY.epochs * 11
    assert seen[0] == pytest.approx(seen[1], rel=1e-5)


def losses_of_the_same_rows(tasks, monkeypatch):
    """The losses of Multi-Head that meets the tasks in this order and sees their rows in that of the toys."""
    places = torch.split(torch.arange(sum(len(task.train) for task in tasks)), [len(task.train) for task in tasks])
    numbers = {task.name: place for task, place in zip(tasks, places, strict=True)}
    rows = torch.cat([numbers[task.name] for task in TOYS])
    learner = learner_of(MultiHead, replace(TINY, dropout=0.3), backbone=with_norm)
    for task in tasks:
        learner.learn(task)
    with monkeypatch.context() as patch:
        patch.setattr("zoolearn.training.fit.shuffled_order", lambda _, seed: rows[batches.shuffled_order(TOYS, seed)])
        return [event.loss for event in learner.iter_finish()]


def test_the_rows_before_multi_head_trains_are_empty():
    results = run(learner_of(MultiHead), TOYS)
    assert results.accuracy[:2] == [[None], [None, None]]
    assert None not in results.accuracy[2]
    assert [episode.tasks for episode in results.episodes] == [(), (), ("stripes", "dots", "rings")]
    assert [episode.loss is None for episode in results.episodes] == [True, True, False]
    assert results.stored_samples == 84


def test_multi_head_can_train_anew_after_every_task(monkeypatch):
    learner = learner_of(MultiHead, every_episode=True)
    met = 0
    for task in TOYS:
        met += len(task.train)
        with embedded(monkeypatch) as passes:
            learner.learn(task)
        assert trained_rows(passes) == TINY.epochs * met
    with embedded(monkeypatch) as passes:
        run_to_end(learner.iter_finish())
    assert passes == []


def test_multi_head_may_fit_its_heads_once_more_to_all_rows():
    tasks = benchmark(2).tasks
    plain, refitted = (show(learner_of(MultiHead, **heads), tasks) for heads in ({}, {"heads": refit_heads}))
    assert same(state(plain.net.backbone), state(refitted.net.backbone))
    for task in tasks:
        features = compute_features(refitted.net, task.train.x, refitted.recipe)
        fitted = fit_head(features, task.train.y, len(task.classes))
        assert torch.equal(refitted.net.head(task.name).weight, fitted.weight)


def test_multi_head_that_trains_every_time_answers_from_the_first_task_on():
    results = run(learner_of(MultiHead, every_episode=True), TOYS)
    assert all(None not in row for row in results.accuracy)
    assert [len(episode.tasks) for episode in results.episodes] == [1, 2, 3]


def test_multi_head_is_one_net_on_the_mixture_of_all_tasks():
    learner = show(learner_of(MultiHead), TOYS)
    seed = learner.episode_seed(3)
    net = net_for(TOYS.tasks, mlp_100, dropout=TINY.dropout, seed=seed)
    fit(net, TOYS.tasks, TINY, seed=seed)
    assert same(state(net), state(learner.net))
    assert not learner.net.training


def test_a_multi_head_run_that_is_not_finished_loads_and_says_that_it_has_no_answers(tmp_path):
    work = episodes(learner_of(MultiHead), TOYS, tmp_path)
    next(work)
    work.close()
    with pytest.raises(UnknownTask, match="has not trained yet"):
        load(tmp_path).predict_proba(TOYS[0].test.x, "stripes")


def test_several_isolated_nets_a_task_average():
    learner = show(learner_of(Isolated, networks=3), TOYS[:2])
    assert [list(member.votes) for member in learner.members] == [["stripes"]] * 3 + [["dots"]] * 3
    first = [state(member.net)["backbone.1.weight"] for member in learner.members]
    assert len({tensor.numpy().tobytes() for tensor in first}) == 6
    task = TOYS[1]
    votes = [probabilities(member.net, task.test.x, "dots", TINY) for member in learner.members[3:]]
    assert torch.allclose(learner.predict_proba(task.test.x, "dots"), torch.stack(votes).mean(0), atol=1e-6)
    assert learner.stored_samples == 0


def test_all_isolated_nets_of_a_task_are_members_and_are_saved(tmp_path):
    learner = learner_of(Isolated, networks=2)
    run(learner, TOYS[:2], tmp_path)
    assert [member.episode for member in load(tmp_path).members] == [0, 0, 1, 1]
    with pytest.raises(SettingsError, match="networks is 0"):
        Isolated(networks=0)


def test_isolated_has_no_settings_of_the_zoo():
    assert set(settings_of(learner_of(Isolated))) == {"backbone", "recipe", "seed"}
    with pytest.raises(SettingsError, match="unknown setting of Isolated 'tasks_per_episode'"):
        Isolated(tasks_per_episode=2)


def test_isolated_forgets_nothing():
    results = run(learner_of(Isolated), TOYS)
    assert results.accuracy[2][:2] == [results.accuracy[0][0], results.accuracy[1][1]]
    assert results.summary()["forgetting"] == 0


def test_fine_tuning_on_one_task_is_ordinary_training_bit_for_bit():
    learner = learner_of(FineTune, seed=5)
    seed = learner.episode_seed()
    learner.learn(TOYS[1])
    net = Net(mlp_100, TOYS[1].shape, dropout=TINY.dropout, seed=5)
    net.add_head("dots", 3)
    fit(net, [TOYS[1]], TINY, seed=seed)
    assert same(state(learner.net), state(net))


def test_fine_tuning_goes_on_from_the_weights_that_the_last_task_left():
    learner = learner_of(FineTune)
    learner.learn(TOYS[0])
    left, seed = deepcopy(learner.net), learner.episode_seed()
    learner.learn(TOYS[1])
    left.add_head("dots", 3)
    fit(left, [TOYS[1]], TINY, seed=seed)
    assert same(state(learner.net), state(left))


def test_heads_of_old_tasks_stay_bit_identical_with_momentum_and_weight_decay():
    learner = learner_of(FineTune, DECAYING, backbone=with_norm)
    learner.learn(TOYS[0])
    first = state(learner.net.head("stripes"))
    learner.learn(TOYS[1])
    second = state(learner.net.head("dots"))
    learner.learn(TOYS[2])
    assert same(state(learner.net.head("stripes")), first)
    assert same(state(learner.net.head("dots")), second)


def test_what_a_learner_knew_of_a_task_when_it_was_new_does_not_depend_on_later_data():
    others = (pictures("moons"), pictures("suns"))
    accuracies = []
    for later in (TOYS.tasks[1:], others):
        learner = learner_of(FineTune)
        learner.learn(TOYS[0])
        answer = learner.predict_proba(TOYS[0].test.x, "stripes")
        for task in later:
            learner.learn(task)
        accuracies.append((answer, learner.predict_proba(TOYS[0].test.x, "stripes")))
    assert torch.equal(accuracies[0][0], accuracies[1][0])
    assert not torch.equal(accuracies[0][1], accuracies[1][1])


def test_fine_tuning_sees_the_new_task_only(monkeypatch):
    learner = learner_of(FineTune)
    learner.learn(TOYS[0])
    with embedded(monkeypatch) as passes:
        learner.learn(TOYS[1])
    assert set().union(*(row_set(x) for _, _, x in passes)) == row_set(TOYS[1].train.x)
    assert learner.stored_samples == 0


def test_tasks_with_the_same_labels_can_share_a_head():
    tasks = [pictures("moons", 3), pictures("suns", 3)]
    learner = show(learner_of(FineTune, shared_head=True), tasks)
    assert len(learner.net.heads) == 1
    assert torch.equal(learner.predict_proba(tasks[0].test.x, "moons"), learner.predict_proba(tasks[0].test.x, "suns"))
    with pytest.raises(DataError, match="task 'stars' has 2 classes, the shared head of 'moons' has 3"):
        learner.learn(pictures("stars", 2))
    assert list(learner.classes) == ["moons", "suns"]


@pytest.mark.parametrize("name", ["model-zoo", "er"])
def test_float_images_are_taken_as_they_are(name):
    pixels = pictures("pixels")
    scaled = [
        Examples(split.x.to(torch.float32).mul_(1 / (255 * 0.25)).sub_(0.5 / 0.25), split.y)
        for split in (pixels.train, pixels.test)
    ]
    answers = []
    for task in (pixels, replace(pixels, train=scaled[0], test=scaled[1])):
        learner = learner_of(METHODS[name])
        learner.learn(task)
        answers.append(learner.predict_proba(task.test.x.numpy(), task.name))
    assert torch.equal(*answers)


def test_a_scale_of_pixels_is_refused_for_float_images():
    task = pictures("pixels")
    floats = replace(
        task, train=Examples(task.train.x.float(), task.train.y), test=Examples(task.test.x.float(), task.test.y)
    )
    learner = learner_of(METHODS["er"], replace(TINY, pixel_mean=(0.4,)))
    with pytest.raises(
        SettingsError, match=r"pixel_mean is \(0.4,\) .* 'pixels' has float images, which are taken as they"
    ):
        learner.learn(floats)
