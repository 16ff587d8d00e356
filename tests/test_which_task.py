"""Finding out the task of an input, and one net that answers like a zoo."""

from itertools import count

import pytest
import torch

import zoolearn
from toys import TINY, benchmark, blobs, contents, learner_of, net_for, pictures, show
from zoolearn.beyond.distil import iter_distil, soft_cross_entropy, soft_targets
from zoolearn.beyond.task_inference import EVIDENCE, WhichTask, by_distance, inferred_accuracy
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.cli import main
from zoolearn.errors import DataError, SettingsError
from zoolearn.files import load_json, save_json
from zoolearn.lab.judge import iter_judge
from zoolearn.lab.paper.judged import load_judged
from zoolearn.methods.learner import accuracy
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.runs.results import Results
from zoolearn.training.batches import Batch
from zoolearn.training.fit import run_to_end
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.answers.recognition import Quality
from zoolearn.zoo.distilling import iter_distil_zoo
from zoos import TASKS, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown

TOYS = benchmark(3, per_class=16)
LEARNING = Recipe(epochs=8, batch_size=8, lr=0.05, device="cpu", augment="no")


def zoo_of(tasks=TOYS, **settings):
    zoo = learner_of(ModelZoo, LEARNING, **{"tasks_per_episode": 2, "grow": WarmStart(), **settings})
    for task in tasks:
        zoo.learn(task)
    return zoo


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_finds_the_task_more_often_than_chance(name):
    which = WhichTask(zoo_of(), EVIDENCE[name])
    found = sum(which.guess(task.test.x).count(task.name) for task in TOYS)
    assert found / sum(len(task.test) for task in TOYS) > (0.9 if name == "distance" else 0.4)
    chances = which.infer(TOYS[0].test.x).chances
    assert torch.allclose(chances.sum(dim=1), torch.ones(len(chances)))


def test_a_row_a_class_is_enough_to_tell_tasks_apart():
    which = WhichTask(zoo_of(replay=0.05))
    assert sum(which.guess(task.test.x).count(task.name) for task in TOYS) > 0.5 * sum(len(task.test) for task in TOYS)


@pytest.mark.parametrize("size", [1e20, 3e38])
def test_an_input_far_from_everything_has_chances_and_no_task(size):
    tasks = [blobs("a"), blobs("b", seed=1)]
    which = WhichTask(show(learner_of(ModelZoo), tasks))
    look = which.infer(torch.full((1, 6), size), sure=0.5)
    assert look.chances.sum().item() == pytest.approx(1.0)
    assert look.certain.tolist() == [False]
    assert which.guess(torch.full((1, 6), size)) != [None]


def test_a_clear_not_sure_is_given_where_the_evidence_is_weak():
    which = WhichTask(zoo_of())
    x = TOYS[0].test.x
    best = which.infer(x).chances.max(dim=1).values
    strange = which.evidence(x).max(dim=1).values < which.least
    guesses = which.guess(x, sure=float(best.median()))
    assert [guess is None for guess in guesses] == ((best < float(best.median())) | strange).tolist()
    assert which.guess(x, sure=1.01) == [None] * len(x)


def test_class_incremental_accuracy_needs_task_and_class_to_be_right():
    toys = benchmark(3, per_class=16, contrast=16)
    which = WhichTask(zoo_of(toys))
    answers = {task.name: which.zoo.predict_proba(task.test.x, task.name) for task in toys}
    judged = inferred_accuracy(which, toys.tasks, answers, sure=0.5)
    shares = []
    for task in toys:
        counts = [0, 0, 0, 0]
        guesses, sure_guesses = which.guess(task.test.x), which.guess(task.test.x, sure=0.5)
        classes = which.zoo.predict(task.test.x, task.name)
        for guess, sure, named, y in zip(guesses, sure_guesses, classes, task.test.y, strict=True):
            counts[0] += guess == task.name and bool(named == y)
            counts[1] += guess == task.name
            counts[2] += sure is not None
            counts[3] += sure == task.name and bool(named == y)
        shares.append([count / len(task.test) for count in counts])
    right, right_task, answered, right_answered = (sum(column) / len(toys) for column in zip(*shares, strict=True))
    assert 0 < right < right_task < 1
    assert right_answered < answered < 1
    assert len({len(task.test) for task in toys}) > 1, "each task counts alike, not each row"
    assert (judged.accuracy, judged.task_accuracy) == pytest.approx((right, right_task))
    assert (judged.answered, judged.accuracy_if_answered) == pytest.approx((answered, right_answered / answered))


