"""What a run costs is counted where it happens: rows in training, rows asked about, passes through nets, bytes kept."""

from pathlib import Path

import pytest

from toys import learner_of, pictures
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.stream import Benchmark
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.progressive import Progressive
from zoolearn.methods.registry import METHODS
from zoolearn.nets.net import passed
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress, run
from zoolearn.training.fit import Progress, Training
from zoolearn.training.recipe import Recipe

pytestmark = pytest.mark.slow  # methods are trained many times

ROWS = 40  # of a task, to train on
STREAM = Benchmark(
    "stream", tuple(pictures(name, per_class=ROWS // 2, shape=(3, 8, 8)) for name in ("dots", "rings", "waves"))
)
ONCE = {"epochs": 1, "batch_size": 8, "device": "cpu"}
BARE = {"refit_heads": False, "all_tasks": False}


@pytest.mark.parametrize(
    ("settings", "warm", "trained", "asked", "passes"),
    [
        ({}, None, 1 + 2 + 3, 6, 2),
        ({"replay": 0.0}, None, 3, 3, 1),
        ({"replay": 0.1}, None, 1 + 2 + 2, 0.1 * 6, 2),
        ({"flip_tta": True}, None, 6, 6, 4),
        ({}, {}, 6, 6, 2),
        ({"tasks_per_episode": 1}, {"all_tasks": True}, 3, 1 + 2, 2),
        ({"tasks_per_episode": 1, "flip_tta": True}, {"all_tasks": True}, 3, 2 * (1 + 2), 4),
        ({}, {"refit_heads": True}, 6, 6 + 6, 2),
        ({"replay": 0.1}, {"refit_heads": True}, 1 + 2 + 2, 0.1 * 6 + 3, 2),
    ],
)
def test_a_zoo_is_charged_for_what_it_trains_on_and_asks(settings, warm, trained, asked, passes):
    recipe = Recipe(**ONCE, flip_tta=settings.get("flip_tta", False))
    own = {name: value for name, value in settings.items() if name != "flip_tta"}
    own |= {} if warm is None else {"grow": WarmStart(**{**BARE, **warm})}
    results = run(learner_of(ModelZoo, recipe, **own), STREAM)
    assert (results.rows_trained, results.rows_asked) == pytest.approx((ROWS * trained, ROWS * asked))
    assert results.passes == pytest.approx(passes)


@pytest.mark.parametrize("flips", [1, 2])
def test_a_column_asks_all_older_ones_in_training_and_for_an_answer(flips):
    results = run(learner_of(Progressive, Recipe(**ONCE, flip_tta=flips == 2)), STREAM)
    assert (results.rows_trained, results.rows_asked) == (ROWS * 3, ROWS * (1 + 2))
    assert results.passes == pytest.approx(flips * (1 + 2 + 3) / 3)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_price(method):
    results = run(learner_of(METHODS[method], Recipe(**ONCE)), STREAM)
    assert results.rows_trained >= 3 * ROWS
    assert results.passes >= 1
    assert results.stored_bytes == results.stored_samples * 3 * 8 * 8


def test_processor_time_is_that_of_training_and_of_evaluation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "zoolearn.training.clock.process_time", lambda: float(passed.rows.total())
    )  # a second for each row
    results = run(learner_of(Isolated, Recipe(**ONCE)), STREAM)
    rows = [ROWS + len(task.test) for task in STREAM]
    assert [episode.processor_seconds for episode in results.episodes] == pytest.approx(rows)
    assert results.summary()["processor_seconds"] == pytest.approx(sum(rows))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_training_that_was_cut_off_or_done_elsewhere_costs_the_same(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
):
    steps = []  # of this process; each takes a second of a processor
    step = Training.step
    monkeypatch.setattr(Training, "step", lambda *arguments: (steps.append(1), step(*arguments))[1])
    monkeypatch.setattr("zoolearn.training.clock.process_time", lambda: float(len(steps)))

    def learner():
        return learner_of(Isolated, Recipe(**{**ONCE, "epochs": 3}))

    for event in progress(learner(), STREAM, tmp_path, checkpoint_every=1):
        if isinstance(event, Progress) and event.epoch == 3 and event.what == "rings":
            break
    results = run(learner(), STREAM, tmp_path, checkpoint_every=1, workers=workers)
    assert results.rows_trained == 3 * 3 * ROWS
    if workers == 1:
        assert results.processor_seconds == pytest.approx(3 * 3 * ROWS / 8)
    assert Results.load(tmp_path).summary() == results.summary()
