"""A zoo on the features of a pre-trained net: nothing is trained, and all that a zoo of nets can do it does."""

import json
import pickle
import random
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import zoolearn
from extractors import toy_file
from servers import serving
from toys import contents
from zoolearn.beyond.stat_head import stat_head
from zoolearn.beyond.temperature import apply_temperature
from zoolearn.cli import main
from zoolearn.data.task import STEP, Examples, Task
from zoolearn.errors import DataError, SettingsError, StoreError
from zoolearn.features import extractor as of_features
from zoolearn.features.quantizing import quantize
from zoolearn.files import checksum
from zoolearn.seeds import derive, generator
from zoolearn.training.predict import probabilities
from zoolearn.training.step import Step
from zoolearn.zoo.auto_epochs import EpisodePlan
from zoolearn.zoo.disk.stored import load_row_names, load_task
from zoolearn.zoo.distilling import iter_distil_zoo
from zoolearn.zoo.estimator import ModelZooClassifier
from zoolearn.zoo.export import int8 as export_int8
from zoolearn.zoo.export.features import scale_head
from zoolearn.zoo.intake.extracting import Given
from zoolearn.zoo.refeaturing import iter_refeature
from zoos import TASKS as NETS
from zoos import alike, answers, small_zoo, stray_files

SIDE, FEATURES = 16, 24
KINDS = {"birds": ("crow", "gull", "wren"), "cars": ("van", "taxi"), "trees": ("ash", "elm", "fir", "oak")}


def pictures(kind, count, draw=0):
    """Noisy pictures of one kind."""
    look = torch.rand(1, 3, 4, 4, generator=generator(derive(0, kind)))
    noise = torch.rand(count, 3, 4, 4, generator=generator(derive(draw, "noise", kind)))
    return (255 * F.interpolate(0.7 * look + 0.3 * noise, size=(SIDE, SIDE))).to(torch.uint8)


def examples(kinds, count, draw):
    x = torch.cat([pictures(kind, count, draw) for kind in kinds])
    return Examples(x, torch.repeat_interleave(torch.arange(len(kinds)), count))


def task_of(name, count=8):
    return Task(name, examples(KINDS[name], count, 0), examples(KINDS[name], 20, 1), KINDS[name])


TASKS = [task_of(name) for name in KINDS]


@pytest.fixture(scope="session")
def extractor(tmp_path_factory):
    path = tmp_path_factory.mktemp("extractors") / "toy.onnx"
    path.write_bytes(toy_file(size=SIDE, features=FEATURES))
    return path


@pytest.fixture(scope="session")
def grown(extractor, tmp_path_factory):
    """Zoos that have learned the first 0, 1, 2 and 3 tasks."""
    folders = [tmp_path_factory.mktemp("zoos") / str(count) for count in range(len(TASKS) + 1)]
    zoolearn.new(folders[0], features=extractor)
    for task, before, after in zip(TASKS, folders, folders[1:], strict=False):
        shutil.copytree(before, after)
        zoolearn.open(after).learn(task)
    return folders


@pytest.fixture
def zoo(grown, tmp_path):
    """One that knows all tasks, to do anything to."""
    return zoolearn.open(shutil.copytree(grown[-1], tmp_path / "zoo"))


@pytest.fixture
def empty(grown, tmp_path):
    return zoolearn.open(shutil.copytree(grown[0], tmp_path / "zoo"))


def heads(zoo):
    """All heads, by task."""
    nets = {member.tasks[0]: zoo.net(member.number) for member in zoo.members}
    return {task: (net.head(task).weight, net.head(task).bias) for task, net in nets.items()}


def same_heads(one, other):
    return one.keys() == other.keys() and all(
        torch.equal(*pair) for task in one for pair in zip(one[task], other[task], strict=True)
    )


def test_tasks_are_answered_by_one_head_each_and_stored_as_features_of_16_bits(zoo):
    assert [zoo.measure(task.name).accuracy > 0.8 for task in TASKS] == [True, True, True]
    assert zoo.predict(TASKS[0].test.x[:1], "birds") == ["crow"]
    assert [zoo.measure(task.name).temperature for task in TASKS] == [1, 1, 1], "heads are calibrated by all rows"
    assert [member.tasks for member in zoo.members] == [("birds",), ("cars",), ("trees",)]
    assert all(0 < member.loss < np.log(len(task.classes)) for member, task in zip(zoo.members, TASKS, strict=True))
    stored = zoo.task("birds").train.x
    assert (stored.dtype, stored.shape) == (torch.int16, (24, FEATURES))
    lengths = (stored.double() * STEP).norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=0, atol=1e-3)
    assert torch.equal(zoo.predict_proba(zoo.task("birds").test.x, "birds"), answers(zoo, TASKS)["birds"])