def test_tables_are_brought_to_the_scales_of_many_tasks_at_once_or_one_by_one(monkeypatch):
    tasks = [blobs("a"), blobs("b", seed=1), blobs("c", seed=2)]
    which = WhichTask(show(learner_of(ModelZoo), tasks))
    at_once = which.evidence(tasks[1].test.x)
    monkeypatch.setattr("zoolearn.beyond.task_inference.ROWS_AT_ONCE", 1)
    torch.testing.assert_close(which.evidence(tasks[1].test.x), at_once)
    assert len(at_once.unique(dim=1).T) == 3


def test_of_many_tasks_no_more_rows_are_asked_about_than_are_paid_for(monkeypatch):
    zoo, asked = zoo_of(), []
    for module in ("zoolearn.beyond.task_inference", "zoolearn.zoo.answers.recognition"):
        monkeypatch.setattr(f"{module}.MOST_EVIDENCE", 18)

    def counted(zoo, stored):
        found = by_distance(zoo, stored)
        return lambda x: asked.append(len(x)) or found(x)

    which = WhichTask(zoo, counted)
    judged = Quality.of(which, {task.name: task.test.x for task in TOYS})
    assert asked == [6, 6]
    assert judged.right > 0.5 > judged.strangers
    assert which.guess(TOYS[2].test.x).count(TOYS[2].name) > len(TOYS[2].test) / 2


def test_rows_that_fit_the_evidence_are_not_those_that_fit_its_temperature(monkeypatch):
    zoo, seen = zoo_of(), []

    def watched(zoo, stored):
        found = by_distance(zoo, stored)
        seen.append(torch.cat([task.train.x for task in stored]))
        return lambda x: seen.append(x) or found(x)

    def rows(x):
        return {row.numpy().tobytes() for row in x}

    WhichTask(zoo, watched)
    fitted, apart = map(rows, seen)
    assert not fitted & apart
    stored = sum(len(task.train) for task in zoo.kept.values())
    assert (len(fitted), len(apart)) == (3 * stored // 4, stored // 4)
    monkeypatch.setattr("zoolearn.beyond.task_inference.MOST_STORED", stored // 2)
    seen.clear()
    WhichTask(zoo, watched)
    assert len(rows(torch.cat(seen))) == pytest.approx(stored / 2, abs=len(zoo.kept))


def test_a_task_that_is_named_wrongly_is_not_named_rightly():
    rows = [task.test.x for task in TOYS]
    swapped = dict(zip([task.name for task in TOYS], [*rows[1:], rows[0]], strict=True))
    assert Quality.of(WhichTask(zoo_of()), swapped).right < 0.2


def test_without_stored_rows_it_says_what_is_missing():
    with pytest.raises(DataError, match="keep some of every task"):
        WhichTask(zoo_of(replay=0.0))


def test_a_distilled_net_answers_for_all_tasks_nearly_as_the_zoo():
    zoo = zoo_of()
    tasks = list(zoo.kept.values())
    net, loss = run_to_end(iter_distil(zoo, tasks, LEARNING))
    assert net.tasks == tuple(task.name for task in TOYS)
    assert net.frozen
    assert loss < 1.0
    for task in TOYS:
        taught = accuracy(zoo.predict_proba(task.test.x, task.name), task.test.y)
        assert accuracy(probabilities(net, task.test.x, task.name, TINY), task.test.y) > taught - 0.2


def test_distilling_learns_what_the_zoo_says_or_the_labels_as_far_as_it_is_told():
    zoo = zoo_of()
    flipped = [
        type(task)(
            task.name, type(task.train)(task.train.x, (task.train.y + 1) % len(task.classes)), task.test, task.classes
        )
        for task in zoo.kept.values()
    ]
    task = TOYS[0]
    by_answers, by_labels = (
        accuracy(probabilities(net, task.test.x, task.name, TINY), task.test.y)
        for net, _ in (run_to_end(iter_distil(zoo, flipped, LEARNING, labels=share)) for share in (0.0, 1.0))
    )
    assert by_answers > 0.8
    assert by_labels < 0.2


def test_targets_of_distilling_are_as_wide_as_the_widest_task_and_each_row_is_taught_its_own():
    tasks = [pictures(name, classes, 4) for name, classes in (("dots", 2), ("rings", 4), ("waves", 3))]
    zoo = show(learner_of(ModelZoo, tasks_per_episode=2), tasks)
    targets = soft_targets(zoo, tasks, labels=0.25)
    assert targets.shape == (4 * (2 + 4 + 3), 4)
    net, places = net_for(tasks, mlp_100), torch.tensor([1, 9, 35, 22, 30, 7])
    owners = torch.tensor([0, 1, 2, 1, 2, 0])
    rows, names = torch.cat([task.train.x for task in tasks]), tuple(task.name for task in tasks)
    batch = Batch(rows[places], torch.zeros_like(places), owners, names, places)
    losses = []
    for place, task in zip(places.tolist(), [tasks[owner] for owner in owners.tolist()], strict=True):
        row = place - sum(len(before.train) for before in tasks[: tasks.index(task)])
        wanted = 0.75 * zoo.answer(task.train.x[row : row + 1], task.name)[0]
        wanted[task.train.y[row]] += 0.25
        losses.append(-(wanted * net(task.train.x[row : row + 1], task.name)[0].log_softmax(0)).sum())
    assert torch.allclose(soft_cross_entropy(net, batch, targets), torch.stack(losses).mean(), atol=1e-5)


def test_a_zoo_is_distilled_into_one_member_of_a_new_zoo(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3], recipe=LEARNING)
    before = contents(zoo.path)
    small = run_to_end(iter_distil_zoo(zoo, tmp_path / "small"))
    assert contents(zoo.path) == before
    assert [member.tasks for member in small.members] == [tuple(zoo.tasks)]
    assert all(small.measure(name).accuracy > zoo.measure(name).accuracy - 0.2 for name in zoo.tasks)
    assert run_to_end(zoolearn.open(small.path).verify()) == []
    small.learn(TASKS[3])
    small.forget(TASKS[0].name)
    assert list(zoolearn.open(small.path).tasks) == [task.name for task in TASKS[1:4]]
    assert run_to_end(zoolearn.open(small.path).verify()) == []


def test_what_stores_no_rows_cannot_be_distilled(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1], replay=0.0)
    with pytest.raises(SettingsError, match="keep some"):
        run_to_end(iter_distil_zoo(zoo, tmp_path / "small"))


