"""Rows that are trained on and held out at once: found, told, and kept on one side."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import zoolearn
from toys import TINY, blobs, row_set
from zoolearn import cli
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, SettingsError
from zoolearn.zoo import Zoo
from zoolearn.zoo.inputs.source import Numbers
from zoolearn.zoo.intake import leaks
from zoolearn.zoo.intake.holdout import Holdout, random_rows
from zoolearn.zoo.intake.intake import Reading
from zoolearn.zoo.intake.leaks import Fingerprints

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def same_rows_in_any_order(monkeypatch):
    """Each test draws from the beginning, whatever ran before it."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(0))


def table(rows: int = 40, classes: int = 2) -> Numbers:
    """Features with labels in turn; no row twice."""
    x = RNG.normal(size=(rows, 5)).astype(np.float32)
    return Numbers("table", x, [f"class {row % classes}" for row in range(rows)])


def read(zoo: Zoo, name: str, data: Numbers, **options) -> Reading:
    """What is understood of data, before it is learned."""
    work = zoo.iter_learn_from(name, data, **options)
    reading = next(event for event in work if isinstance(event, Reading))
    work.close()
    return reading


def learned(zoo: Zoo, name: str, data: Numbers, **options) -> tuple[set[bytes], set[bytes]]:
    """The rows that are trained on and those held out, after a task was learned."""
    zoo.learn_from(name, data, **options)
    task = zoo.task(name)
    return row_set(task.train.x), row_set(task.test.x)


@pytest.fixture
def zoo(tmp_path) -> Zoo:
    return zoolearn.new(tmp_path / "zoo", recipe=TINY)


def test_copies_of_a_row_are_on_one_side_and_told(zoo) -> None:
    rows = table(30)
    twice = Numbers("table", np.tile(rows.x, (2, 1)), list(rows.labels) * 2)
    assert any(
        "30 rows are copies of others, kept on one side (table[0]" in note for note in read(zoo, "a", twice).notes
    )
    train, held = learned(zoo, "task", twice)
    assert not train & held
    assert len(held) == 6, "a fifth of the rows that differ"


def test_a_test_set_that_is_the_training_set_is_refused(zoo) -> None:
    rows = table()
    with pytest.raises(DataError, match="table: all 40 rows to train on are held out to test on too; give other rows"):
        zoo.learn_from("task", rows, test=rows)
    assert not zoo.tasks


def test_rows_of_the_test_set_are_not_trained_on(zoo) -> None:
    rows = table()
    test = Numbers("test", rows.x[:8], list(rows.labels[:8]))
    assert any(
        "8 rows to train on left out, for being held out too" in note for note in read(zoo, "a", rows, test=test).notes
    )
    train, held = learned(zoo, "task", rows, test=test)
    assert not train & held
    assert (len(train), len(held)) == (32, 8)


def test_a_row_in_two_classes_is_told_by_name(zoo) -> None:
    rows = table()
    rows.x[1] = rows.x[0]
    assert "1 row occurs in two classes: table[1] is 'class 1' and 'class 0'" in " ".join(read(zoo, "a", rows).notes)


def test_what_an_earlier_task_holds_out_no_later_one_trains_on(zoo) -> None:
    """A second task of the same rows, with other labels."""
    rows = table(60)
    first_train, first_held = learned(zoo, "first", rows)
    again = Numbers("again", rows.x[::-1].copy(), ["left", "right", "up"] * 20)
    assert any("60 rows known from earlier tasks" in note for note in read(zoo, "again", again).notes)
    train, held = learned(zoo, "second", again)
    assert not train & first_held
    assert not held & first_train


def test_an_own_split_that_trains_on_what_is_held_out_earlier_is_told(zoo) -> None:
    rows = table()
    learned(zoo, "first", rows)
    notes = read(zoo, "again", rows, test=table()).notes
    assert "8 rows to train on are held out of task 'first': its accuracy may be too good" in " ".join(notes)