def test_the_task_is_told_by_one_head_over_all_classes(zoo):
    rows = torch.cat([task.test.x for task in TASKS])
    wanted = [task.name for task in TASKS for _ in range(len(task.test))]
    found = zoo.recognise(rows, sure=0)
    assert np.mean([row.task == name for row, name in zip(found, wanted, strict=True)]) > 0.8
    assert all(sum(row.chances.values()) == pytest.approx(1, abs=1e-5) for row in found)
    confidence = np.mean([row.chance for row in found])
    assert confidence == pytest.approx(
        np.mean([row.task == name for row, name in zip(found, wanted, strict=True)]), abs=0.1
    )


def test_what_is_like_nothing_stored_is_strange(zoo):
    flat = torch.full((4, 3, SIDE, SIDE), 90, dtype=torch.uint8)
    assert [row.task for row in zoo.recognise(flat)] == [None] * 4
    assert all(row.strange for row in zoo.recognise(flat))
    own = [row.strange for task in TASKS for row in zoo.recognise(task.test.x)]
    assert np.mean(own) < 0.2


def test_what_tells_tasks_apart_is_made_once_until_rows_change(zoo):
    first = zoo.which_task()
    assert zoo.which_task() is first
    zoo.undo()
    assert zoo.which_task() is not first
    assert zoo.which_task().which.tasks == ("birds", "cars")


def test_undo_leaves_exactly_the_zoo_before(zoo, grown):
    zoo.undo()
    before = zoolearn.open(grown[2])
    assert zoo.index.files() == before.index.files()
    assert alike(answers(zoo, TASKS), answers(before, TASKS))
    assert stray_files(zoo) <= {".lock", ".reserve"}


def test_a_forgotten_task_leaves_the_bits_of_one_never_seen(zoo, grown, tmp_path):
    zoo.forget("birds")
    other = zoolearn.open(shutil.copytree(grown[0], tmp_path / "other"))
    for task in TASKS[1:]:
        other.learn(task)
    assert same_heads(heads(zoo), heads(other))
    ours, theirs = (each.which_task().which.evidence(zoo.task("cars").test.x) for each in (zoo, other))
    assert torch.equal(ours, theirs)
    assert {*zoo.index.files()} == {*other.index.files()}


def test_a_head_has_the_same_bits_whatever_the_order_of_rows(empty):
    task = TASKS[2]
    order = torch.randperm(len(task.train), generator=generator(3))
    empty.learn(Task("ordered", task.train, task.test, task.classes))
    empty.learn(Task("shuffled", task.train.select(order), task.test, task.classes))
    first, second = heads(empty).values()
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))


def test_the_extractor_lives_in_the_folder_and_is_recorded(zoo, extractor):
    record = zoo.settings.features
    kept = zoo.path / "extractors" / f"{record['sha256']}.onnx"
    assert kept.read_bytes() == extractor.read_bytes()
    assert f"extractors/{kept.name}" in zoo.index.files()
    assert (record["size"], record["num_features"], record["views"], record["step"]) == (SIDE, FEATURES, 2, STEP)
    assert len(record["probe"]) == FEATURES
    assert {"onnxruntime", "pillow"} <= record["versions"].keys()


def test_an_extractor_that_was_altered_is_refused_when_it_is_used(zoo):
    (path,) = (zoo.path / "extractors").iterdir()
    path.write_bytes(toy_file(seed=1, size=SIDE, features=FEATURES))
    again = zoolearn.open(zoo.path)
    with pytest.raises(StoreError, match="altered"):
        again.predict(TASKS[0].test.x[:1], "birds")
    assert [problem for problem in run_to_end(again.verify()) if "altered" in problem]


def test_an_extractor_whose_features_come_out_otherwise_here_is_refused(zoo, monkeypatch):
    right = of_features.embed_inputs
    monkeypatch.setattr(of_features, "embed_inputs", lambda *given: right(*given)[:, ::-1])
    with pytest.raises(StoreError, match="probe"):
        zoolearn.open(zoo.path).predict(TASKS[0].test.x[:1], "birds")


def run_to_end(work):
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def test_a_zoo_is_verified_with_its_extractor(zoo):
    assert run_to_end(zoo.verify()) == []
    (path,) = (zoo.path / "extractors").iterdir()
    path.unlink()
    assert any("extractors" in problem for problem in run_to_end(zoolearn.open(zoo.path).verify()))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replay": 0.5}, "replay is 0.5"),
        ({"tasks_per_episode": 5}, "tasks_per_episode is 5"),
        ({"epochs": 3}, "epochs is 3"),
        ({"backbone": "mlp"}, "backbone is 'mlp'"),
        ({"side": 32}, "side is 32"),
    ],
)
def test_settings_of_trainings_are_refused_and_nothing_is_made(extractor, tmp_path, settings, words):
    with pytest.raises(SettingsError, match=words):
        zoolearn.new(tmp_path / "zoo", features=extractor, **settings)
    assert not (tmp_path / "zoo").exists()


