"""Task not told: every class of every task is a candidate; measured beside what is told, and without touching it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from test_report import column
from test_report import run as recorded
from toys import SUBJECTS, benchmark, blobs, learner_of
from zoolearn import BENCHMARKS, METHODS, ModelZoo, Recipe, mlp
from zoolearn.beyond.all_classes import AllClasses, newest_nets
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.stream import Benchmark
from zoolearn.errors import DataError
from zoolearn.lab.one_run import per_task, single_run
from zoolearn.lab.report import CLASS_INCREMENTAL_NOTE, report
from zoolearn.lab.run_figures import ranking
from zoolearn.lab.sections import accuracies, sections
from zoolearn.methods.parts.head_logits import task_logits
from zoolearn.runs import run as running
from zoolearn.runs.results import Results, Untold
from zoolearn.runs.run import progress, run
from zoolearn.runs.state import save

pytestmark = pytest.mark.slow  # methods are trained many times

STREAM = benchmark()
ROWS = sum(len(task.test) for task in STREAM)


def test_one_softmax_over_all_heads_decides_as_by_hand():
    learner = learner_of(METHODS["er"])
    results = run(learner, STREAM)
    net = learner.net.eval()
    heads = [net.head(task.name) for task in STREAM]
    weight = np.concatenate([head.weight.detach().numpy() for head in heads]).astype(float)
    bias = np.concatenate([head.bias.detach().numpy() for head in heads]).astype(float)
    names = [name for task in STREAM for name in task.classes]
    for task in STREAM:
        right = 0
        for picture, label in zip(task.test.x, task.test.y, strict=True):
            features = net.backbone((picture[None].float() / 255 - 0.5) / 0.25)[0].detach().numpy().astype(float)
            chances = np.exp(weight @ features + bias)
            right += names[int(np.argmax(chances / chances.sum()))] == task.classes[int(label)]
        assert results.untold.accuracy[task.name] == right / len(task.test)
    assert results.summary()["class_incremental_accuracy"] == pytest.approx(
        np.mean([*results.untold.accuracy.values()])
    )
    assert results.untold.rows_asked == ROWS  # one pass of the one net over each test row


@pytest.mark.parametrize(
    "name",
    ["hat", "rmn", "progressive", "multi-head", "vcl", "frcl", "isolated, three nets", "model-zoo that starts warm"],
)
def test_every_kind_of_method_is_asked_through_the_heads_of_the_nets_that_answer(name):
    learner = learner_of(SUBJECTS[name])
    results = run(learner, STREAM)
    for task in STREAM:
        scores = torch.cat([by_hand(learner, task.test.x, other.name) for other in STREAM], dim=1)
        said = torch.cat(task_logits(learner, task.test.x, [other.name for other in STREAM]), dim=1)
        assert torch.allclose(said, scores, atol=1e-4)
        offset = sum(len(other.classes) for other in STREAM.tasks[: STREAM.tasks.index(task)])
        right = int((scores.argmax(dim=1) == task.test.y + offset).sum())
        assert results.untold.accuracy[task.name] == right / len(task.test)


def test_logits_are_not_rounded_where_nets_compute_with_less_precision():
    learner = learner_of(METHODS["er"], recipe=Recipe(epochs=1, precision="bfloat16"))
    learner.learn(STREAM[0])
    (said,) = task_logits(learner, STREAM[0].test.x, [STREAM[0].name])
    told = learner.predict_proba(STREAM[0].test.x, STREAM[0].name)
    assert torch.equal(torch.softmax(said, dim=1), told)


def by_hand(learner, x, task):
    """The weighted mean of what the nets say for one task; of methods that have other answers, the logarithm of those."""
    if type(learner).__name__ in ("Vcl", "Frcl"):
        return learner.predict_proba(x, task).log()
    with torch.no_grad():
        said = [(net.eval()(x, task), weight) for net, weight in learner.voters(task)]
    return sum(weight * logits for logits, weight in said) / sum(weight for _, weight in said)


@pytest.mark.parametrize("name", ["er", "vcl", "frcl", "model-zoo"])
def test_what_is_told_and_what_the_learner_knows_stay_as_they_are(name, monkeypatch):
    learner, other = learner_of(METHODS[name]), learner_of(METHODS[name])
    measured = run(learner, STREAM)
    monkeypatch.setattr(running, "class_incremental", lambda *_: None)
    told = run(other, STREAM)
    assert measured.untold is not None
    assert told.untold is None
    assert measured.accuracy == told.accuracy
    assert (measured.rows_trained, measured.rows_asked, measured.passes) == (
        told.rows_trained,
        told.rows_asked,
        told.passes,
    )
    first, second = save(learner), save(other)
    assert first.info == second.info
    assert first.files.keys() == second.files.keys()
    for file, tensors in first.files.items():
        assert all(torch.equal(tensor, second.files[file][key]) for key, tensor in tensors.items())


def test_a_run_that_is_continued_or_done_by_workers_records_the_same(tmp_path):
    def learner():
        return learner_of(METHODS["isolated"])

    whole = run(learner(), STREAM, tmp_path / "whole")
    for event in progress(learner(), STREAM, tmp_path / "cut"):
        if isinstance(event, Results) and len(event.accuracy) == 2:
            assert event.untold is None
            break
    assert run(learner(), STREAM, tmp_path / "cut").untold == whole.untold
    assert run(learner(), STREAM, workers=2).untold == whole.untold
    (tmp_path / "whole" / "results.json").unlink()
    assert run(learner(), STREAM, tmp_path / "whole").untold == whole.untold
    assert Results.load(tmp_path / "whole").untold == whole.untold


def test_er_shows_the_gap_and_a_zoo_that_infers_the_task_closes_much_of_it():
    digits = BENCHMARKS["split-digits"]()[:4]
    recipe = Recipe(epochs=3)
    er = run(METHODS["er"](backbone=mlp, recipe=recipe), digits).summary()
    assert er["average_accuracy"] > er["class_incremental_accuracy"] + 0.15
    assert er["class_incremental_inferred"] is er["class_incremental_statistics"] is None
    zoo = run(ModelZoo(backbone=mlp, recipe=recipe), digits).summary()
    assert zoo["average_accuracy"] > zoo["class_incremental_inferred"] > zoo["class_incremental_accuracy"]
    assert zoo["class_incremental_statistics"] > zoo["class_incremental_inferred"]


@pytest.mark.parametrize("chains", [1, 2])
def test_classes_of_all_tasks_are_compared_by_one_discriminant_as_by_hand(chains):
    zoo = learner_of(ModelZoo, grow=WarmStart(chains=chains))
    results = run(zoo, STREAM)
    trained = [member.net.eval() for member in zoo.members if member.trained]
    assert newest_nets(zoo) == [*reversed(trained)][:chains]

    def features(x):
        with torch.no_grad():
            return np.concatenate([net.backbone((x / 255 - 0.5) / 0.25) for net in newest_nets(zoo)], 1).astype(float)

    rows = {task.name: features(task.train.x.float()) for task in STREAM}
    means = [rows[task.name][task.train.y == label].mean(0) for task in STREAM for label in range(len(task.classes))]
    owners = [(task, label) for task in STREAM for label in range(len(task.classes))]
    within = np.concatenate(
        [rows[task.name][task.train.y == label] - mean for (task, label), mean in zip(owners, means, strict=True)]
    )
    scatter = within.T @ within / (len(within) - len(means))
    spread = scatter.diagonal()
    inverse = np.linalg.inv(scatter + np.diag(len(scatter) / len(within) * np.maximum(spread, 0.01 * spread.mean())))
    counts = [int((task.train.y == label).sum()) for task, label in owners]
    for task in STREAM:
        scores = []
        for mean, count in zip(means, counts, strict=True):
            away = features(task.test.x.float()) - mean
            scores.append(-((away @ inverse) * away).sum(1) / 2 + (inverse * scatter).sum() / count / 2 + np.log(count))
        right = [owners[place] == (task, int(y)) for place, y in zip(np.argmax(scores, 0), task.test.y, strict=True)]
        assert results.untold.statistics[task.name] == pytest.approx(np.mean(right))
    assert results.summary()["class_incremental_statistics"] == pytest.approx(
        np.mean([*results.untold.statistics.values()])
    )


def test_classes_are_compared_only_where_rows_of_every_task_are_stored_and_look_alike_for_each():
    assert run(learner_of(ModelZoo, replay=0.0), STREAM).untold.statistics is None
    with pytest.raises(DataError, match="replay"):
        AllClasses(learner_of(ModelZoo))
    tables = Benchmark("tables", tuple(replace(blobs(name), classes=(f"{name} a", f"{name} b")) for name in "xy"))
    zoo = learner_of(ModelZoo)
    assert run(zoo, tables).untold.statistics is None, "features are standardised by each task's own rows"
    with pytest.raises(DataError, match="standardised"):
        AllClasses(zoo)


def test_tasks_that_share_names_of_classes_have_no_such_measure():
    unnamed = Benchmark("unnamed", (blobs("one"), blobs("two")))
    assert run(learner_of(METHODS["fine-tune"]), unnamed).untold is None
    alike = Benchmark("alike", tuple(replace(task, classes=("a", "b")) for task in unnamed))
    assert run(learner_of(METHODS["fine-tune"], shared_head=True), alike).untold is None


def test_one_head_for_all_tasks_cannot_tell_them_apart():
    assert run(learner_of(METHODS["fine-tune"], shared_head=True), STREAM[0:3:2]).untold is None


def with_untold(run, inferred=None):
    return replace(run, untold=Untold({"0-1": 0.25, "2-3": 0.5}, inferred, 40))


def test_a_report_has_the_column_where_some_run_recorded_it():
    shown = report([with_untold(recorded()), recorded(method="er")])
    assert column(shown, "class incremental accuracy") == ["37.50", "-"]
    assert "class incremental inferred" not in shown.header
    assert CLASS_INCREMENTAL_NOTE in shown.notes
    assert not [name for name in report([recorded()]).header if "incremental" in name]


def test_a_single_run_tells_it_for_each_task_and_in_its_last_line():
    untold = Untold({"0-1": 0.25, "2-3": 0.5}, {"0-1": 0.5, "2-3": 0.75}, 40, {"0-1": 0.75, "2-3": 1.0})
    last = single_run(replace(recorded(), untold=untold)).splitlines()[-1]
    assert "(task inferred) 62.50, class-incremental (by statistics) 87.50" in last
    measured = with_untold(recorded(), {"0-1": 0.5, "2-3": 0.75})
    assert [row[4:] for row in per_task(measured).rows] == [("25.00", "50.00"), ("50.00", "75.00"), ("37.50", "62.50")]
    last = single_run(measured).splitlines()[-1]
    assert "class-incremental (not told) 37.50, class-incremental (task inferred) 62.50" in last


def test_figures_and_pages_show_it_beside_what_is_told():
    measured = with_untold(recorded(), {"0-1": 0.5, "2-3": 0.75})
    (section,) = sections([measured, recorded(method="er")])
    drawn = {series.name: list(series.y) for series in ranking(section).frames[""].panels[0].series}
    assert {name: values[0] for name, values in drawn.items()} == {
        "task told": pytest.approx(100 * measured.summary()["average_accuracy"]),
        "task not told": 37.5,
        "task inferred": 62.5,
    }
    assert drawn["task not told"][1] is None, "the other run has not recorded it"
    assert accuracies(section).header[:4] == ("method", "average accuracy", "task not told", "task inferred")
    assert [row[2:4] for row in accuracies(section).rows] == [("37.50", "62.50"), ("-", "-")]


def test_it_must_be_of_the_tasks_of_the_run():
    with pytest.raises(DataError, match="without the task told"):
        replace(recorded(), untold=Untold({"0-1": 0.5}, None, 0))
