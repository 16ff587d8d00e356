"""A zoo folder: the same zoo in any process, past states exact, one commit per change, kept rows and no others."""

import os
import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

import zoolearn
from disks import watched_disk
from toys import TINY, blobs, contents, learner_of, pictures
from zoolearn import cli
from zoolearn.beyond.temperature import apply_temperature
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.task import Task
from zoolearn.errors import DataError, SettingsError, StoreError, UnknownTask
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.parts.weighing import uniform
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.training.fit import Progress, run_to_end
from zoolearn.training.recipe import Recipe
from zoolearn.zoo import Zoo
from zoolearn.zoo.adoption import iter_adopt
from zoolearn.zoo.disk import journal
from zoolearn.zoo.distilling import iter_distil_zoo
from zoolearn.zoo.settings import ZooSettings
from zoos import HAZY, TASKS, alike, answers, index_files, small_zoo, stray_files

pytestmark = pytest.mark.slow  # zoos are grown


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "settings", [{}, {"replay": 0.5}, {"replay": 0.0}, {"weigh": uniform}, {"tasks_per_episode": 1}]
)
def test_a_zoo_that_is_reopened_before_every_task_equals_one_that_was_never_closed(tmp_path, settings) -> None:
    learner = learner_of(ModelZoo, **{"tasks_per_episode": 3, **settings})
    zoo = small_zoo(tmp_path / "zoo", TASKS, **settings)
    for task in TASKS:
        learner.learn(task)
    assert zoo.tasks.keys() == learner.classes.keys()
    for task in TASKS:
        votes = learner.predict_proba(task.test.x, task.name)
        assert torch.equal(
            zoo.predict_proba(task.test.x, task.name), apply_temperature(votes, zoo.measure(task.name).temperature)
        )
    assert [dict(member.share) for member in zoo.members] == [
        {name: vote.weight for name, vote in member.votes.items()} for member in learner.members
    ]
    assert run_to_end(zoo.verify()) == []
    assert not stray_files(zoo)


def test_new_names_every_setting_of_a_zoo_and_of_its_recipe_in_its_signature(tmp_path) -> None:
    named = signature(zoolearn.new).parameters
    assert {"folder", "features", "size", "backbone", "replay", "side", "grey", "epochs", "lr"} <= named.keys()
    assert named["epochs"].default is None
    assert named["replay"].default == ZooSettings().replay
    for name in named.keys() - {"folder", "features", "size"}:
        assert ZooSettings.choose(**{name: named[name].default}) == ZooSettings.choose()


def test_what_takes_long_can_be_done_step_by_step_or_at_once_with_the_same_arguments() -> None:
    for name in ("learn", "learn_from", "correct", "purge", "forget", "test"):
        whole, steps = (signature(getattr(Zoo, each)) for each in (name, f"iter_{name}"))
        assert whole.parameters == steps.parameters
        assert get_args(steps.return_annotation)[-1] is whole.return_annotation