def test_a_file_that_is_no_extractor_is_refused_and_nothing_is_made(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"bad")
    for path, words in (("bad.onnx", "no ONNX file"), ("missing.onnx", "cannot be read")):
        with pytest.raises(DataError, match=words):
            zoolearn.new(tmp_path / "zoo", features=tmp_path / path)
    assert not (tmp_path / "zoo").exists()


@pytest.mark.parametrize("name", [f"{'n' * 200}.onnx", "net\N{NO-BREAK SPACE}v2.onnx"], ids=["long", "odd"])
def test_a_file_of_a_name_that_no_zoo_records_is_refused_before_it_is_used(extractor, tmp_path, name):
    path = shutil.copy(extractor, tmp_path / name)
    with pytest.raises(DataError, match="give it a name of 1 to 200 printable characters"):
        Given.of(path)
    with pytest.raises(DataError, match="a file or function of features is named"):
        zoolearn.new(tmp_path / "another", features=path)
    assert not (tmp_path / "another").exists()


def refused(zoo, task, error=DataError, **options):
    before = contents(zoo.path)
    with pytest.raises(error) as told:
        zoo.learn(task, **options)
    assert contents(zoo.path) == before
    return str(told.value)


def test_what_cannot_be_learned_is_refused_and_changes_nothing(zoo):
    rows = torch.rand(4, FEATURES), torch.tensor([0, 1, 0, 1])
    assert "(3, 16, 16) uint8" in refused(zoo, Task("floats", Examples(*rows), Examples(*rows)))
    black = Examples(torch.zeros(4, 3, SIDE, SIDE, dtype=torch.uint8), rows[1])
    assert "no features" in refused(zoo, Task("black", black, black))
    assert "nothing is trained" in refused(zoo, TASKS[0], SettingsError, epochs=3)


def test_heads_alone_are_what_it_makes_anyway(zoo, tmp_path):
    with pytest.raises(SettingsError, match="heads-only"):
        zoo.learn_from(
            "birds", save_pictures(tmp_path / "more", task_of("birds", 12)), heads_only=True, skip_known=True
        )


def test_a_function_of_ones_own_extracts_too_and_is_given_again_by_name(tmp_path):
    zoo = zoolearn.new(tmp_path / "zoo", features=small_copies, size=SIDE)
    zoo.learn(TASKS[0])
    assert zoo.measure("birds").accuracy > 0.6
    with pytest.raises(SettingsError, match=r"'small_copies'.*names="):
        zoolearn.open(zoo.path).predict(TASKS[0].test.x[:1], "birds")
    again = zoolearn.open(zoo.path, names={"small_copies": small_copies})
    assert alike(answers(zoo, TASKS), answers(again, TASKS))


def small_copies(batch):
    x = torch.from_numpy(np.ascontiguousarray(batch)).float()
    return F.avg_pool2d(x - 127, 4).flatten(1).numpy()


def save_pictures(folder, task):
    """One subfolder for each class."""
    for row, (x, label) in enumerate(zip(task.train.x, task.train.y, strict=True)):
        path = folder / task.classes[int(label)] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x.permute(1, 2, 0).numpy()).save(path)
    return folder


def origins(zoo, task, side):
    """The digests of files by their names."""
    found = {}
    for arrival in zoo.tasks[task].arrivals:
        rows = arrival.rows(side)
        names = json.loads(bytes(zoo.folder.tensor(rows.names).tolist()))
        found |= dict(zip(names, (bytes(id_.tolist()).hex() for id_ in zoo.folder.tensor(rows.ids)), strict=True))
    return found


def test_rows_of_files_know_their_file_and_its_path(empty, tmp_path):
    folder = save_pictures(tmp_path / "birds", TASKS[0])
    empty.learn_from("birds", folder)
    wanted = {str(path): checksum(path) for path in folder.rglob("*.png")}
    assert origins(empty, "birds", "train") | origins(empty, "birds", "test") == wanted
    assert empty.measure("birds").accuracy > 0.5


def test_reading_tells_how_far_it_is_from_the_first_picture_on(empty, tmp_path, monkeypatch):
    monkeypatch.setattr("zoolearn.zoo.inputs.source.PICTURES_AT_ONCE", 10)
    steps = [
        event
        for event in empty.iter_learn_from("birds", save_pictures(tmp_path / "birds", TASKS[0]))
        if isinstance(event, Step)
    ]
    assert [(step.done, step.total) for step in steps] == [(0, 24), (10, 24), (20, 24), (24, 24)]


