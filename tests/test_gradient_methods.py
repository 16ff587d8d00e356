"""What GEM, A-GEM, MEGA-II, TAG and MC-SGD have in common: state that is saved, counted, and taken up bit for bit."""

from dataclasses import replace

import pytest
import torch

from toys import TINY, benchmark, embedded, learner_of, row_set, same, show, state, with_norm
from zoolearn.errors import Diverged, SettingsError
from zoolearn.methods.a_gem import AGem
from zoolearn.methods.gem import Gem
from zoolearn.methods.mc_sgd import McSgd
from zoolearn.methods.mega_ii import MegaII
from zoolearn.methods.tag import Tag
from zoolearn.runs.state import Changes, restore, save
from zoolearn.training import batches
from zoolearn.training.checkpoints import Checkpoints

TASKS = benchmark(3).tasks
RECIPE = replace(TINY, epochs=2)
SETTINGS = [
    (Gem, {"memory_size": 6}),
    (AGem, {"memory_size": 3, "memory_batch": 4}),
    (MegaII, {"memory_size": 3, "memory_batch": 4}),
    (Tag, {}),
    (McSgd, {"memory_size": 3, "line_batch": 4, "line_epochs": 2, "line_points": 2}),
]


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting[0].__name__)
def make(request):
    method, settings = request.param
    return lambda: learner_of(method, RECIPE, backbone=with_norm, **settings)


def kept(learner):
    """All that a learner would save."""
    return {key: tensor for tensors in save(learner).files.values() for key, tensor in tensors.items()}


@pytest.mark.parametrize("reports", [1, 4, 8, 14])
def test_a_training_cut_anywhere_is_taken_up_bit_for_bit(make, reports, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK_BYTES", 1)  # word after every batch
    whole = show(make(), TASKS)
    cut = show(make(), TASKS[:2])
    cut.checkpoints = Checkpoints(tmp_path, 1, carried=Changes(cut))
    work = cut.iter_learn(TASKS[2])
    for _, _ in zip(range(reports), work, strict=False):
        pass
    resumed = make()
    restore(resumed, [save(cut)], TASKS[:2])
    resumed.checkpoints = Checkpoints(tmp_path, 1, carried=Changes(resumed))
    if resumed.episode == 2:  # else the training was over before it could be cut
        resumed.learn(TASKS[2])
    assert same(kept(resumed), kept(whole))


def test_what_is_restored_without_data_answers_and_counts_the_same(make):
    learner = show(make(), TASKS)
    restored = make()
    restore(restored, [save(learner)])
    for task in TASKS:
        before, after = (each.predict_proba(task.test.x, task=task.name) for each in (learner, restored))
        assert before.equal(after)
    assert (restored.stored_samples, restored.num_parameters) == (learner.stored_samples, learner.num_parameters)


def test_a_training_that_failed_leaves_the_learner_as_it_was(make, monkeypatch):
    learner = show(make(), TASKS[:2])
    before = kept(learner)
    monkeypatch.setattr("zoolearn.training.fit._mean_or_diverged", diverge)
    with pytest.raises(Diverged):
        learner.learn(TASKS[2])
    assert same(kept(learner), before)
    assert learner.episode == 2


def diverge(*_):
    raise Diverged("as asked")


def test_the_same_seed_gives_the_same_and_another_another(make):
    first, again = show(make(), TASKS[:2]), show(make(), TASKS[:2])
    assert same(kept(first), kept(again))
    other = make()
    other.seed = 1
    assert not same(state(show(other, TASKS[:2]).net), state(first.net))


@pytest.mark.parametrize(
    ("method", "settings"),
    [(Gem, {"memory_size": 1}), (AGem, {"memory_batch": 1}), (MegaII, {"memory_size": 1, "memory_per": "task"})],
)
def test_a_memory_batch_of_one_row_is_refused_before_any_training_where_batch_norm_cannot_take_it(method, settings):
    learner = learner_of(method, RECIPE, backbone=with_norm, **settings)
    with pytest.raises(SettingsError, match="memory batch is 1"):
        learner.learn(TASKS[0])
    show(learner_of(method, RECIPE, **settings), TASKS[:2])


def test_what_is_kept_is_plain_finite_tensors_of_their_own(make):
    tensors = kept(show(make(), TASKS))
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point())
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors.values() if tensor.numel()]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("method", [AGem, MegaII])
def test_the_memory_batch_is_of_past_tasks_and_moves_the_batch_norm_statistics(method, monkeypatch):
    learner = show(learner_of(method, backbone=with_norm, memory_size=3, memory_batch=4), TASKS[:2])
    past = row_set(learner.memory.x)
    with embedded(monkeypatch) as passes:
        learner.learn(TASKS[2])
    from_memory = [(training, x) for _, training, x in passes if row_set(x) <= past]
    assert len(from_memory) == len(passes) / 2
    assert all(training and len(x) == 4 for training, x in from_memory)
    assert len({x.numpy().tobytes() for _, x in from_memory}) > 1