def test_held_out_rows_never_stand_in_for_training_rows(tmp_path) -> None:
    zoo = zoolearn.new(tmp_path / "zoo", recipe=TINY, replay=0.0)
    zoo.learn(blobs())
    with pytest.raises(DataError, match="no rows to train on are kept of task 'blobs'"):
        zoo.task("blobs")
    assert list(zoo.verify())[-1].done, "a zoo without kept rows is whole"


def photographs(count: int) -> np.ndarray:
    """Smooth random pictures in colour."""
    small = RNG.integers(0, 256, (count, 6, 6, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((32, 32), Image.Resampling.BICUBIC)) for one in small])


def recoded(picture: np.ndarray) -> np.ndarray:
    """The same picture, saved as a JPEG of another size and read again."""
    file = io.BytesIO()
    Image.fromarray(picture).resize((48, 48)).save(file, "JPEG", quality=85)
    return np.asarray(Image.open(file).resize((32, 32)))


def test_pictures_that_were_encoded_again_are_known_by_their_looks_and_others_are_not() -> None:
    pictures = photographs(40)
    again = np.stack([recoded(picture) for picture in pictures[:10]])
    prints = Fingerprints()
    prints.add(np.concatenate([pictures, again]).transpose(0, 3, 1, 2))
    assert len(np.unique(prints.groups())) == 50, "no two are equal"
    assert prints.lookalikes() == [(row, 40 + row) for row in range(10)]


def test_many_pictures_that_look_alike_are_told_in_a_few_groups(tmp_path) -> None:
    pictures = photographs(8)
    x = np.concatenate([pictures, *(np.roll(pictures, shift, axis=3) for shift in (1, 2))])  # other colours, same looks
    zoo = zoolearn.new(tmp_path / "zoo", recipe=TINY, backbone="mlp-100")
    (told,) = [note for note in read(zoo, "a", Numbers("photos", x, ["cat", "dog"] * 12)).notes if "look alike" in note]
    assert told.count("and 1 more") == 5, told
    assert told.startswith(
        "pictures that look alike are kept on one side: photos[0], photos[8] and 1 more; photos[1], "
    )
    assert told.endswith("; and 3 more groups")


def test_pictures_that_look_alike_are_told_as_such_and_kept_on_one_side(tmp_path) -> None:
    pictures = photographs(20)
    x = np.concatenate([pictures, np.stack([recoded(picture) for picture in pictures])])
    zoo = zoolearn.new(tmp_path / "zoo", recipe=TINY, backbone="mlp-100")
    data = Numbers("photos", x, ["cat", "dog"] * 20)
    assert "pictures that look alike are kept on one side: photos[0] and photos[20]" in " ".join(
        read(zoo, "a", data).notes
    )
    zoo.learn_from("pets", data)
    kept = [row_set(rows.x) for rows in (zoo.task("pets").train, zoo.task("pets").test)]
    place = {bytes(row): number for number, row in enumerate(x.transpose(0, 3, 1, 2).reshape(40, -1))}
    originals = [{place[row] % 20 for row in rows} for rows in kept]
    assert not originals[0] & originals[1]


def test_a_class_whose_rows_are_all_alike_is_told_to_be_measured_too_well(zoo) -> None:
    rows = table()
    rows.x[1::2] = rows.x[1]
    assert any("class 'class 1': copies of its rows had to be both" in note for note in read(zoo, "a", rows).notes)