def test_a_picture_of_two_tasks_is_held_out_in_both(empty, tmp_path):
    folder = save_pictures(tmp_path / "birds", TASKS[0])
    empty.learn_from("birds", folder)
    empty.learn_from("again", folder)
    first, second = (origins(empty, name, "test") for name in ("birds", "again"))
    assert first == second


@pytest.mark.parametrize("name", KINDS)
def test_an_exported_task_is_one_file_from_pictures_to_the_zoos_probabilities(zoo, tmp_path, name):
    made = zoo.export(name, tmp_path / "task.onnx")
    assert made.bytes == (tmp_path / "task.onnx").stat().st_size
    session = onnxruntime.InferenceSession(made.path, providers=["CPUExecutionProvider"])
    rows = next(task for task in TASKS if task.name == name).test.x
    for count in (1, 7):
        said = session.run(["probabilities"], {"inputs": rows[:count].numpy()})[0]
        assert said == pytest.approx(zoo.predict_proba(rows[:count], name).numpy(), abs=0.02)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(KINDS[name])


@pytest.mark.slow
def test_a_file_in_8_bits_is_measured_on_held_out_pictures_where_they_were(empty, tmp_path, capsys, monkeypatch):
    """With another net in place of the one in 8 bits: it costs a lot, and that is told."""
    other = toy_file(seed=9, size=SIDE, features=FEATURES)
    monkeypatch.setattr(export_int8, "quantize", lambda content, pictures: quantize(other, pictures))
    folder = save_pictures(tmp_path / "birds", task_of("birds", 12))
    empty.learn_from("birds", folder)
    main(["export", str(empty.path), "birds", "--int8", "--out", str(tmp_path / "small.onnx")])
    said = " ".join(capsys.readouterr().out.split())
    held = empty.tasks["birds"].rows_held_out
    wanted = f"accuracy {empty.measure('birds').accuracy:.1%} -> "
    assert wanted in said
    assert f"on {held} held-out pictures" in said
    assert "from the same head on features in 8 bits" in said
    session = onnxruntime.InferenceSession(tmp_path / "small.onnx", providers=["CPUExecutionProvider"])
    names, labels = load_row_names(empty.folder, empty.tasks["birds"], "test"), empty.task("birds").test.y
    pixels = np.stack([np.asarray(Image.open(name)).transpose(2, 0, 1) for name in names])
    right = session.run(["probabilities"], {"inputs": pixels})[0].argmax(1) == labels.numpy()
    assert f"-> {right.mean():.1%}" in said
    assert right.mean() < empty.measure("birds").accuracy
    assert b"QuantizeLinear" in (tmp_path / "small.onnx").read_bytes()
    Path(names[0]).unlink()
    with pytest.raises(DataError, match="1 file is gone"):
        empty.export("birds", tmp_path / "other.onnx", int8=True)
    empty.learn(TASKS[1])
    with pytest.raises(DataError, match="rows that were no files"):
        empty.export("cars", tmp_path / "other.onnx", int8=True)
    assert not (tmp_path / "other.onnx").exists()


def test_8_bits_are_refused_where_nets_were_trained(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", NETS[:1])
    with pytest.raises(SettingsError, match="int8 is for zoos on features"):
        zoo.export(NETS[0].name, tmp_path / "task.onnx", int8=True)


def test_pictures_of_another_kind_are_none_of_these(zoo):
    known, strangers = TASKS[0].test.x, torch.cat([pictures(kind, 20, 1) for kind in ("sofa", "lamp", "ash")])
    assert zoo.predict(known, "birds", sure=1e-9).count(None) <= 0.1 * len(known)
    assert zoo.predict(strangers, "birds", sure=1e-9).count(None) > 0.6 * len(strangers)


def test_an_exported_head_has_the_temperature_of_the_tasks_answers(zoo):
    net, rows = zoo.net(zoo.index.require_voters("birds")[-1].number), zoo.rows(TASKS[0].test.x)
    plain, warm = (probabilities(each, rows, "birds", zoo.recipe) for each in (net, scale_head(net, "birds", 2.0)))
    assert torch.allclose(warm, apply_temperature(plain, 2.0), atol=1e-5)
    assert not torch.allclose(warm, plain, atol=0.05)


def test_export_to_torch_is_refused(zoo, tmp_path):
    with pytest.raises(SettingsError, match="--to onnx"):
        zoo.export("birds", tmp_path / "task.pt2", "torch")
    assert not (tmp_path / "task.pt2").exists()


def test_the_command_line_makes_teaches_and_asks_one(extractor, tmp_path, capsys):
    folder, data = str(tmp_path / "shop"), save_pictures(tmp_path / "birds", TASKS[0])
    main(["new", folder, "--features", str(extractor)])
    assert "24 features of toy.onnx" in " ".join(capsys.readouterr().out.split())
    main(["learn", folder, "birds", str(data)])
    told = " ".join(capsys.readouterr().out.split())
    assert "nothing is trained" in told
    assert "episode 1: made a head for birds" in told
    main(["predict", folder, "birds", str(data / "crow"), "--json"])
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(said) == 8
    main(["show", folder])
    assert "features of toy.onnx" in " ".join(capsys.readouterr().out.split())
    main(["prune", folder])
    assert "ms per row: of the heads" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["new", str(tmp_path / "other"), "--features", str(extractor), "--tasks-per-episode", "5"])
    assert "tasks_per_episode is 5" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "other").exists()