def test_features_are_learned_with_settings_that_suit_them(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo", epochs=15)
    learned = zoo.learn(blobs("blobs", classes=3))
    assert zoo.settings.backbone == "tabular"
    assert zoo.settings.shape == (6,)
    assert learned.after["blobs"].accuracy > 0.9
    assert zoo.predict(blobs("blobs", classes=3).test.x[:2], "blobs") == ["0", "1"]


def test_a_zoo_made_for_a_gpu_learns_and_answers_where_there_is_none(tmp_path) -> None:
    settings = ZooSettings.choose(backbone=mlp_100, recipe=TINY)
    elsewhere = replace(settings, recipe={**settings.recipe, "device": "cuda"})
    zoo = Zoo.create(tmp_path / "zoo", elsewhere)
    for task in TASKS[:2]:
        zoo.learn(task)
    assert zoo.predict_proba(TASKS[0].test.x, TASKS[0].name).shape == (20, 2)
    assert zoo.settings.recipe["device"] == "cuda"


def test_the_past_is_exact(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    states = [answers(zoo)]
    for task in TASKS[1:]:
        zoo.learn(task)
        states.append(answers(zoo))
    for episode, state in enumerate(states, start=1):
        assert alike(answers(zoo, TASKS[:episode], at=episode), state)
    with pytest.raises(UnknownTask, match="learned in episode 2; it can be asked as of 2 to 4, not 1"):
        zoo.predict_proba(TASKS[1].test.x, TASKS[1].name, at=1)


def test_undo_leaves_exactly_the_zoo_before_and_learning_again_leads_to_the_same_place(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo")
    before, files = answers(zoo), set(contents(zoo.path))
    zoo.learn(TASKS[3])
    after = answers(zoo)
    assert zoo.undo() == TASKS[3].name
    assert alike(answers(zoolearn.open(zoo.path)), before)
    assert set(contents(zoo.path)) == files
    zoo.learn(TASKS[3])
    assert alike(answers(zoo), after)
    for _ in range(4):
        zoo.undo()
    with pytest.raises(DataError, match="nothing yet"):
        zoo.undo()
    assert stray_files(zoo) == set()


def test_undo_takes_the_accuracies_back_too(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY[:1])
    measures = [dict(zoo.index.measures)]
    for task in HAZY[1:]:
        zoo.learn(task)
        measures.append(dict(zoo.index.measures))
    assert all(0.2 < measure.accuracy < 1 for measure in measures[-1].values()), "there is something to tell apart"
    moved = [name for name in measures[2] if measures[3][name].accuracy != measures[2][name].accuracy]
    assert moved, "the last episode changed what is known of an earlier task"
    for before in reversed(measures[:-1]):
        zoo.undo()
        assert zoo.index.measures == before
        for task in HAZY[: len(before)]:
            said = zoo.predict_proba(task.test.x, task.name)
            assert zoo.measure(task.name).accuracy == zoolearn.accuracy(said, task.test.y)


def test_only_the_kept_share_is_stored_and_what_two_tasks_share_is_there_once(tmp_path) -> None:
    task = TASKS[0]
    zoo = small_zoo(tmp_path / "kept", [task], replay=0.25)
    entry = zoo.tasks[task.name]
    assert entry.rows_kept == len(task.train) // 4
    assert entry.rows_held_out == len(task.test)
    twice = small_zoo(tmp_path / "twice", [task, replace(task, name="again")])
    assert len(list((twice.path / "data").iterdir())) == len({part.digest for part in twice.tasks[task.name].stored})


@pytest.mark.parametrize("replay", [1.0, 0.5])
def test_the_measures_are_those_of_the_answers(tmp_path, replay) -> None:
    zoo = small_zoo(tmp_path / "zoo", HAZY, replay=replay)
    assert len({zoo.measure(task.name).accuracy for task in HAZY}) > 2
    for task in HAZY:
        said = zoo.predict_proba(task.test.x, task.name)
        assert zoo.measure(task.name).accuracy == zoolearn.accuracy(said, task.test.y)
        assert zoo.measure(task.name).confidence == pytest.approx(float(said.max(dim=1).values.mean()))


def test_a_reader_follows_a_growing_zoo_and_survives_a_shrinking_one(tmp_path) -> None:
    writer = small_zoo(tmp_path / "zoo")
    reader = zoolearn.open(writer.path)
    assert not reader.refresh()
    writer.learn(TASKS[3])
    assert TASKS[3].name not in reader.tasks
    assert reader.refresh()
    assert reader.generation == writer.generation
    assert alike(answers(reader), answers(writer))
    stale = zoolearn.open(writer.path)
    writer.undo()
    writer.forget(TASKS[0].name)
    assert alike(answers(stale, TASKS[1:2]), answers(writer, TASKS[1:2])), "files that are gone make it look again"


def test_a_reader_stays_in_the_state_of_its_first_look_and_begins_in_a_whole_one(tmp_path) -> None:
    writer = small_zoo(tmp_path / "zoo", TASKS[:2])
    looked, late = zoolearn.open(writer.path), zoolearn.open(writer.path)
    before = {name: looked.measure(name) for name in looked.tasks}
    again = zoolearn.open(writer.path)
    assert [*again.tasks] == [*before]  # its measures are asked for later
    writer.undo()
    writer.learn(TASKS[3])
    assert {name: again.measure(name) for name in again.tasks} == before
    assert [*late.tasks] == [TASKS[0].name, TASKS[3].name], "the lines that it was opened with are others now"
    assert {name: late.measure(name) for name in late.tasks} == {name: writer.measure(name) for name in writer.tasks}


def test_undo_reads_single_episodes_and_never_the_whole_index(tmp_path, monkeypatch) -> None:
    zoo, read = small_zoo(tmp_path / "zoo", TASKS[:3]), []
    whole = journal.read_part

    def watched(path: Path, start: int, end: int) -> bytes:
        read.append((path.name.partition("-")[0], end - start))
        return whole(path, start, end)

    monkeypatch.setattr(journal, "read_part", watched)
    lines = [*map(len, (zoo.path / "index/episodes-1.jsonl").read_bytes().splitlines(keepends=True))]
    zoolearn.open(zoo.path).undo()
    sizes = {size for kind, size in read if kind == "episodes"}
    assert lines[-1] in sizes, "what is taken back"
    assert sizes <= {*lines}, "and episodes that share a file with it"


def test_a_class_is_named_as_in_the_state_that_answered(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    reader = zoolearn.open(zoo.path)
    zoo.forget(TASKS[1].name)
    zoo.learn(replace(TASKS[1], classes=("a", "b", "c")))
    assert set(reader.predict(TASKS[1].test.x, TASKS[1].name)) <= {"a", "b", "c"}


def test_a_second_writer_is_told_who_holds_the_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.zoo.disk.folder.PATIENCE", 0.0)
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    script = "import sys; from pathlib import Path; from zoolearn.locks import lock_folder\n"
    script += "with lock_folder(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(zoo.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(StoreError, match=f"in use by process {other.pid} on"),
            zoo.folder.begin_change(patience=0.0),
        ):
            pass
        assert alike(answers(zoolearn.open(zoo.path)), answers(zoo)), "readers need no lock"
        other.stdin.close()
    zoo.learn(TASKS[1])


def test_a_training_that_was_cut_is_taken_up_where_it_was(tmp_path, monkeypatch) -> None:
    recipe = replace(TINY, epochs=6)
    whole = small_zoo(tmp_path / "whole", TASKS[:2], recipe=recipe)
    cut = small_zoo(tmp_path / "cut", TASKS[:1], recipe=recipe)
    for progress in cut.iter_learn(TASKS[1]):
        if isinstance(progress, Progress) and progress.epoch == 5:
            break
    assert contents(cut.path / "checkpoints")
    steps = [event for event in zoolearn.open(cut.path).iter_learn(TASKS[1]) if isinstance(event, Progress)]
    epochs = [progress.epoch for progress in steps]
    assert min(epochs) >= 5, "the first four epochs are not done again"
    assert alike(answers(zoolearn.open(cut.path)), answers(whole))
    assert not stray_files(zoolearn.open(cut.path))


@pytest.mark.parametrize("other", [{"seed": 9}, {"augment": ("flip",)}])
def test_a_checkpoint_is_never_taken_up_by_other_data_or_another_augmentation(tmp_path, other) -> None:
    recipe = replace(TINY, epochs=6)
    other = pictures("dots", classes=3, **other)
    expected = small_zoo(tmp_path / "expected", [TASKS[0], other], recipe=recipe)
    cut = small_zoo(tmp_path / "cut", TASKS[:1], recipe=recipe)
    for progress in cut.iter_learn(pictures("dots", classes=3)):
        if isinstance(progress, Progress) and progress.epoch == 5:
            break
    cut.learn(other)
    assert alike(answers(cut, [TASKS[0], other]), answers(expected, [TASKS[0], other]))


def test_mistakes_are_named(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    with pytest.raises(DataError, match="stored in task 'stripes' already"):
        zoo.learn(TASKS[0])
    with pytest.raises(DataError, match=r"takes \(1, 8, 8\)"):
        zoo.learn(pictures("big", shape=(1, 9, 9)))
    with pytest.raises(UnknownTask, match="did you mean 'stripes'"):
        zoo.predict(TASKS[0].test.x, "stripe")
    with pytest.raises(DataError, match="this zoo takes"):
        zoo.predict(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), "stripes")
    with pytest.raises(StoreError, match="holds a zoo already"):
        zoolearn.new(zoo.path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(StoreError, match=r"thesis\.tex"):
        zoolearn.new(tmp_path / "full")
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "cat.png").touch()
    with pytest.raises(StoreError, match="holds 'data' but no zoo"):
        zoolearn.new(tmp_path / "mine")
    for name in ("\x1b[31mred", "\N{RIGHT-TO-LEFT OVERRIDE}gnp", "\N{ZERO WIDTH SPACE}", "\N{ZERO WIDTH JOINER} "):
        with pytest.raises(DataError, match="printable"):
            zoo.learn(replace(TASKS[1], name=name))


def test_names_are_spelled_with_joiners_as_persian_and_emoji_want_them(tmp_path, capsys) -> None:
    task = "\u0645\u06cc\N{ZERO WIDTH NON-JOINER}\u062e\u06a9"
    farmers = ("\N{MAN}\N{ZERO WIDTH JOINER}\N{EAR OF RICE}", "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{EAR OF RICE}")
    zoo = small_zoo(tmp_path / "zoo", [replace(TASKS[0], name=task, classes=farmers)])
    assert zoolearn.open(zoo.path).tasks[task].classes == farmers
    assert {*zoo.predict(TASKS[0].test.x, task)} <= {*farmers}
    cli.main(["log", str(zoo.path)])
    assert task in capsys.readouterr().out


def test_names_that_differ_by_what_cannot_be_seen_are_refused(tmp_path) -> None:
    joiner = "\N{ZERO WIDTH JOINER}"
    zoo = small_zoo(tmp_path / "zoo", [replace(TASKS[0], name="heron")])
    zoo.learn(replace(TASKS[1], name="egret"))
    before = zoolearn.open(zoo.path).generation
    for name, why in ((f"heron{joiner}", r"joiners around it; name it 'heron'"), (f"he{joiner}ron", "joiners alone")):
        with pytest.raises(DataError, match=why):
            zoo.learn(replace(TASKS[2], name=name))
        with pytest.raises(DataError, match=why):
            zoo.learn_from(name, saved(tmp_path / "rows.npz"))
        with pytest.raises(DataError, match=why):
            zoo.rename("egret", name)
    classes = (f"up{joiner}", "down")
    with pytest.raises(DataError, match=r"a class is named .*joiners around it; name it 'up'"):
        zoo.learn(replace(TASKS[2], classes=classes))
    with pytest.raises(DataError, match=r"a class is named .*joiners around it; name it 'up'"):
        zoo.learn_from("new", saved(tmp_path / "rows.npz", classes))
    assert zoolearn.open(zoo.path).generation == before
    zoo.rename("heron", f"he{joiner}ron")
    assert [*zoolearn.open(zoo.path).tasks] == [f"he{joiner}ron", "egret"], "a task may be spelled otherwise"


def saved(path: Path, classes: tuple[str, ...] = ("up", "down")) -> Path:
    task = TASKS[2]
    np.savez(path, x=task.train.x.numpy(), y=np.array(classes)[task.train.y.numpy()])
    return path


def test_columns_are_named_with_joiners_in_every_later_command_too(tmp_path, capsys) -> None:
    column = "\u0645\u06cc\N{ZERO WIDTH NON-JOINER}\u062e"
    (tmp_path / "rows.csv").write_text(f"{column},label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(20)))
    zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
    zoo.learn_from("nails", tmp_path / "rows.csv")
    assert zoolearn.open(zoo.path).settings.columns == (column,)
    cli.main(["show", str(zoo.path)])
    assert "nails" in capsys.readouterr().out
    cli.main(["undo", str(zoo.path)])
    assert not zoolearn.open(zoo.path).tasks


def test_a_run_and_a_zoo_are_each_told_from_the_other(tmp_path) -> None:
    small_zoo(tmp_path / "zoo", TASKS[:1])
    zoolearn.run(zoolearn.Isolated(backbone=mlp_100, recipe=TINY), TASKS[:1], out=tmp_path / "run")
    with pytest.raises(StoreError, match=r"zoo is a zoo, not the folder of a run; open it with `zoolearn\.open`"):
        zoolearn.load(tmp_path / "zoo")
    with pytest.raises(StoreError, match=r"run is the folder of a run, not a zoo; load it with `zoolearn\.load`"):
        zoolearn.open(tmp_path / "run")


def test_a_learner_answers_with_indices_and_a_zoo_with_names(tmp_path) -> None:
    task = HAZY[0]
    zoo = small_zoo(tmp_path / "zoo", [task])
    learner = zoolearn.ModelZoo(backbone=mlp_100, recipe=TINY, tasks_per_episode=3)
    learner.learn(task)
    indices, named = learner.predict(task.test.x, task.name), zoo.predict(task.test.x, task.name)
    assert [learner.classes[task.name][index] for index in indices.tolist()] == named
    assert len({*named}) > 1


def test_a_distillation_that_was_stopped_is_done_by_the_same_command(tmp_path, monkeypatch) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    stopped = iter_distil_zoo(zoo, tmp_path / "small")
    next(stopped)
    stopped.close()
    monkeypatch.setattr("zoolearn.zoo.distilling.measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_to_end(iter_distil_zoo(zoo, tmp_path / "small"))
    monkeypatch.undo()
    assert contents(tmp_path / "small")
    with pytest.raises(StoreError, match="holds no zoo"):
        zoolearn.open(tmp_path / "small")
    small = run_to_end(iter_distil_zoo(zoo, tmp_path / "small", epochs=1))
    assert run_to_end(small.verify()) == []
    assert not stray_files(small)
    with pytest.raises(StoreError, match="holds a zoo already"):
        next(iter_distil_zoo(zoo, tmp_path / "small"))


def test_a_zoo_in_a_folder_of_an_odd_name_is_distilled_and_the_log_shows_the_name_as_far_as_it_can_be(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "my\N{NO-BREAK SPACE}zoo", TASKS[:1])
    small = run_to_end(iter_distil_zoo(zoo, tmp_path / "small", epochs=1))
    assert "distilled from my?zoo" in [line.detail for line in small.folder.read_log()]


def test_what_is_wrong_with_an_index_that_is_in_no_file_yet_is_not_said_of_a_file(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
    with (
        pytest.raises(StoreError, match="the log is not printable; nothing was changed"),
        zoo.folder.begin_change() as index,
    ):
        zoo.folder.commit(index.with_log("made\N{NO-BREAK SPACE}again", "now"))


def test_rows_that_were_altered_are_not_copied_into_a_distilled_zoo(tmp_path) -> None:
    zoo = small_zoo(tmp_path / "zoo")
    victim = zoo.path / "data" / f"{zoo.tasks[TASKS[0].name].arrivals[0].test.x.digest}.bin"
    victim.write_bytes(bytes(victim.stat().st_size))
    with pytest.raises(StoreError, match=f"{victim.name} was altered"):
        run_to_end(iter_distil_zoo(zoo, tmp_path / "small"))
    assert not (tmp_path / "small" / "zoo.json").exists()


def test_a_full_disk_ends_a_distillation_by_name(tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    monkeypatch.setattr("zoolearn.zoo.disk.folder.shutil.copyfileobj", full)
    monkeypatch.setattr("zoolearn.zoo.disk.folder.shutil.copyfile", full)
    with pytest.raises(StoreError, match="small/data: No space left on device"):
        run_to_end(iter_distil_zoo(zoo, tmp_path / "small"))


def test_a_run_whose_adoption_was_stopped_is_adopted_by_the_same_command(tmp_path) -> None:
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "2"]
    cli.main(["run", "model-zoo", *words, "--out", str(tmp_path / "run")])
    stopped = iter_adopt(tmp_path / "zoo", tmp_path / "run")
    assert [next(stopped).done, next(stopped).done] == [0, 1]
    stopped.close()
    zoo = run_to_end(iter_adopt(tmp_path / "zoo", tmp_path / "run"))
    assert len(zoo.tasks) == 2
    assert run_to_end(zoo.verify()) == []
    assert not stray_files(zoo)


def test_a_run_that_was_adopted_is_retrained_as_the_zoo_that_learned_the_same(tmp_path) -> None:
    tasks = zoolearn.benchmark("split-digits")[:3]
    words = ["split-digits", "--backbone", "mlp-100", "--epochs", "1", "--first-tasks", "3", "--device", "cpu"]
    cli.main(["run", "model-zoo", *words, "--out", str(tmp_path / "run")])
    adopted = run_to_end(iter_adopt(tmp_path / "adopted", tmp_path / "run"))
    same = {"recipe": Recipe(epochs=1, device="cpu"), "tasks_per_episode": 5, "balance": 0.0}
    learned = small_zoo(tmp_path / "learned", tasks, **same)
    assert [member.seed for member in adopted.members] == [member.seed for member in learned.members]
    for zoo in (adopted, learned):
        assert zoo.forget("0-1").retrained == (2, 3)
    for task in tasks[1:]:
        said = [zoo.predict_proba(task.test.x, task.name) for zoo in (adopted, learned)]
        assert torch.allclose(*said, atol=1e-5)


@pytest.mark.parametrize("mask", [0o002, 0o027])
def test_every_file_may_be_read_by_whom_the_umask_lets(tmp_path, mask) -> None:
    before = os.umask(mask)
    try:
        zoo = small_zoo(tmp_path / "zoo", TASKS[:2], grow=WarmStart())
    finally:
        os.umask(before)
    files = [zoo.path / name for name in (*zoo.index.files(), *index_files(zoo))]
    assert {file.parent.name for file in files} == {"zoo", "index", "members", "votes", "data"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o666 & ~mask}


CHANGES = {
    "learn": lambda zoo: zoo.learn(TASKS[2]),
    "learn from files": lambda zoo: zoo.learn_from("fresh", zoo.path.parent / "fresh.npz"),
    "forget": lambda zoo: zoo.forget(TASKS[0].name),
    "distil": lambda zoo: run_to_end(iter_distil_zoo(zoo, zoo.path.parent / "small")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_the_index_names_is_on_the_disk_before_it_does(tmp_path, change) -> None:
    fresh = pictures("fresh", per_class=30)
    np.savez(tmp_path / "fresh.npz", x=fresh.train.x.numpy(), y=fresh.train.y.numpy())
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2], grow=WarmStart(), tasks_per_episode=1)
    known = contents(zoo.path)
    with watched_disk() as disk:
        CHANGES[change](zoo)
    changed = zoolearn.open(tmp_path / ("small" if change == "distil" else "zoo"))
    index = changed.path / "zoo.json"
    moment = disk.named(index)
    new = [changed.path / name for name in changed.index.files() if name not in known or change == "distil"]
    if change in ("learn", "distil"):
        assert {path.parent.name for path in new} >= {"data", "members", "votes"}
    for path in new:
        assert disk.was_whole_before(path, disk.named(path)), f"{path} had its name before its content was safe"
        assert disk.was_listed_between(path, moment), f"{path} was named by the index before its name was safe"
    for name in index_files(changed):
        assert disk.was_whole_before(changed.path / name, moment), f"{name} was counted on before it was safe"
    assert disk.was_listed_between(index, disk.now + 1)


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:2])
    before, files = answers(zoo), contents(zoo.path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("zoolearn.zoo.disk.folder.os.replace", full)
        with pytest.raises(StoreError, match="No space left"):
            zoo.learn(TASKS[2])
    assert alike(answers(zoolearn.open(zoo.path)), before)
    zoolearn.open(zoo.path)
    assert {name: data for name, data in contents(zoo.path).items() if "checkpoints" not in name} == files


@pytest.mark.parametrize("change", ["undo", "forget", "commit_pruning"])
def test_nothing_is_deleted_before_the_index_no_longer_names_it(tmp_path, monkeypatch, change) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS)
    if change == "commit_pruning":
        zoo.prune(budget=0.8 * sum(member.bytes for member in zoo.members) / 1e6)
    before, generation = answers(zoo, at=4), zoo.generation
    replaced = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target).name == "zoo.json":
            raise OSError(28, "No space left on device")
        replaced(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StoreError, match="No space left"):
            getattr(zoo, change)(*([TASKS[1].name] if change == "forget" else []))
    again = zoolearn.open(zoo.path)
    assert again.generation == generation
    assert run_to_end(again.verify()) == []
    assert alike(answers(again, at=4), before)


@pytest.mark.parametrize("change", ["undo", "forget", "prune"])
def test_what_makes_room_on_a_full_disk_has_a_reserve_and_is_told_what_to_do_without(
    tmp_path, monkeypatch, change
) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3])
    reserve, replaced, left = zoo.path / ".reserve", os.replace, [True]
    size = reserve.stat().st_size
    arguments = [TASKS[1].name] if change == "forget" else []

    def full(source: Path, target: Path) -> None:
        if not left or (reserve.exists() and reserve.stat().st_size >= size):
            raise OSError(28, "No space left on device")
        replaced(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StoreError, match="No space left"):
            zoo.learn(TASKS[3])
        getattr(zoo, change)(*arguments)
        assert reserve.exists(), "kept again for the next time"
        left.clear()
        with pytest.raises(StoreError, match="delete or move something else on the disk"):
            zoo.unprune()
    assert run_to_end(zoolearn.open(zoo.path).verify()) == []


def test_an_undo_that_writes_the_whole_index_again_has_the_whole_reserve(tmp_path, monkeypatch) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:3])
    zoo.prune(loss=0.5)
    zoo.unprune()
    reserve, replaced = zoo.path / ".reserve", os.replace
    kept = []

    def watched(source: Path, target: Path) -> None:
        kept.append(reserve.exists())
        replaced(source, target)

    monkeypatch.setattr(os, "replace", watched)
    zoo.undo()
    zoo.learn(TASKS[2])
    zoo.undo()
    assert not kept[0], "earlier episodes were made again since"
    assert kept[-1], "one that only cuts its episode off gives back little"