def test_whole_groups_are_held_out(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{RNG.normal():.6f},{RNG.normal():.6f},{row % 2},patient {row // 4}" for row in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,label,who", *lines]))
    cli.main(["learn", "zoo", "task", "t.csv", "--group", "who", "--epochs", "1"])
    zoo = zoolearn.open("zoo")
    assert zoo.settings.columns == ("a", "b"), "the group is no feature"
    who = {np.float32(line.split(",")[0]).tobytes(): line.split(",")[3] for line in lines}
    sides = [{who[row[:4]] for row in row_set(rows.x)} for rows in (zoo.task("task").train, zoo.task("task").test)]
    assert not sides[0] & sides[1]
    assert len(sides[1]) == 4, "a fifth of the patients"
    with pytest.raises(SystemExit):
        cli.main(["learn", "zoo", "more", "t.csv", "--group", "whom", "--epochs", "1"])
    assert "unknown column 'whom'; did you mean 'who'" in " ".join(capsys.readouterr().err.split())


def test_the_last_rows_are_held_out(zoo) -> None:
    rows = table(50)
    _, held = learned(zoo, "task", rows, holdout=Holdout(last=0.3))
    assert held == {row.tobytes() for row in rows.x[35:]}
    with pytest.raises(SettingsError, match="hold out by one of them"):
        Holdout(last=0.2, group="who")


def test_broken_rows_leave_every_class_its_share_of_held_out_ones(zoo) -> None:
    rows = table(100)
    broken = np.arange(1, 81, 2)  # 40 of the 50 rows of one class
    rows.x[broken] = np.nan
    reading = read(zoo, "task", rows, skip_broken=True)
    assert reading.counts == {"class 0": (40, 10), "class 1": (8, 2)}


@pytest.mark.parametrize("seed", range(5))
def test_every_class_has_rows_on_both_sides_whatever_the_groups(seed) -> None:
    rng = np.random.default_rng(seed)
    labels, groups = rng.integers(0, 3, 60), rng.integers(0, 12, 60)
    split = random_rows(labels, groups, 0.2, seed, {0: "held", 1: "train"})
    assert {*split.train} | {*split.held} == {*range(60)}
    assert {*labels[split.train]} == {*labels[split.held]} == {0, 1, 2}
    assert not {*groups[split.train]} & {*groups[split.held]}


def test_rows_of_tensors_that_are_test_rows_too_are_left_out_and_told(tmp_path):
    zoo = zoolearn.new(tmp_path / "zoo", recipe=TINY, backbone="mlp")
    first, second = blobs("first"), blobs("second")
    leaking = replace(
        first,
        train=Examples(torch.cat([first.train.x, first.test.x[:3]]), torch.cat([first.train.y, first.test.y[:3]])),
    )
    with pytest.warns(UserWarning, match="3 rows to train on left out of task 'first', for being test rows too"):
        learned = zoo.learn(leaking)
    assert learned.notes
    assert torch.equal(zoo.task("first").train.x, first.train.x)
    assert sum(zoo.tasks["first"].arrived.values()) == len(first.train)
    spoilt = replace(
        second,
        train=Examples(torch.cat([second.train.x, first.test.x[:2]]), torch.cat([second.train.y, first.test.y[:2]])),
    )
    with pytest.warns(UserWarning, match="2 rows to train on are held out of task 'first'"):
        zoo.learn(spoilt)
    assert len(zoo.task("second").train) == len(spoilt.train), "that is told, and left to who gave them"
    with pytest.raises(DataError, match="all rows to train on of class '0' are test rows too"):
        zoo.learn(replace(blobs("third"), test=blobs("third").train))
    assert list(zoo.tasks) == ["first", "second"]


def test_a_lesson_reads_no_row_of_earlier_tasks_to_find_copies(tmp_path, monkeypatch):
    zoo = zoolearn.new(tmp_path / "zoo", recipe=TINY, backbone="mlp")
    zoo.learn_from("first", table(60))
    rows = []
    digests = leaks.row_digests
    monkeypatch.setattr(leaks, "row_digests", lambda x: rows.append(len(x)) or digests(x))
    zoo.learn_from("second", table(40))
    assert sum(rows) == 40
    zoo.test("first", table(30))
    assert np.array_equal(
        leaks.read_digests(zoo.folder, zoo.tasks["first"], "test"), digests(zoo.task("first").test.x.numpy())
    )