def test_zoo_new_says_what_features_are_better_for_with_the_figures_of_the_guide(extractor, tmp_path, capsys):
    guide = (Path(__file__).parents[1] / "docs" / "features.md").read_text(encoding="utf-8")
    table = guide[guide.index("| inputs | rows a class | nets | features |") :].partition("\n\n")[0]
    measured = {tuple(row.split("|")[1:3]): row.split("|")[3:5] for row in table.splitlines()[2:]}
    (nets, features), (other_nets, other_features) = (
        [float(cell.strip("* ")) for cell in measured[f" `{name}` ", " 20 "]]
        for name in ("coarse-cifar100", "permuted-mnist")
    )
    assert features > nets
    assert other_nets > other_features
    figures = [f"{value:.1f}" for value in (features, nets, other_nets, other_features)]
    main(["new", str(tmp_path / "on features"), "--features", str(extractor)])
    told = capsys.readouterr().out
    assert re.findall(r"(\d+\.\d) %", told) == figures
    main(["new", str(tmp_path / "nets")])
    assert re.findall(r"(\d+\.\d) %", capsys.readouterr().out) == figures
    main(["new", str(tmp_path / "tables"), "--backbone", "tabular"])
    assert "%" not in capsys.readouterr().out


def test_the_estimator_takes_pictures_and_its_pickle_answers_alike(extractor):
    task = TASKS[0]
    x, y = task.train.x.permute(0, 2, 3, 1).numpy(), np.array(task.classes)[task.train.y.numpy()]
    at_once = ModelZooClassifier(features=extractor).fit(x, y)
    assert at_once.score(task.test.x.numpy(), np.array(task.classes)[task.test.y.numpy()]) > 0.8
    parts = ModelZooClassifier(features=extractor)
    for rows in (slice(0, 3), slice(3, 20), slice(20, None)):
        parts.partial_fit(x[rows], y[rows], classes=task.classes)
    again = pickle.loads(pickle.dumps(parts))
    assert np.array_equal(again.predict_proba(x), at_once.predict_proba(x))
    assert len(parts.learner_.members) == 1
    with pytest.raises(ValueError, match="uint8"):
        at_once.predict(x / 255)
    with pytest.raises(ValueError, match="count alike"):
        parts.partial_fit(x, y, sample_weight=np.ones(len(y)))


def test_a_zoo_on_features_is_served(zoo):
    rows = TASKS[0].test.x[:5]
    with serving(zoo.path) as client:
        said = client.post("/tasks/birds/predict", rows.numpy().tobytes(), "application/octet-stream").json
        told = client.post("/recognise?sure=0", rows.numpy().tobytes(), "application/octet-stream").json
    wanted = zoo.predict_proba(rows, "birds")
    assert [row["class"] for row in said["predictions"]] == zoo.predict(rows, "birds")
    answered = [list(row["probabilities"].values()) for row in said["predictions"]]
    torch.testing.assert_close(torch.tensor(answered), wanted, rtol=0, atol=1e-6)
    assert [row["task"] for row in told["recognitions"]] == [row.task for row in zoo.recognise(rows, sure=0)]


def test_there_is_nothing_to_distil(zoo, tmp_path):
    with pytest.raises(SettingsError, match="one head a task"):
        run_to_end(iter_distil_zoo(zoo, tmp_path / "small"))
    assert not (tmp_path / "small").exists()


def part_of(task, kinds, rows):
    """The same task with these classes, and these of the training rows of each."""

    def only(examples, rows):
        places = [(examples.y == task.classes.index(kind)).nonzero()[rows, 0] for kind in kinds]
        sizes = torch.tensor([len(own) for own in places])
        return Examples(examples.x[torch.cat(places)], torch.repeat_interleave(torch.arange(len(kinds)), sizes))

    return Task(task.name, only(task.train, rows), only(task.test, slice(None)), tuple(kinds))