def pooled(shape: tuple[int, ...], dropout: float = 0.0) -> nn.Module:
    """A backbone that costs next to nothing, so that the rows are all that could fill memory."""
    return nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(48, 8))


def noise(name: str, rows: int) -> Task:
    x = torch.from_numpy(np.random.default_rng(rows).integers(0, 256, (rows, 3, 64, 64), dtype=np.uint8))
    y = torch.arange(rows) % 2
    return Task(name, zoolearn.Examples(x[4:], y[4:]), zoolearn.Examples(x[:4], y[:4]))


def learn_and_watch(folder: Path, warm: Path) -> None:
    """Learns a small task beside all stored ones; prints how many, and by how much private memory grew meanwhile."""
    zoolearn.new(warm, backbone=pooled, recipe=MANY)
    for name in ("one", "two"):  # what torch imports and allocates once is not the zoo's
        zoolearn.open(warm, {"pooled": pooled}).learn(noise(name, 300))
    zoo = zoolearn.open(folder, {"pooled": pooled})
    most = base = private_memory()
    trained_on = 0
    for _ in zoo.iter_learn(noise("last", 300)):
        most = max(most, private_memory())
    most = max(most, private_memory())
    trained_on = len(zoo.members[-1].tasks)
    print(trained_on, most - base)


