"""A folder of a run: damage is found and named, nothing is overwritten, and a crash at any write loses one episode at most."""

import errno
import json
import os
from importlib import import_module
from itertools import islice

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors import SafetensorError

from disks import watched_disk
from toys import benchmark, contents, cramped, in_another_process, learner_of, outcome, with_norm
from zoolearn import files
from zoolearn.errors import SettingsError, StoreError
from zoolearn.files import load_json, load_state, load_tensors, save_json, save_tensors
from zoolearn.locks import lock_folder
from zoolearn.methods.registry import METHODS
from zoolearn.runs.run import describe, episodes, run
from zoolearn.runs.store import RunFolder, load

pytestmark = pytest.mark.slow  # every method is trained

TOYS = benchmark(3)
FEW = benchmark(2, per_class=4, test_per_class=2)
KINDS = ["model-zoo", "fine-tune"]  # one that grows, one whose net is replaced


@pytest.fixture(autouse=True, scope="module")
def nowhere_in_particular():
    """Looking up processor and commit takes longer than these runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("zoolearn.runs.run"), "environment", dict)
        yield


def grown(name, folder, tasks=3):
    """A run that was stopped after so many episodes."""
    work = episodes(learner_of(METHODS[name]), TOYS, folder)
    list(islice(work, tasks))
    work.close()
    return folder


def go_on(name, folder, shown=TOYS, **options):
    return run(learner_of(METHODS[name]), shown, folder, **options)


def altered(content):
    """With another byte in its middle; in JSON a letter, since a number's last digits may round to the same number."""
    middle = len(content) // 2
    if content.startswith(b"{"):
        middle = next(place for place in range(middle, len(content)) if content[place : place + 1].isalpha())
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "altered": altered,
    "truncated": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-2],
    "emptied": lambda content: b"",
    "zeroed": lambda content: bytes(len(content)),
}
FILES = {
    "model-zoo": [
        "run.json",
        "results.json",
        "episodes/0001.json",
        "episodes/0002.json",
        "members/0001.safetensors",
        "members/0002.safetensors",
        "train_votes/0001.safetensors",
        "train_votes/0002.safetensors",
        "test_votes/0001.safetensors",
        "test_votes/0002.safetensors",
    ],
    "fine-tune": ["run.json", "results.json", "episodes/0001.json", "episodes/0002.json", "net/0002.safetensors"],
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Runs of three tasks that were stopped after the second, by method."""
    return {name: contents(grown(name, tmp_path_factory.mktemp(name), 2)) for name in KINDS}


def lay_out(files, folder):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_a_folder_holds_the_files_that_its_page_says(stopped):
    for method, names in FILES.items():
        assert list(stopped[method]) == sorted([*names, "sittings/0001.json"])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("method", "file"), [(method, file) for method in KINDS for file in FILES[method]])
def test_a_damaged_file_is_named_and_nothing_is_overwritten(tmp_path, stopped, method, file, damage):
    lay_out({**stopped[method], file: DAMAGES[damage](stopped[method][file])}, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=file):
        go_on(method, tmp_path)
    with pytest.raises(StoreError, match=file):
        load(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("method", "file"), [(method, file) for method in KINDS for file in FILES[method] if file != "results.json"]
)
def test_a_missing_file_is_named_and_nothing_is_overwritten(tmp_path, stopped, method, file):
    lay_out({name: content for name, content in stopped[method].items() if name != file}, tmp_path)
    before = contents(tmp_path)
    for attempt in (lambda: go_on(method, tmp_path), lambda: load(tmp_path)):
        with pytest.raises(StoreError, match=file):
            attempt()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("method", KINDS)
def test_missing_results_are_gathered_again_from_the_episodes(tmp_path, stopped, method):
    lay_out({name: content for name, content in stopped[method].items() if name != "results.json"}, tmp_path)
    work = episodes(learner_of(METHODS[method]), TOYS, tmp_path)
    assert len(next(work).accuracy) == 2
    work.close()
    assert json.loads((tmp_path / "results.json").read_bytes()) == json.loads(stopped[method]["results.json"])


def forged(path, **changes):
    """The file with other entries and a checksum that fits them."""
    save_json(path, {**load_json(path), **changes})


@pytest.mark.parametrize("file", ["run.json", "results.json"])
def test_a_newer_format_is_refused(tmp_path, stopped, file):
    lay_out(stopped["model-zoo"], tmp_path)
    forged(tmp_path / file, format=9)
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="format"):
        go_on("model-zoo", tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        "../stolen/0001",
        "members/../../0001",
        "/etc/0001",
        "members/0001/../0002",
        "members/0001.safetensors",
        "members",
        "members/",
        "/0001",
        "./0001",
        "..\\up/1",
        "",
        "members/0001\n",
    ],
)
def test_a_record_that_names_a_file_elsewhere_is_refused(tmp_path, stopped, name):
    folder = tmp_path / "run"
    lay_out(stopped["model-zoo"], folder)
    (tmp_path / "stolen").mkdir()
    (tmp_path / "stolen" / "0001.safetensors").write_bytes(stopped["model-zoo"]["members/0001.safetensors"])
    record = load_json(folder / "episodes/0001.json")
    forged(folder / "episodes/0001.json", files={name: record["files"]["members/0001"]})
    for attempt in (lambda: load(folder), lambda: go_on("model-zoo", folder)):
        with pytest.raises(StoreError, match="which zoolearn does not write"):
            attempt()


def test_an_unknown_method_or_backbone_is_not_looked_for_outside_our_tables(tmp_path, stopped):
    lay_out(stopped["fine-tune"], tmp_path)
    header = load_json(tmp_path / "run.json")
    forged(tmp_path / "run.json", method="os.system")
    with pytest.raises(StoreError, match=r"unknown method 'os\.system'"):
        load(tmp_path)
    forged(tmp_path / "run.json", method="fine-tune", settings={**header["settings"], "backbone": "subprocess.run"})
    with pytest.raises(SettingsError, match=r"unknown backbone 'subprocess\.run'"):
        load(tmp_path)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex' but no run"):
        go_on("fine-tune", tmp_path)
    assert contents(tmp_path) == {"thesis.tex": b"important"}


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("important")
    for out in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(StoreError, match="out"):
            go_on("fine-tune", out)
    assert (tmp_path / "out").read_text() == "important"


def test_a_folder_without_a_run_or_without_an_episode_cannot_be_loaded(tmp_path):
    with pytest.raises(StoreError, match=r"run\.json is missing"):
        load(tmp_path)
    work = episodes(learner_of(METHODS["fine-tune"]), TOYS, tmp_path)
    next(work)
    work.close()
    (tmp_path / "episodes/0001.json").unlink()
    (tmp_path / "results.json").unlink()
    with pytest.raises(StoreError, match="not finished its first episode"):
        load(tmp_path)


@pytest.mark.parametrize("method", KINDS)
def test_members_are_never_rewritten(tmp_path, method):
    work = episodes(learner_of(METHODS[method]), TOYS, tmp_path)
    seen = {}
    for _ in work:
        for path in tmp_path.rglob("*.safetensors"):
            status = path.stat()
            identity = (status.st_ino, status.st_mtime_ns, path.read_bytes())
            assert seen.setdefault(path, identity) == identity
    assert len(seen) >= 3


def test_a_net_that_is_replaced_leaves_no_old_files(tmp_path):
    go_on("fine-tune", tmp_path)
    assert [path.name for path in (tmp_path / "net").iterdir()] == ["0003.safetensors"]


@pytest.mark.parametrize("method", KINDS)
def test_what_an_episode_wrote_is_on_the_disk_before_its_record_tells_of_it(tmp_path, method):
    with watched_disk() as disk:
        go_on(method, tmp_path)
    seen = 0
    for record in sorted((tmp_path / "episodes").iterdir()):
        moment = disk.named(record)
        assert disk.was_whole_before(record, moment)
        paths = [tmp_path / f"{name}.safetensors" for name in load_json(record)["files"]]
        for path in (path for path in paths if path.exists()):  # nets that were replaced are gone
            assert disk.was_whole_before(path, disk.named(path)), f"{path} had its name before its content was safe"
            assert disk.was_listed_between(path, moment), f"{path} was in a record before its name was safe"
            seen += 1
        assert disk.was_listed_between(record, disk.named(tmp_path / "results.json")), "results are told last"
    assert seen == {"model-zoo": 9, "fine-tune": 1}[method]


class Crash(BaseException):
    """The machine stops here: nothing that the program would do afterwards is done."""


class Countdown:
    """Lets so many calls of the watched functions through, then crashes at each."""

    def __init__(self, patch, calls):
        self.left, self.made = calls, 0
        patch.setattr(os, "fsync", self.watched(lambda descriptor: None))
        for place, name in ((os, "replace"), (files.Path, "unlink"), (files.Path, "mkdir")):
            patch.setattr(place, name, self.watched(getattr(place, name)))

    def watched(self, function):
        def call(*arguments, **options):
            self.made += 1
            if self.made > self.left:
                raise Crash
            return function(*arguments, **options)

        return call


@pytest.mark.parametrize("method", KINDS)
def test_a_crash_at_any_write_leaves_a_folder_that_goes_on_to_the_same_end(tmp_path, monkeypatch, method):
    with monkeypatch.context() as patch:
        everything = Countdown(patch, 10**6)
        go_on(method, tmp_path / "whole", FEW, checkpoint_every=1)
    whole = outcome(tmp_path / "whole")
    assert everything.made > 40
    for calls in range(everything.made):
        folder = tmp_path / f"crash {calls}"
        with monkeypatch.context() as patch, pytest.raises(Crash):  # noqa: PT012
            Countdown(patch, calls)
            go_on(method, folder, FEW, checkpoint_every=1)
        with monkeypatch.context() as patch:
            Countdown(patch, 10**6)
            go_on(method, folder, FEW, checkpoint_every=1)
        assert outcome(folder) == whole, calls


@pytest.mark.parametrize("method", KINDS)
def test_a_disk_that_fills_at_any_write_is_named_and_costs_nothing_that_was_saved(tmp_path, monkeypatch, method):
    go_on(method, tmp_path / "whole", FEW)
    whole = outcome(tmp_path / "whole")
    replace = os.replace
    for calls in range(1, 1 + len(whole)):
        folder = tmp_path / f"full {calls}"
        made = 0

        def full(source, target, limit=calls):
            nonlocal made
            made += 1
            if made >= limit:
                raise OSError(errno.ENOSPC, "No space left on device")
            replace(source, target)

        with monkeypatch.context() as patch, pytest.raises(StoreError, match="No space left on device"):  # noqa: PT012
            patch.setattr(os, "replace", full)
            go_on(method, folder, FEW)
        assert not list(folder.rglob("*.part"))
        go_on(method, folder, FEW)
        assert outcome(folder) == whole


def test_a_member_that_does_not_fit_on_the_disk_leaves_the_previous_episode_whole(tmp_path, stopped):
    lay_out(stopped["model-zoo"], tmp_path)
    before = outcome(tmp_path)
    message = in_another_process(cramped, 20_000, tmp_path)
    assert "cannot write" in message
    assert "members/0003.safetensors" in message
    assert "File too large" in message
    assert outcome(tmp_path) == before
    assert go_on("model-zoo", tmp_path).finished


def test_a_second_writer_is_told_who_is_at_work(tmp_path):
    first = episodes(learner_of(METHODS["fine-tune"]), TOYS, tmp_path)
    next(first)
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=rf"is in use by process {os.getpid()} on "):
        go_on("fine-tune", tmp_path)
    assert contents(tmp_path) == before
    first.close()
    assert go_on("fine-tune", tmp_path).finished


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        1 / 0  # noqa: B018
    with lock_folder(tmp_path):
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()


SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

keys = st.text(max_size=6).filter(lambda key: key != "checksum")
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
)
plain = st.dictionaries(
    keys,
    st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)),
    max_size=4,
)


@pytest.fixture(scope="module")
def spare(tmp_path_factory):
    return tmp_path_factory.mktemp("spare")


@SETTINGS
@given(content=plain, indent=st.none() | st.just(1))
def test_json_comes_back_as_it_was(spare, content, indent):
    save_json(spare / "any.json", content, indent=indent)
    assert load_json(spare / "any.json") == content


@SETTINGS
@given(content=plain, data=st.data())
def test_a_changed_byte_of_json_is_found_or_changes_nothing(spare, content, data):
    path = spare / "changed.json"
    save_json(path, content)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :])
    try:
        read = load_json(path)
    except StoreError as error:
        found = str(path) in str(error)
    else:
        found = json.dumps(read, sort_keys=True) == json.dumps(content, sort_keys=True)
    assert found


@SETTINGS
@given(content=plain, data=st.data())
def test_json_that_was_cut_short_is_found(spare, content, data):
    path = spare / "short.json"
    save_json(path, content)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    with pytest.raises(StoreError, match=r"short\.json"):
        load_json(path)


tensors = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(lambda name: name != "__metadata__"),
    st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "float16"]).flatmap(
        lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    ),
    max_size=3,
).map(lambda found: {name: torch.from_numpy(array.copy()) for name, array in found.items()})


def bits(tensor):
    return (tensor.dtype, tuple(tensor.shape), tensor.contiguous().numpy().tobytes())


@SETTINGS
@given(given_tensors=tensors, info=plain, checked=st.booleans())
def test_tensors_come_back_bit_for_bit(spare, given_tensors, info, checked):
    digest = save_tensors(spare / "any.safetensors", given_tensors, info)
    read, record = load_tensors(spare / "any.safetensors", digest if checked else None)
    assert {name: bits(tensor) for name, tensor in read.items()} == {
        name: bits(tensor) for name, tensor in given_tensors.items()
    }
    assert record == info


@SETTINGS
@given(given_tensors=tensors, info=plain, data=st.data())
def test_a_changed_byte_of_tensors_is_found(spare, given_tensors, info, data):
    path = spare / "changed.safetensors"
    digest = save_tensors(path, given_tensors, info)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :])
    with pytest.raises(StoreError, match=r"changed\.safetensors"):
        load_tensors(path, digest)


def test_a_changed_byte_is_found_without_a_record_of_the_checksum_too(tmp_path):
    path = tmp_path / "alone.safetensors"
    given_tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3)}
    save_tensors(path, given_tensors, {"epochs": 3})
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            read, info = load_tensors(path)
        except StoreError:
            continue
        assert info == {"epochs": 3}, place
        assert {name: bits(tensor) for name, tensor in read.items()} == {
            name: bits(tensor) for name, tensor in given_tensors.items()
        }, place


def test_the_same_tensors_make_the_same_file(tmp_path):
    given_tensors = {name: torch.arange(3.0) for name in "zyxab"}
    backwards = dict(reversed(given_tensors.items()))
    assert save_tensors(tmp_path / "1", given_tensors, {"a": 1}) == save_tensors(tmp_path / "2", backwards, {"a": 1})
    channels_last = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    save_tensors(tmp_path / "3", {"x": channels_last})
    assert torch.equal(load_tensors(tmp_path / "3")[0]["x"], channels_last)


def test_tensors_of_another_net_are_refused_by_name():
    net = with_norm((4,))
    good = net.state_dict()
    bad = {
        "lacks the tensor '1.weight'": {name: tensor for name, tensor in good.items() if name != "1.weight"},
        "holds a tensor '9.weight'": {**good, "9.weight": torch.zeros(1)},
        r"'1.weight' is \(8, 5\)": {**good, "1.weight": torch.zeros(8, 5)},
        "'1.bias' is .*float64": {**good, "1.bias": torch.zeros(8, dtype=torch.float64)},
    }
    for message, tensors in bad.items():
        with pytest.raises(StoreError, match=f"the file.*{message}"):
            load_state(net, tensors, "the file")


def test_a_run_that_has_saved_nothing_may_be_begun_anew_with_other_settings(tmp_path):
    work = episodes(learner_of(METHODS["model-zoo"]), TOYS, tmp_path)
    work.close()
    RunFolder(tmp_path).begin(describe(learner_of(METHODS["model-zoo"], seed=1), TOYS))
    found = run(learner_of(METHODS["model-zoo"]), TOYS, tmp_path)
    assert found.finished
    with pytest.raises(SettingsError, match="seed was 0, now 1"):
        run(learner_of(METHODS["model-zoo"], seed=1), TOYS, tmp_path)


def test_functions_of_a_run_that_is_kept_need_a_name(tmp_path):
    nameless = learner_of(METHODS["model-zoo"], backbone=lambda shape, dropout=0.0: with_norm(shape, dropout))
    with pytest.raises(SettingsError, match="backbone is a lambda"):
        run(nameless, TOYS, tmp_path / "kept")
    assert not (tmp_path / "kept" / "run.json").exists()
    assert run(nameless, TOYS[:1]).finished


def test_damaged_results_say_that_they_can_be_written_anew(tmp_path, stopped):
    lay_out({**stopped["model-zoo"], "results.json": b"{"}, tmp_path)
    with pytest.raises(StoreError, match="or remove it: continuing the run writes it again"):
        go_on("model-zoo", tmp_path)


def test_a_full_disk_is_told_from_other_reasons_also_where_tensors_are_written(tmp_path, monkeypatch):
    def fail(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(files, "save_arrays", fail)
    with pytest.raises(StoreError, match="No space left on device; the file that was there is unchanged") as caught:
        files.save_tensors(tmp_path / "file", {"x": torch.zeros(1)})
    assert caught.value.__cause__.errno == errno.ENOSPC


def test_what_an_episode_writes_does_not_grow_with_the_tasks(tmp_path):
    run(learner_of(METHODS["isolated"]), benchmark(6), tmp_path)
    sizes = [file.stat().st_size for file in sorted((tmp_path / "test_votes").iterdir())]
    assert len(sizes) == 6
    assert sizes[0] == sizes[2] == sizes[4]
    assert sizes[1] == sizes[3] == sizes[5]  # tasks of another number of classes take turns