def test_a_finished_run_is_judged_once_and_its_page_tells_all(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("zoolearn.lab.judge.perf_counter", count().__next__)  # a second between any two looks
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "2", "--first-tasks", "2", "--grow", "warm-start"]
    main(["run", "model-zoo", *words, "--out", str(tmp_path / "run")])
    main(["judge", str(tmp_path / "run")])
    out = capsys.readouterr().out
    assert "not told, by distance" in out
    assert "voting by product" in out
    record = load_json(tmp_path / "run" / "judged.json")
    assert record["zoo"]["accuracy"] == pytest.approx(Results.load(tmp_path / "run").summary()["average_accuracy"])
    assert 0 < record["unknown task"]["distance"]["accuracy"] <= record["unknown task"]["distance"]["task_accuracy"]
    assert record["distilled"]["num_parameters"] < record["zoo"]["num_parameters"]
    assert record["zoo"]["ms"] == record["distilled"]["ms"] == 1000 / (2 * 64), "of one of 64 rows of two tasks"
    whole = record["zoo"]["accuracy"]
    assert [record["voting"]["mean"], record["members"]["zoo"]] == pytest.approx([whole, whole])
    before = contents(tmp_path)
    main(["judge", str(tmp_path / "run")])
    assert contents(tmp_path) == before
    assert len(load_judged([tmp_path, tmp_path / "run"])) == 1
    for _ in range(2):  # also from where it was collected to
        main(
            [
                "paper",
                "--runs",
                str(tmp_path),
                "--beyond",
                str(tmp_path / "page.md"),
                "--collect",
                str(tmp_path / "kept"),
            ]
        )
    assert len(load_judged([tmp_path / "kept"])) == 1
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "class-incremental accuracy" in page
    assert "Voting otherwise" in page


def test_a_run_is_judged_by_the_data_it_was_made_with_alone(tmp_path):
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "2"]
    main(["run", "model-zoo", *words, "--out", str(tmp_path)])
    with pytest.raises(SettingsError, match="epochs is 0"):
        next(iter_judge(tmp_path, epochs=0))
    header = load_json(tmp_path / "run.json")
    save_json(tmp_path / "run.json", {**header, "data": "0" * len(header["data"])})
    with pytest.raises(DataError, match=r"is not what .* was made with"):
        next(iter_judge(tmp_path))