def private_memory() -> int:
    """Bytes of memory that only this process has; pages of mapped files are the system's to take back at any time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) * 1024


MANY = Recipe(epochs=1, batch_size=64, lr=1e-3, device="cpu")


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc to tell private memory from mapped files"
)
def test_learning_from_stored_tasks_far_larger_than_the_memory_it_takes(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo", backbone=pooled, recipe=MANY)
    for place, name in enumerate(("one", "two", "three")):
        zoo.learn(noise(name, 6000 + place))
    stored = sum(arrival.train.x.bytes for arrival in zoo.index.arrivals)
    call = (
        "import sys; from pathlib import Path; import test_zoo_folder as t; t.learn_and_watch(*map(Path, sys.argv[1:]))"
    )
    command = [sys.executable, "-c", call, str(zoo.path), str(tmp_path / "warm")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    trained_on, grown = map(int, out.split())
    assert trained_on == 4, "the new task and all that is stored"
    assert grown < stored / 6, f"{grown / 1e6:.0f} MB of private memory for {stored / 1e6:.0f} MB of stored rows"


@pytest.mark.parametrize("settings", [{"optimizer": "own"}, {"recipe": Recipe(optimizer="own", optimizer_by=print)}])
def test_a_zoo_takes_no_optimizer_that_is_code(tmp_path, settings):
    with pytest.raises(SettingsError, match="a zoo keeps no code, so give one by its name: sgd, adam or adamw"):
        zoolearn.new(tmp_path / "zoo", **settings)
