"""Chances that hold, by a temperature for each task that is fitted to held-out rows; and "none of these"."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import zoolearn
from toys import benchmark, blobs, contents, learner_of, row_set, show
from zoolearn import cli
from zoolearn.beyond.familiarity import Familiarity
from zoolearn.beyond.temperature import MOST, PRIOR_ROWS, apply_temperature, cross_fit_temperature, fit_temperature
from zoolearn.errors import SettingsError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.answers.none_of_these import fit_familiarity
from zoolearn.zoo.learning.scores import Scores
from zoos import HAZY, small_zoo

LOGITS = 2 * torch.randn(4000, 5, generator=torch.Generator().manual_seed(0))
TRUE = torch.softmax(LOGITS, dim=1)
LABELS = torch.multinomial(TRUE, 1, generator=torch.Generator().manual_seed(1))[:, 0]


def answers(sharpness):
    """What answers `sharpness` times as sure as they should be look like."""
    return torch.softmax(sharpness * LOGITS, dim=1)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_a_temperature_makes_answers_as_sure_as_they_are_right(sharpness):
    half = slice(0, 2000), slice(2000, None)
    temperature = fit_temperature(answers(sharpness)[half[0]], LABELS[half[0]])
    assert temperature == pytest.approx(sharpness, rel=0.15)
    judged = Scores.of(apply_temperature(answers(sharpness), temperature)[half[1]], LABELS[half[1]], tuple("abcde"))
    assert judged.calibration_error < 0.025
    assert judged.confidence == pytest.approx(judged.accuracy.value, abs=0.025)


def test_chances_judged_at_temperatures_of_other_rows_are_not_flattered():
    said, losses = answers(3.0), {"same rows": 0.0, "other rows": 0.0, "all there are": 0.0}
    for rows in torch.arange(4000).split(50):
        temperature = fit_temperature(said[rows], LABELS[rows])
        losses["same rows"] += log_loss(apply_temperature(said[rows], temperature), LABELS[rows])
        losses["other rows"] += log_loss(cross_fit_temperature(said[rows], LABELS[rows]), LABELS[rows])
        losses["all there are"] += log_loss(apply_temperature(said, temperature), LABELS)
    assert losses["same rows"] < losses["all there are"] < losses["other rows"]


def log_loss(chances, labels):
    return Scores.of(chances, labels, tuple("abcde")).log_loss


def test_few_rows_move_the_temperature_little_and_many_as_far_as_they_say():
    found = [fit_temperature(answers(3.0)[:rows], LABELS[:rows]) for rows in (3, PRIOR_ROWS, 2000)]
    assert 0.7 < found[0] < found[2]
    assert abs(found[1] - 1) < abs(found[2] - 1)
    right = answers(1.0).argmax(dim=1)
    assert fit_temperature(answers(1.0)[:5], right[:5]) > 0.7  # five rows that are all right are no proof


def test_answers_that_lean_to_one_class_are_not_made_surer_than_they_are_right():
    lean = torch.tensor([[0.49, 0.51]] * 40 + [[0.45, 0.55]] * 60)
    labels = torch.tensor([0] * 40 + [1] * 60)  # far apart in likelihood once sharpened, yet 40 of 100 are wrong
    said = apply_temperature(lean, fit_temperature(lean, labels))
    assert float(said.max(dim=1).values.mean()) <= 0.61


def test_answers_that_are_certain_and_always_right_stay_what_they_are():
    certain = torch.eye(3)[torch.tensor([0, 1, 2, 0])]
    assert torch.allclose(
        apply_temperature(certain, fit_temperature(certain, certain.argmax(dim=1))), certain, atol=1e-6
    )
    wrong = fit_temperature(certain, (certain.argmax(dim=1) + 1) % 3)
    assert wrong == pytest.approx(MOST, rel=1e-3)


def test_a_zoo_s_answers_have_the_temperature_that_its_held_out_rows_ask_for(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", HAZY[:2])
    for task in HAZY[:2]:
        votes = zoo.votes(task.test.x, task.name)
        mean = sum(votes.values()) / len(votes)
        temperature = zoo.measure(task.name).temperature
        assert temperature == pytest.approx(fit_temperature(mean, task.test.y), rel=1e-3)
        assert temperature != 1.0
        said = zoo.predict_proba(task.test.x, task.name)
        assert torch.allclose(said, apply_temperature(mean, temperature), atol=1e-6)
        apart = Scores.of(cross_fit_temperature(mean, task.test.y), task.test.y, task.classes)
        assert zoo.scores(task.name).log_loss == pytest.approx(apart.log_loss, abs=1e-5), "judged by other rows"
    assert apart.log_loss != pytest.approx(Scores.of(said, task.test.y, task.classes).log_loss, abs=1e-3), (
        "or it is the same"
    )


def test_few_held_out_rows_are_judged_at_the_temperature_of_all(tmp_path):
    (task,) = [replace(task, test=task.test.select(torch.arange(19))) for task in HAZY[:1]]
    zoo = small_zoo(tmp_path / "zoo", [task])
    scores = Scores.of(zoo.predict_proba(task.test.x, task.name), task.test.y, task.classes)
    assert zoo.scores(task.name).log_loss == pytest.approx(scores.log_loss, abs=1e-5)


def test_a_question_as_of_an_episode_is_answered_at_the_temperature_of_then(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", HAZY[:1])
    name, x = HAZY[0].name, HAZY[0].test.x
    before, files = zoo.predict_proba(x, name), contents(zoo.path)
    for task in HAZY[1:3]:
        zoo.learn(task)
    assert zoo.measure(name).temperature != zoo.temperature(name, at=1)
    assert torch.equal(zoo.predict_proba(x, name, at=1), before)
    zoo.undo()
    zoo.undo()
    assert torch.equal(zoo.predict_proba(x, name), before)
    assert {file for file in contents(zoo.path) if not file.startswith(("zoo.json", "index"))} <= files.keys()
    assert zoolearn.open(zoo.path).measure(name).temperature == zoo.measure(name).temperature


LEARNING = Recipe(epochs=8, batch_size=8, lr=0.05, device="cpu", augment="no")
NOISE = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def clear_zoo(tmp_path_factory):
    """Two tasks that are answered well, with enough held-out rows to say what is far."""
    return small_zoo(tmp_path_factory.mktemp("clear") / "zoo", CLEAR, recipe=LEARNING)


CLEAR = benchmark(3, test_per_class=30).tasks[:2]
STRANGER = benchmark(3, test_per_class=30)[2]


def test_what_a_zoo_is_sure_of_has_a_class_and_the_rest_is_none_of_these(clear_zoo):
    task = CLEAR[0]
    always = clear_zoo.predict(task.test.x, task.name)
    assert None not in always
    chances = clear_zoo.predict_proba(task.test.x, task.name).max(dim=1).values
    strange = clear_zoo.familiarity(task.name).strange(task.test.x)
    line = float(chances.median())
    wanted = [
        None if chance < line or odd else name
        for name, chance, odd in zip(always, chances.tolist(), strange.tolist(), strict=True)
    ]
    assert clear_zoo.predict(task.test.x, task.name, sure=line) == wanted
    assert 0 < wanted.count(None) < len(wanted)


def test_most_strangers_are_none_of_these_and_few_rows_of_the_task(clear_zoo):
    task = CLEAR[0]
    known, strangers = task.test.x, torch.cat([NOISE, STRANGER.test.x])
    assert clear_zoo.predict(known, task.name, sure=1e-9).count(None) <= 0.1 * len(known)
    assert clear_zoo.predict(strangers, task.name, sure=1e-9).count(None) > 0.6 * len(strangers)
    assert None not in clear_zoo.predict(strangers, task.name)


def test_what_is_taken_for_what_is_drawn_and_its_numbers_lie_beside_it(clear_zoo, tmp_path, capsys):
    name = CLEAR[0].name
    cli.main(["plot", str(clear_zoo.path), "--to", str(tmp_path), "--format", "svg", "--only", f"confusion {name}"])
    assert capsys.readouterr().out.split() == [str(tmp_path / f"confusion-{name}.svg")]
    rows = list(csv.DictReader((tmp_path / f"confusion-{name}.csv").open()))
    scores = clear_zoo.scores(name)
    told = {(row["class"], row["answered"]): float(row["% of the rows of a class"]) for row in rows}
    for true in scores.classes:
        assert told[true, true] == pytest.approx(100 * scores.of_class(true).value)
        assert sum(told[true, said] for said in scores.classes) == pytest.approx(100)


def test_answers_at_the_command_line_say_none_of_these_and_why(clear_zoo, tmp_path, capsys):
    name = CLEAR[0].name
    inputs = tmp_path / "inputs.npy"
    np.save(inputs, torch.cat([CLEAR[0].test.x, NOISE]).numpy())
    expected = clear_zoo.predict(torch.cat([CLEAR[0].test.x, NOISE]), name, sure=0.9)
    assert None in expected
    command = ["predict", str(clear_zoo.path), name, str(inputs), "--sure", "0.9"]
    cli.main([*command, "--json"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["class"] for row in told] == expected
    assert [row["none_of_these"] is None for row in told] == [label is not None for label in expected]
    assert {row["none_of_these"] for row in told} <= {None, "not sure", "strange"}
    cli.main([*command, "--csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["class"], row["none_of_these"]) for row in rows] == [
        (row["class"] or "", row["none_of_these"] or "") for row in told
    ]
    cli.main(command)
    lines = capsys.readouterr().out.splitlines()
    assert ["none of these" in line for line in lines] == [label is None for label in expected]
    with pytest.raises(SettingsError, match="it is the least chance of a class"):
        clear_zoo.predict(NOISE, name, sure=1.5)


def test_a_zoo_that_keeps_no_rows_compares_with_half_of_the_held_out_ones(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", CLEAR, recipe=LEARNING, replay=0.0)
    task = CLEAR[0]
    assert zoo.predict(NOISE, task.name, sure=1e-9).count(None) > 0.5 * len(NOISE)
    assert zoo.predict(task.test.x, task.name, sure=1e-9).count(None) < 0.2 * len(task.test)


def test_rows_that_stand_for_what_is_known_do_not_judge_and_other_tasks_are_compared(monkeypatch):
    given = []
    monkeypatch.setattr(Familiarity, "fit", lambda *parts: given.append(parts))
    held_out, others = blobs("a").test, blobs("b", seed=1).train
    fit_familiarity(learner_of(ModelZoo), "a", Recipe(), None, [others], held_out)
    ((*_, known, compared, judges),) = given
    assert row_set(known.x) | row_set(judges) == row_set(held_out.x)
    assert not row_set(known.x) & row_set(judges)
    assert [row_set(x) for x in compared] == [row_set(others.x)]


def test_a_row_that_is_no_number_to_the_net_is_strange():
    examples = blobs("a").train
    zoo = show(learner_of(ModelZoo), [blobs("a"), blobs("b", seed=1)])
    net = zoo.members[-1].net
    familiar = Familiarity.fit(net, "a", zoo.recipe, examples, [blobs("b", seed=1).train.x], blobs("a").test.x)
    far = torch.full((2, examples.x.shape[1]), 3e38)
    assert familiar.strange(far).tolist() == [True, True]
