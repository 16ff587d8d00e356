"""A task of a zoo grows: more rows, new classes, undo, questions as of an episode, and what is refused."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch

import zoolearn
from servers import png
from test_zoo_cli import said
from toys import contents, pictures
from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.arrivals import part_by_class
from zoolearn.data.task import Examples, Task
from zoolearn.errors import DataError, UnknownTask
from zoolearn.methods.ensemble import vote_weights
from zoolearn.methods.parts.growth import feature_statistics
from zoolearn.training.fit import run_to_end
from zoolearn.zoo import Zoo
from zoolearn.zoo.distilling import iter_distil_zoo
from zoolearn.zoo.intake.growth import Growth, find_similar
from zoolearn.zoo.intake.intake import Reading
from zoolearn.zoo.learning.recall import list_members
from zoolearn.zoo.learning.scores import Change
from zoolearn.zoo.learning.statistics import read_statistics
from zoos import alike, answers, index_files, small_zoo, stray_files

pytestmark = pytest.mark.slow  # zoos are grown

WHOLE = replace(pictures("garden", classes=4), classes=("heron", "stork", "egret", "kestrel"))
FIRST, EGRET, KESTREL = part_by_class(WHOLE, [[0, 1], [2], [3]])
OTHERS = [pictures("stripes"), pictures("dots")]


def garden(folder, **settings) -> Zoo:
    return small_zoo(folder, [OTHERS[0], FIRST, OTHERS[1]], **settings)


@pytest.mark.parametrize(
    "settings",
    [{}, {"replay": 0.5}, {"grow": WarmStart()}, {"replay": 0.0}, {"replay": 0.0, "grow": WarmStart(read_layers=True)}],
    ids=["paper", "replay", "warm", "nothing", "nothing-warm"],
)
def test_a_task_grows_by_a_class_alone_is_asked_as_of_any_episode_and_undone_bit_for_bit(tmp_path, settings):
    zoo = garden(tmp_path / "zoo", **settings)
    before, tasks = contents(zoo.path), [*OTHERS, FIRST]
    old = answers(zoo, tasks)
    learned = zoo.learn(EGRET, new_classes=["egret"])
    zoo = zoolearn.open(zoo.path)
    assert zoo.tasks["garden"].classes == ("heron", "stork", "egret")
    assert learned.trained_on[0] == "garden"
    said = zoo.predict_proba(WHOLE.test.x, "garden")
    assert said.shape == (len(WHOLE.test), 3)
    assert torch.allclose(said.sum(dim=1), torch.ones(len(said)), atol=1e-5)
    right = (said.argmax(dim=1) == WHOLE.test.y)[WHOLE.test.y == 2]
    assert right.float().mean() > 0.5, "the new class is answered"
    assert alike(answers(zoo, tasks, at=3), old), "as of before, it is what it was"
    assert {*zoo.predict(EGRET.test.x, "garden", at=3)} <= {"heron", "stork"}
    assert run_to_end(zoo.verify()) == []
    assert stray_files(zoo) == set()
    zoo.learn(KESTREL, new_classes="any")
    assert zoo.predict_proba(WHOLE.test.x, "garden", at=4).shape == (len(WHOLE.test), 3)
    assert torch.equal(zoo.predict_proba(WHOLE.test.x, "garden", at=4), said)
    assert zoo.undo() == zoo.undo() == "garden"
    assert alike(answers(zoo, tasks), old)
    after = contents(zoo.path)
    left = {name for name in {*before} | {*after} if before.get(name) != after.get(name)}
    assert left <= {"zoo.json", *index_files(zoo)}, "only the log knows"


def test_the_measures_of_a_grown_task_are_those_of_its_answers(tmp_path):
    zoo = garden(tmp_path / "zoo", grow=WarmStart())
    zoo.learn(EGRET, new_classes=["egret"])
    held = torch.cat([FIRST.test.x, EGRET.test.x])
    labels = torch.cat([FIRST.test.y, torch.full((len(EGRET.test),), 2)])
    said = zoo.predict_proba(held, "garden")
    scores = zoo.scores("garden")
    assert (
        zoo.measure("garden").accuracy == scores.accuracy.value == float((said.argmax(dim=1) == labels).float().mean())
    )
    assert scores.classes == ("heron", "stork", "egret")
    assert scores.of_class("egret").rows == len(EGRET.test)


def test_a_task_that_grew_is_compared_by_what_it_knew_before_and_measured_by_all(tmp_path):
    whole = pictures("garden", classes=3, contrast=30, test_per_class=30)  # not all of it is answered rightly
    first, later = part_by_class(whole, [[0, 1], [2]])
    zoo = small_zoo(tmp_path / "zoo", [OTHERS[0], first])
    before = zoo.predict_proba(first.test.x, "garden")
    learned = zoo.learn(later, new_classes=[*later.classes])
    after = zoo.predict_proba(first.test.x, "garden")
    assert (after.argmax(dim=1) == 2).any(), "or this shows nothing"
    assert learned.changes["garden"] == Change.between(before, after[:, :2], first.test.y)
    said = torch.cat([after, zoo.predict_proba(later.test.x, "garden")])
    assert zoo.measure("garden").confidence == pytest.approx(float(said.max(dim=1).values.mean()))


def test_rows_with_wrong_labels_do_not_vouch_for_themselves(tmp_path):
    whole = pictures("garden", per_class=60, test_per_class=60)
    few, many = torch.arange(30), torch.arange(30, 120)
    first, wrong = (
        Task("garden", whole.train.select(rows), whole.test.select(rows), classes)
        for rows, classes in ((few, ("heron", "stork")), (many, ("stork", "heron")))
    )
    zoo = small_zoo(tmp_path / "zoo", [first])
    before = zoo.predict_proba(first.test.x, "garden")
    learned = zoo.learn(wrong, unless_worse=0.01)
    assert learned.worse == ("garden",)
    assert (learned.changes["garden"].rows, learned.changes["garden"].difference) == (len(first.test), "worse")
    assert learned.new_rows is not None
    assert learned.new_rows.rows == len(wrong.test)
    assert learned.new_rows.value > 0.5, "or this shows nothing"
    assert torch.equal(zoo.predict_proba(first.test.x, "garden"), before), "it was taken back"
    assert f"on {len(first.test)} held-out rows" in zoo.folder.read_log()[-1].detail


def test_new_rows_of_known_classes_are_told_apart_from_old_ones_and_new_classes(tmp_path, capsys):
    zoo = garden(tmp_path / "zoo")
    more = replace(pictures("garden", seed=5), classes=("heron", "stork"))
    line = ["learn", str(zoo.path), "garden", saved(tmp_path, "more.npz", more, EGRET), "--new-class", "egret"]
    told = " ".join(said(capsys, *line, "--epochs", "2", "--holdout", "0.5").split())
    scores, held = zoolearn.open(zoo.path).scores("garden"), len(more.train) // 2
    assert scores.rows == len(FIRST.test) + held + len(EGRET.train) // 2
    assert f"on {len(FIRST.test)} rows held out before, " in told
    (right,) = re.findall(rf"its new rows of earlier classes, held out now: \S+ (\d+) of {held} right", told)
    old = scores.of_class("heron").right + scores.of_class("stork").right
    assert int(right) <= old <= int(right) + len(FIRST.test)


def test_more_rows_of_known_classes_are_an_episode_in_which_older_votes_count_by_what_they_saw(tmp_path):
    zoo = garden(tmp_path / "zoo")
    more = replace(pictures("garden", seed=5), classes=("stork", "heron"))
    zoo.learn(more)
    assert zoo.tasks["garden"].classes == ("heron", "stork"), "by names, whatever their order"
    assert zoo.tasks["garden"].rows_kept == len(FIRST.train) + len(more.train)
    old, new = (zoo.index.weight(member, "garden") for member in zoo.index.voters("garden")[:: len(zoo.members) - 2])
    assert (old, new) == (len(FIRST.train) / (len(FIRST.train) + len(more.train)), 1.0)
    stored = zoo.task("garden").train
    assert torch.equal(stored.y[len(FIRST.train) :], 1 - more.train.y)


BEYOND = WarmStart(whiten=True, open_softmax=True, read_layers=True, supersede=True, chains=2)


@pytest.mark.parametrize(
    "settings",
    [{}, {"grow": WarmStart()}, {"grow": BEYOND}, {"replay": 0.5}, {"grow": BEYOND, "replay": 0.5}],
    ids=["paper", "warm", "beyond", "half kept", "beyond, half kept"],
)
def test_a_grown_zoo_is_renamed_pruned_exported_distilled_and_forgets(tmp_path, settings):
    zoo = garden(tmp_path / "zoo", **settings)
    zoo.learn(EGRET, new_classes=["egret"])
    said = zoo.predict_proba(WHOLE.test.x, "garden")
    zoo.rename("garden", "park")
    assert torch.equal(zoo.predict_proba(WHOLE.test.x, "park"), said)
    assert zoo.export("park", tmp_path / "park.pt2", "torch").difference < 1e-4
    small = run_to_end(iter_distil_zoo(zoo, tmp_path / "small", epochs=2))
    assert small.predict_proba(WHOLE.test.x, "park").shape == said.shape
    assert run_to_end(small.verify()) == []
    zoo.prune(loss=1.0)
    assert all(zoo.index.is_answered(name, zoo.index.voters(name)) for name in zoo.tasks), "one that knows all is left"
    zoo.unprune()
    assert torch.equal(zoo.predict_proba(WHOLE.test.x, "park"), said)
    zoo.forget("stripes")
    assert zoo.predict_proba(WHOLE.test.x, "park").shape == said.shape
    assert run_to_end(zoo.verify()) == []
    zoo.forget("park")
    assert [*zoo.tasks] == ["dots"]
    assert [episode.task for episode in zoo.index.episodes] == [None, None, "dots", None]
    everything = b"".join(contents(zoo.path).values())
    assert not [name for name in (b"egret", b"heron", b"park", b"garden") if name in everything]
    assert stray_files(zoo) == set()


def test_who_left_a_grown_task_to_others_still_does_when_its_own_task_is_forgotten(tmp_path):
    zoo = garden(tmp_path / "zoo", grow=BEYOND, replay=0.5)
    zoo.learn(EGRET, new_classes=["egret"])
    assert dict(zoo.members[2].share) == {"dots": 1.0, "garden": 0.0, "stripes": 0.0}
    zoo.forget("dots")
    assert dict(zoo.members[2].share) == {"garden": 0.0, "stripes": 0.0}
    for at in (2, 3, 4):
        assert len(zoo.predict_proba(WHOLE.test.x, "garden", at=at)) == len(WHOLE.test)
    assert run_to_end(zoo.verify()) == []


def test_a_grown_task_is_recognised_and_learned_on_beside_new_ones(tmp_path):
    zoo = garden(tmp_path / "zoo", grow=WarmStart())
    zoo.learn(EGRET, new_classes=["egret"])
    zoo.learn(pictures("rings"))
    found = zoo.recognise(EGRET.test.x, sure=0.0)
    assert {row.label for row in found if row.task == "garden"} <= {"heron", "stork", "egret"}
    assert zoo.predict_proba(WHOLE.test.x, "garden").shape == (len(WHOLE.test), 3)


def test_what_is_not_announced_or_known_already_is_refused_and_named(tmp_path):
    zoo = garden(tmp_path / "zoo")
    before = contents(zoo.path)
    with pytest.raises(DataError, match=r"garden: 1 new class egret with \d+ rows; announce .*--new-class egret"):
        zoo.learn(EGRET)
    with pytest.raises(DataError, match="'Heron' is nearly 'heron', which is known: a typo"):
        zoo.learn(replace(EGRET, classes=("Heron",)), new_classes="any")
    with pytest.raises(DataError, match="class 'otter' was announced as new, but has no row"):
        zoo.learn(EGRET, new_classes=["egret", "otter"])
    leaking = Task("garden", FIRST.test, EGRET.test.select(torch.empty(0, dtype=torch.int64)), FIRST.classes, part=True)
    with pytest.raises(DataError, match=r"held out of this task to measure it \(garden.train\[0\], .*--skip-known"):
        zoo.learn(leaking)
    turned = Task("garden", Examples(FIRST.train.x, 1 - FIRST.train.y), FIRST.test, FIRST.classes)
    with pytest.raises(DataError, match=r"stored already under another label \(garden.train\[0\].*zoo correct"):
        zoo.learn(turned)
    with pytest.raises(DataError, match="all rows are stored in task 'garden' already"):
        zoo.learn(FIRST)
    with pytest.raises(UnknownTask, match="can be asked as of 2 to 3"):
        zoo.predict(FIRST.test.x, "garden", at=1)
    assert contents(zoolearn.open(zoo.path).path) == before


def test_without_a_row_kept_a_head_is_made_of_the_statistics_of_all_rows_and_nothing_is_trained(tmp_path):
    zoo = garden(tmp_path / "zoo", replay=0.0, grow=WarmStart())
    learned = zoo.learn(EGRET, new_classes=["egret"])
    first, last = zoo.index.member(2), zoo.index.members[-1]
    assert (learned.refits, last.rows_trained, learned.trained_on) == (first.number, 0, ("garden",))
    kept = read_statistics(zoo.folder, zoo.index, lambda member: zoo.net(member.number), zoo.tasks["garden"])
    whole = feature_statistics(zoo.net(first.number), FIRST.join_part(EGRET), zoolearn.Recipe())
    assert all(torch.allclose(getattr(kept, part), getattr(whole, part), rtol=1e-4, atol=1e-4) for part in vars(kept))
    assert torch.allclose(zoo.net(last.number).head("garden").weight.double(), kept.discriminant()[0], rtol=1e-3)
    zoo.forget("dots")  # which came after the member on whose features that head is
    zoo.prune(loss=1.0)
    zoo.commit_pruning()
    zoo.learn(KESTREL, new_classes=["kestrel"])  # though the first member, whose features they are, is gone
    assert (zoo.predict_proba(WHOLE.test.x, "garden").argmax(dim=1) == WHOLE.test.y).float().mean() > 0.5
    zoo.forget("garden")
    assert stray_files(zoo) == set()
    assert sum("statistics" in name for name in contents(zoo.path)) == 1, "of stripes"


def saved(folder, name, *parts):
    """The rows to train on of some parts, as a file that people have."""
    x = np.concatenate([part.train.x.numpy() for part in parts])
    np.savez(folder / name, x=x, y=[part.classes[label] for part in parts for label in part.train.y.tolist()])
    return str(folder / name)


def test_learn_tells_what_it_understood_and_asks_before_a_class_is_new(tmp_path, capsys, monkeypatch):
    path = garden(tmp_path / "zoo").path
    more = replace(pictures("garden", seed=5), classes=("heron", "stork"))
    data = saved(tmp_path, "more.npz", more, EGRET)
    line = ["learn", str(path), "garden", data, "--epochs", "2"]
    out = " ".join(said(capsys, *line, code=1).split())
    told = f"garden: {len(more.train) // 2} more heron, {len(more.train) // 2} more stork, 1 new class egret with {len(EGRET.train)} rows"
    assert told in out
    assert f"there is no terminal to ask on; if that is meant: zoo {' '.join(line)} --new-class egret" in out
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert "nothing was changed" in said(capsys, *line)
    assert zoolearn.open(path).tasks["garden"].classes == FIRST.classes
    monkeypatch.setattr("builtins.input", lambda question: "y" if "1 new class (egret)?" in question else "n")
    out = said(capsys, *line)
    assert "now 3 classes" in out
    assert "its earlier classes, told apart among themselves: " in " ".join(out.split())
    assert "new class egret: " in out
    assert zoolearn.open(path).tasks["garden"].classes == (*FIRST.classes, "egret")


def test_accuracies_among_more_classes_are_marked_where_they_are_shown_over_time(tmp_path, capsys):
    zoo = garden(tmp_path / "zoo")
    zoo.learn(EGRET, new_classes=["egret"])
    *before, after = [f"{measure.accuracy:.1%}" for _, measure in zoo.index.history["garden"]]
    trail = f"accuracy after each episode that changed it: {', '.join(before)} | 3 classes: {after}"
    assert trail in " ".join(said(capsys, "show", str(zoo.path), "garden").split())
    told = said(capsys, "show", str(zoo.path))
    (line,) = (line for line in told.splitlines() if line.startswith("garden ") and "%" not in line and "|" in line)
    assert len(line.split()[-1].split("|")[0]) == len(before)
    assert "behind a | there are more classes to tell apart" in told


def test_of_many_new_classes_some_are_printed_unless_all_are_wanted(tmp_path, capsys):
    zoo, many = garden(tmp_path / "zoo"), pictures("garden", classes=25, per_class=5)
    data = saved(tmp_path, "many.npz", replace(many, classes=tuple(f"bird {number}" for number in range(25))))
    line = ["learn", str(zoo.path), "garden", data, "--yes", "--epochs", "1"]
    told = said(capsys, *line)
    assert re.findall(r"^new class (bird \d+): ", told, re.MULTILINE) == [f"bird {number}" for number in range(20, 25)]
    assert "... 20 more; --all prints them" in told
    zoo.undo()
    assert said(capsys, *line, "--all").count("\nnew class bird ") == 25


def test_learn_takes_yes_but_not_for_a_likely_typo(tmp_path, capsys):
    path = garden(tmp_path / "zoo").path
    slip = saved(tmp_path, "slip.npz", replace(EGRET, classes=("herron",)))
    line = ["learn", str(path), "garden", slip, "--yes", "--epochs", "2"]
    assert "'herron' is nearly 'heron', which is known: a typo?" in " ".join(said(capsys, *line, code=1).split())
    assert "nothing was learned" in said(capsys, *line, "--dry-run")
    said(capsys, *line, "--new-class", "herron")
    data = saved(tmp_path, "kestrel.npz", KESTREL)
    said(capsys, "learn", str(path), "garden", data, "--yes", "--epochs", "2")
    assert zoolearn.open(path).tasks["garden"].classes == (*FIRST.classes, "herron", "kestrel")
    assert "grown" in said(capsys, "log", str(path))


def suggested(out):
    """The words of the command that an error suggests."""
    return shlex.split(" ".join(out.split()).rpartition("if that is meant: zoo ")[2])


def test_what_learn_suggests_works_with_all_new_classes_announced_together(tmp_path, capsys):
    path = garden(tmp_path / "zoo").path
    both = saved(tmp_path, "both.npz", replace(EGRET, classes=("--yes",)), KESTREL)
    line = ["learn", str(path), "garden", both, "--epochs", "2"]
    out = " ".join(said(capsys, *line, "--new-class", "kestrle", code=1).split())
    assert "'kestrle' was announced as new, but has no row; did you mean 'kestrel'?" in out
    again = suggested(said(capsys, *line, "--new-class", "kestrel", code=1))
    assert again == [*line, "--new-class=--yes", "kestrel"]
    said(capsys, *again)
    assert zoolearn.open(path).tasks["garden"].classes == (*FIRST.classes, "--yes", "kestrel")
    slips = saved(tmp_path, "slips.npz", replace(pictures("garden", seed=5), classes=("herron", "otter")))
    out = said(capsys, *line[:3], slips, "--yes", code=1)
    assert "--yes does not cover names that may be typos" in " ".join(out.split())
    assert suggested(out) == [*line[:3], slips, "--yes", "--new-class", "herron"]


@pytest.mark.parametrize(("slips", "flags"), [((), []), (("herron",), ["--new-class", "herron"])])
def test_of_many_new_classes_only_likely_typos_are_named(tmp_path, capsys, slips, flags):
    path = garden(tmp_path / "zoo").path
    names = [*slips, *(f"owl {number}" for number in range(11 - len(slips)))]
    data = saved(tmp_path, "many.npz", *(replace(EGRET, classes=(name,)) for name in names))
    line = ["learn", str(path), "garden", data, "--epochs", "2"]
    assert suggested(said(capsys, *line, code=1)) == [*line, "--yes", *flags]
    with pytest.raises(DataError, match="new_classes=.*'owl 9'" if slips else "new_classes='any'"):
        zoolearn.open(path).learn_from("garden", data)


def test_a_folder_that_was_learned_before_and_has_more_in_it_is_learned_but_for_what_is_known(tmp_path):
    path = garden(tmp_path / "zoo").path
    zoo = zoolearn.open(path)
    zoo.learn_from("park", saved(tmp_path, "park.npz", FIRST))
    both = saved(tmp_path, "both.npz", FIRST, EGRET)
    with pytest.raises(DataError, match=r"held out of this task"):
        zoo.learn_from("park", both, new_classes=["egret"])
    zoo.learn_from("park", both, new_classes=["egret"], skip_known=True)
    entry = zoo.tasks["park"]
    assert entry.rows_kept + entry.rows_held_out == len(FIRST.train) + len(EGRET.train)
    assert entry.arrived.keys() == {"heron", "stork", "egret"}
    assert {*entry.arrivals[1].counts} == {"egret"}


def test_all_rows_stored_under_another_label_are_counted_held_out_or_not(tmp_path):
    zoo = garden(tmp_path / "zoo")
    both = Examples(torch.cat([FIRST.train.x, FIRST.test.x]), 1 - torch.cat([FIRST.train.y, FIRST.test.y]))
    turned = Task("garden", both, FIRST.test.select(torch.empty(0, dtype=torch.int64)), FIRST.classes, part=True)
    with pytest.raises(DataError, match=rf"^{len(both)} rows stored already under another label"):
        zoo.learn(turned)


def test_a_class_of_one_row_is_learned_with_a_word_of_warning(tmp_path):
    zoo = garden(tmp_path / "zoo")
    one = replace(EGRET, train=EGRET.train.select(torch.tensor([0])))
    work = zoo.iter_learn_from("garden", saved(tmp_path, "one.npz", one), new_classes=["egret"], epochs=1)
    (reading,) = [event for event in work if isinstance(event, Reading)]
    assert any("'egret': 1 row, which is trained on" in note for note in reading.notes)
    assert zoolearn.open(zoo.path).tasks["garden"].arrived["egret"] == 1


def test_who_saw_one_row_of_a_class_counts_for_as_little_once_many_have_come(tmp_path):
    zoo = garden(tmp_path / "zoo")
    rows = torch.arange(len(EGRET.train))
    one, rest = (replace(EGRET, train=EGRET.train.select(some)) for some in (rows[:1], rows[1:]))
    zoo.learn(one, new_classes=["egret"])
    zoo.learn(rest)
    voters = zoo.index.voters("garden")
    weights = [zoo.index.weight(member, "garden") for member in voters]
    assert weights[-2:] == [1 / len(EGRET.train), 1.0]
    assert weights[0] == len(FIRST.train) / (len(FIRST.train) + len(EGRET.train)), "it says nothing of that class"
    votes = [member.votes["garden"] for member in list_members(zoo.index, voters, lambda entry: zoo.net(entry.number))]
    assert vote_weights(votes) == weights, "a learner that goes on counts alike"


def test_a_class_with_spaces_around_its_name_is_refused_from_wherever_it_comes(tmp_path):
    zoo = garden(tmp_path / "zoo")
    table = tmp_path / "rows.csv"
    table.write_text("a,b,label\n1,2, cat\n2,1,dog\n1,3, cat\n3,1,dog\n")
    for kind in (" cat", "dog"):
        (tmp_path / "pictures" / kind).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "pictures" / kind / f"{number}.png").write_bytes(png(EGRET.train.x[number].numpy()))
    named = "a class is named ' cat', with spaces around it; name it 'cat'"
    spaced = replace(EGRET, classes=(" cat",))
    for learn in (
        lambda: zoo.learn(spaced, new_classes="any"),
        lambda: zoo.learn(replace(FIRST, name="new", classes=(" cat", "dog"))),
        lambda: zoo.learn_from("garden", saved(tmp_path, "spaced.npz", spaced), new_classes=[" cat"]),
        lambda: zoo.learn_from("new", tmp_path / "pictures"),
        lambda: zoolearn.new(tmp_path / "table").learn_from("new", table),
    ):
        with pytest.raises(DataError, match=named):
            learn()


def test_a_new_class_given_as_a_plain_text_is_one_class(tmp_path):
    zoo = garden(tmp_path / "zoo")
    with pytest.raises(DataError, match="class 'egre' was announced as new, but has no row; did you mean 'egret'"):
        zoo.learn(EGRET, new_classes="egre")
    twice = replace(EGRET, classes=("🐱",))
    with pytest.raises(DataError, match="class '🐱🐱' was announced"):
        zoo.learn(twice, new_classes="🐱🐱")
    zoo.learn(EGRET, new_classes="egret")
    assert zoo.tasks["garden"].classes == (*FIRST.classes, "egret")


@pytest.mark.parametrize(
    "name",
    [
        "\N{FULLWIDTH LATIN SMALL LETTER H}E\N{FULLWIDTH LATIN CAPITAL LETTER R}\N{FULLWIDTH LATIN CAPITAL LETTER O}N",
        "h\N{CYRILLIC SMALL LETTER IE}r\N{CYRILLIC SMALL LETTER O}n",
        "hero n",
        "he\N{ZERO WIDTH NON-JOINER}ron",
    ],
)
def test_a_name_that_only_looks_like_a_known_one_may_be_a_typo(name):
    assert find_similar(name, ["stork", "heron"]) == "heron"


@pytest.mark.parametrize(("name", "known"), [("кот 1", "cat 1"), ("β-cell", "b-cells"), ("猫", "犬")])
def test_names_in_other_scripts_are_names_of_their_own(name, known):
    assert find_similar(name, [known]) is None


def test_new_names_that_resemble_each_other_are_noted_of_a_growth_and_of_a_new_task(tmp_path):
    zoo = garden(tmp_path / "zoo")
    pair = {"classes": ("kestrel", "Kestrel")}
    growth = Growth.of(zoo.tasks["garden"], pair["classes"])
    assert growth.doubts() == ["some new names are nearly alike: 'Kestrel' and 'kestrel'; a typo?"]
    growth.check("any")
    data = saved(tmp_path, "pair.npz", replace(FIRST, name="new", **pair))
    (reading,) = [event for event in zoo.iter_learn_from("new", data, epochs=1) if isinstance(event, Reading)]
    assert growth.doubts()[0] in reading.notes