def test_a_task_grown_by_rows_and_classes_has_the_bits_of_one_learned_at_once(empty):
    task = TASKS[2]
    empty.learn(part_of(task, ("fir", "ash"), slice(0, 5)))
    empty.learn(part_of(task, ("oak", "elm"), slice(0, 8)), new_classes="any")
    empty.learn(part_of(task, ("ash", "fir"), slice(5, 8)))
    empty.learn(replace(task, name="at once"))
    grown, at_once = empty.net(empty.members[-2].number).head("trees"), empty.net(4).head("at once")
    order = [task.classes.index(name) for name in empty.tasks["trees"].classes]
    assert order != sorted(order)
    assert torch.equal(grown.weight, at_once.weight[order])
    assert torch.equal(grown.bias, at_once.bias[order])
    assert [member.number for member in empty.index.voters("trees")] == [3]


def test_a_growth_says_of_how_many_rows_the_new_head_will_be(empty):
    task = TASKS[2]
    empty.learn(part_of(task, ("fir", "ash"), slice(0, 5)))
    events = [*empty.iter_learn(part_of(task, ("fir", "oak"), slice(5, 8)), new_classes=["oak"])]
    assert [event.rows for event in events if isinstance(event, EpisodePlan)] == [2 * 5 + 2 * 3]
    assert empty.tasks["trees"].rows_kept == 2 * 5 + 2 * 3


def test_undoing_a_growth_gives_the_vote_back(empty):
    task = TASKS[2]
    empty.learn(part_of(task, ("fir", "ash"), slice(0, 5)))
    before = empty.predict_proba(task.test.x, "trees")
    empty.learn(part_of(task, ("oak", "elm"), slice(0, 8)), new_classes="any")
    assert empty.predict_proba(task.test.x, "trees").shape[1] == 4
    assert torch.equal(empty.predict_proba(task.test.x, "trees", at=1), before)
    empty.undo()
    assert torch.equal(empty.predict_proba(task.test.x, "trees"), before)
    assert empty.tasks["trees"].classes == ("fir", "ash")


def rows_without(task, kinds=(), places=()):
    """The same task that never had these classes, nor these training rows."""
    left = [
        torch.tensor(
            [
                row
                for row, label in enumerate(examples.y.tolist())
                if task.classes[label] not in kinds and not (examples is task.train and row in places)
            ]
        )
        for examples in (task.train, task.test)
    ]
    names = tuple(name for name in task.classes if name not in kinds)
    parts = [
        Examples(examples.x[rows], torch.tensor([names.index(task.classes[label]) for label in examples.y[rows]]))
        for examples, rows in zip((task.train, task.test), left, strict=True)
    ]
    return Task(task.name, *parts, names)


def same_zoos(one, other):
    """Whether two zoos have the same rows, heads and votes: all files but the log and the times."""
    return one.index.files() == other.index.files() and one.index.measures == other.index.measures


def test_a_forgotten_class_leaves_the_bits_of_one_never_seen(zoo, grown, tmp_path):
    assert zoo.forget_class("trees", "elm") == 8 + 20
    other = zoolearn.open(shutil.copytree(grown[2], tmp_path / "other"))
    other.learn(rows_without(TASKS[2], kinds=("elm",)))
    assert zoo.tasks["trees"].classes == ("ash", "fir", "oak")
    assert same_zoos(zoo, other)
    assert same_heads(heads(zoo), heads(other))
    assert stray_files(zoo) <= {".lock", ".reserve"}
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_forgotten_rows_leave_the_bits_of_a_zoo_that_never_saw_them(empty, grown, tmp_path):
    folder = save_pictures(tmp_path / "birds", TASKS[0])
    held = save_pictures(tmp_path / "held", replace(TASKS[0], train=TASKS[0].test))
    unwanted = [folder / "crow" / "1.png", folder / "gull" / "9.png"]
    empty.learn_from("birds", folder, test=held)
    moved = tmp_path / "elsewhere.png"
    unwanted[0].rename(moved)
    assert empty.forget_rows([moved, unwanted[1]]) == 2
    unwanted[1].unlink()
    other = zoolearn.open(shutil.copytree(grown[0], tmp_path / "other"))
    other.learn_from("birds", folder, test=held)
    assert same_zoos(empty, other)
    content = b"".join(contents(empty.path).values())
    assert str(unwanted[0]).encode() not in content
    with pytest.raises(DataError, match=r"no stored row was made of .*elsewhere"):
        empty.forget_rows([moved])


def test_what_would_leave_no_task_is_refused(zoo):
    before = contents(zoo.path)
    with pytest.raises(DataError, match="fewer than two"):
        zoo.forget_class("cars", "van")
    with pytest.raises(DataError, match="unknown class 'lark'"):
        zoo.forget_class("birds", "lark")
    assert contents(zoo.path) == before


