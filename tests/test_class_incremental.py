"""Task not told: every class of every task is a candidate; measured beside what is told, and without touching it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from test_report import column
from test_report import run as recorded
from toys import SUBJECTS, benchmark, blobs, learner_of
from zoolearn import BENCHMARKS, METHODS, ModelZoo, Recipe, mlp
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
    assert er["class_incremental_inferred"] is None
    zoo = run(ModelZoo(backbone=mlp, recipe=recipe), digits).summary()
    assert zoo["average_accuracy"] > zoo["class_incremental_inferred"] > zoo["class_incremental_accuracy"]


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