def test_rows_of_trained_members_are_not_forgotten_one_by_one(tmp_path):
    zoo = small_zoo(tmp_path / "zoo", [])
    for ask in (lambda: zoo.forget_class("a", "b"), lambda: zoo.forget_rows(["c"])):
        with pytest.raises(SettingsError, match=r"zoo correct FOLDER NAME FILE\.csv --purge"):
            ask()


KINDS_OF_ALL = [f"kind {number}" for number in range(12)]


def change_at_random(zoo, step, rng):
    """Grows, corrects, undoes or forgets something of the one task of a zoo; what would leave no task is refused."""
    known = zoo.tasks["all"].classes
    kind, new = rng.choice(known), next(name for name in KINDS_OF_ALL if name not in known)
    what = rng.choice(["rows", "class", "correct", "delete", "forget row", "forget class", "undo"])
    row = rng.randrange(zoo.tasks["all"].rows_kept)
    if what in ("rows", "class"):
        name = kind if what == "rows" else new
        arrived = Task("all", examples([name], 3, step), examples([name], 1, step + 50), (name,), part=True)
        zoo.learn(arrived, new_classes=[new] if what == "class" else ())
    elif what in ("correct", "delete"):
        with suppress(DataError):
            zoo.correct("all", {row + 1: kind if what == "correct" else None})
    elif what == "forget row":
        ids = [
            id_
            for arrival in zoo.tasks["all"].arrivals
            if arrival.train
            for id_ in zoo.folder.tensor(arrival.train.ids)
        ]
        made_of = zoo.path.parent / "picture"
        made_of.write_bytes(PICTURES_OF_ALL[bytes(rng.choice(ids).tolist())])
        with suppress(DataError):
            zoo.forget_rows([made_of])
    elif what == "forget class":
        with suppress(DataError):
            zoo.forget_class("all", kind)
    elif len(zoo.tasks["all"].arrivals) > 1:
        zoo.undo()
    return what


PICTURES_OF_ALL = {
    sha256(picture.numpy().tobytes()).digest(): picture.numpy().tobytes()
    for kind in KINDS_OF_ALL
    for draw in range(12)
    for picture in pictures(kind, 4, draw)
}


@pytest.mark.parametrize("seed", range(4))
def test_a_task_has_the_bits_of_its_rows_whatever_its_history(seed, grown, tmp_path):
    """Grown, corrected, undone and made to forget, in any order: each head is that of the rows that had come by then."""
    zoo, rng, first = zoolearn.open(shutil.copytree(grown[0], tmp_path / "zoo")), random.Random(seed), KINDS_OF_ALL[:3]
    zoo.learn(Task("all", examples(first, 4, 0), examples(first, 2, 50), tuple(first)))
    for step in range(1, 9):
        before = [*zoo.index.records]
        change_at_random(zoo, step, rng)
        if len(zoo.index.records) > len(before) and rng.random() < 0.5:
            zoo.undo()
            assert [*zoo.index.records] == before, "undo gives what was before"
    for member in zoo.members:
        left = load_task(zoo.folder, zoo.tasks["all"].as_of(member.episode))
        wanted = stat_head(left.train.x, left.train.y, len(left.classes))
        found = zoo.net(member.number).head("all")
        assert torch.equal(found.weight, wanted.weight.float())
        assert torch.equal(found.bias, wanted.bias.float())
    entry, rows = zoo.tasks["all"], zoo.task("all").train
    counted = torch.bincount(rows.y, minlength=len(entry.classes)).tolist()
    assert entry.arrived == dict(zip(entry.classes, counted, strict=True))
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []
    assert stray_files(zoo) <= {".lock", ".reserve"}


@pytest.fixture(scope="session")
def other_extractor(tmp_path_factory):
    path = tmp_path_factory.mktemp("extractors") / "wider.onnx"
    path.write_bytes(toy_file(seed=3, size=12, features=30))
    return path


@pytest.fixture
def filed(empty, tmp_path):
    """A zoo that has learned from files, grown and been corrected."""
    more = save_pictures(tmp_path / "more", replace(task_of("birds", 20), train=examples(KINDS["birds"], 3, 7)))
    empty.learn_from("birds", save_pictures(tmp_path / "birds", TASKS[0]), test=more)
    empty.learn_from("trees", save_pictures(tmp_path / "trees", TASKS[2]))
    empty.learn_from("birds", save_pictures(tmp_path / "new", replace(TASKS[0], train=examples(KINDS["birds"], 4, 9))))
    empty.correct("birds", {1: "wren"})
    return empty


def records_of(zoo):
    """All files and records of a zoo, beside its head and its log."""
    found = contents(zoo.path)
    kept = {name: content for name, content in found.items() if not name.startswith(("zoo.json", "index/"))}
    return kept, found[f"index/{json.loads(found['zoo.json'])['episodes']['file']}"], zoo.settings


def test_a_zoo_on_other_features_is_as_if_learned_on_them_and_undo_gives_the_one_before(
    filed, other_extractor, tmp_path, capsys
):
    before, labels = records_of(filed), filed.task("birds").train.y
    main(["refeature", str(filed.path), "--features", str(other_extractor)])
    assert "birds" in capsys.readouterr().out
    wide = zoolearn.open(filed.path)
    assert wide.settings.features["num_features"] == 30
    for member in wide.members:
        task = load_task(wide.folder, wide.tasks[member.tasks[0]].as_of(member.episode))
        wanted = stat_head(task.train.x, task.train.y, len(task.classes))
        assert torch.equal(wide.net(member.number).head(task.name).weight, wanted.weight.float())
    assert torch.equal(wide.task("birds").train.y, labels)
    assert run_to_end(wide.verify()) == []
    picture = next((tmp_path / "trees").rglob("*.png"))
    stored = torch.cat([wide.task("trees").train.x, wide.task("trees").test.x])
    assert (stored == wide.rows(picture)).all(dim=1).any()
    assert wide.test("birds", tmp_path / "new").seen > 0, "copies are found by the new features"
    main(["undo", str(filed.path)])
    assert "features of toy.onnx" in " ".join(capsys.readouterr().out.split())
    again = zoolearn.open(filed.path)
    assert records_of(again) == before
    assert [line.did for line in again.folder.read_log()][-2:] == ["refeatured", "undone"]


@pytest.fixture(scope="session")
def twin(tmp_path_factory):
    """Another extractor, whose features look like those of the first."""
    path = tmp_path_factory.mktemp("extractors") / "twin.onnx"
    path.write_bytes(toy_file(seed=5, size=SIDE, features=FEATURES))
    return Given.of(path)


@pytest.mark.parametrize("change", ["learn", "forget"])
def test_the_next_change_lets_the_zoo_before_go(filed, twin, change):
    first = filed.settings
    run_to_end(iter_refeature(filed, twin))
    files = filed.index.before.files()
    assert first.files < files < filed.index.files()
    if change == "learn":
        filed.learn(TASKS[1])
    else:
        filed.forget_class("trees", "elm")
    assert {name for name in files if (filed.path / name).exists()} <= filed.index.files()
    assert not first.files & filed.index.files()
    assert stray_files(filed) <= {".lock", ".reserve"}
    filed.undo()
    assert filed.settings.features["name"] == "twin.onnx"


def test_features_of_two_extractors_are_not_mixed_by_who_opened_the_zoo_before(filed, twin):
    writer, reader = zoolearn.open(filed.path), zoolearn.open(filed.path)
    assert reader.extractor.name == writer.extractor.name == "toy.onnx"
    run_to_end(iter_refeature(filed, twin))
    writer.learn(TASKS[1])
    assert torch.equal(writer.task("cars").train.x, zoolearn.open(filed.path).rows(TASKS[1].train.x))
    with pytest.raises(StoreError, match="other features meanwhile; ask again"):
        reader.predict(TASKS[0].test.x, "birds")
    assert reader.predict(TASKS[0].test.x, "birds") == writer.predict(TASKS[0].test.x, "birds")


def test_files_that_are_gone_or_changed_stop_it_before_anything_is_made(empty, twin, tmp_path):
    folder = save_pictures(tmp_path / "birds", TASKS[0])
    empty.learn_from("birds", folder)
    before = contents(empty.path)
    path = folder / "crow" / "2.png"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(DataError, match=r"1 file is gone.*2\.png"):
        run_to_end(iter_refeature(empty, twin))
    Image.new("RGB", (SIDE, SIDE), "red").save(path)
    with pytest.raises(DataError, match="no longer the file"):
        run_to_end(iter_refeature(empty, twin))
    assert records_of(zoolearn.open(empty.path)) == records_of(empty)
    assert {name: content for name, content in contents(empty.path).items() if name in before} == before
    assert stray_files(zoolearn.open(empty.path)) <= {".lock", ".reserve"}
    path.write_bytes(content)
    run_to_end(iter_refeature(empty, twin))
    with pytest.raises(SettingsError, match="already"):
        run_to_end(iter_refeature(empty, twin))
    kept = json.loads((empty.path / "zoo.json").read_text())["before"]["episodes"]["file"]
    journal = empty.path / "index" / kept
    journal.write_bytes(journal.read_bytes().replace(b"birds", b"words"))
    with pytest.raises(StoreError, match="was altered"):
        zoolearn.open(empty.path).undo()
