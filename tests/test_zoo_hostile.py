"""A zoo folder from a stranger: whatever its files say, opening it is safe, and what is wrong is named."""

import errno
import json
import os
import re
import struct
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import zoolearn
from toys import contents
from zoolearn.errors import SettingsError, StoreError, ZooError
from zoolearn.files import load_json, save_json
from zoolearn.training.fit import run_to_end
from zoos import TASKS, answers, small_zoo

pytestmark = pytest.mark.slow  # zoos are grown


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    return small_zoo(tmp_path_factory.mktemp("original") / "zoo", TASKS[:2]).path


@pytest.fixture
def zoo(original, tmp_path) -> Path:
    import shutil

    return Path(shutil.copytree(original, tmp_path / "zoo"))


JOURNALS = ("episodes", "rows", "contents", "log")


def index_of(folder: Path) -> dict[str, Any]:
    """The head, with the lines of the journals in it."""
    head = load_json(folder / "zoo.json")
    return {**head, **{kind: [*map(json.loads, lines_of(folder, head[kind]["file"]))] for kind in JOURNALS}}


def lines_of(folder: Path, file: str) -> list[bytes]:
    return (folder / "index" / file).read_bytes().splitlines(keepends=True)


def about(record: Any) -> list[Any]:
    """What fits a record in the table of contents, also one that lies."""
    arrival, episode, members = record["arrival"], record["episode"], record["members"]
    measures = {**episode["measures"], **episode.get("since", {})}
    others = dict.fromkeys(name for member in members for name in member["share"] if name not in measures)
    losses = {name: measure.get("loss") for name, measure in measures.items()}
    numbers = [member["number"] for member in members]
    files = re.findall(r'"([0-9a-f]{64})"', json.dumps(record))
    beginnings = "".join(sorted(name[:8] for name in {*files}))
    return [
        arrival and arrival["task"],
        bool(arrival and arrival["train"]),
        numbers,
        losses,
        [*others],
        beginnings,
        episode.get("remade", False),
    ]


def save_index(folder: Path, index: dict[str, Any]) -> None:
    """Writes what `index_of` gave, with checksums that fit; also what JSON should not hold but Python reads."""
    with suppress(TypeError, KeyError):
        index["contents"] = [
            [*entry[:2], about(record)] for entry, record in both(index["contents"], index["episodes"])
        ]
    save_lines(folder, index, {kind: [json.dumps(item).encode() + b"\n" for item in index[kind]] for kind in JOURNALS})


def both(one: Any, other: Any) -> Any:
    return zip(one, other, strict=True)


def save_lines(folder: Path, head: dict[str, Any], lines: dict[str, list[bytes]]) -> Path:
    """Writes these lines, with checksums that fit."""
    for place, entry in enumerate(map(json.loads, lines["contents"])):
        with suppress(TypeError, ValueError):
            entry[:2] = (
                [sum(map(len, lines[kind][: place + 1])), sha256(lines[kind][place]).hexdigest()[:32]]
                for kind in ("episodes", "rows")
            )
            lines["contents"][place] = json.dumps(entry).encode() + b"\n"
    files = {kind: load_json(folder / "zoo.json")[kind]["file"] for kind in JOURNALS}
    for kind, name in files.items():
        data = b"".join(lines[kind])
        (folder / "index" / name).write_bytes(data)
        digest = sha256(data).hexdigest() if kind in ("contents", "log") else None
        head = {**head, kind: {"file": name, "bytes": len(data), "digest": digest}}
    body = json.dumps(head, sort_keys=True, separators=(",", ":"))
    (folder / "zoo.json").write_text(json.dumps({**head, "checksum": sha256(body.encode()).hexdigest()}))
    return folder


def altered(folder: Path, *way: Any, value: Any) -> Path:
    """The folder with one value of its index replaced, and checksums that fit."""
    index = place = index_of(folder)
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = value
    save_index(folder, index)
    return folder


def member(number: int, *way: Any) -> tuple[Any, ...]:
    return "episodes", number, "members", 0, *way


def task(number: int, *way: Any) -> tuple[Any, ...]:
    return "episodes", number, "arrival", *way


def episode(number: int, *way: Any) -> tuple[Any, ...]:
    return "episodes", number, "episode", *way


WRONG = [
    (member(0, "file"), "../../../etc/passwd"),
    (member(0, "file"), "/etc/passwd"),
    (member(0, "file"), "0" * 63 + "/"),
    (member(0, "votes"), None),
    (member(0, "tasks"), ["nowhere"]),
    (member(0, "tasks"), []),
    (member(1, "number"), 1),
    (member(0, "share"), {"stripes": 1e999}),
    (member(0, "share"), {"stripes": -1}),
    (member(0, "share"), {"dots": 1.0}),
    (member(0, "fitted"), ["stripes"]),
    (member(0, "fitted"), ["nowhere"]),
    (member(0, "episode"), 99),
    (member(0, "seed"), "seed"),
    (task(0, "train", "x", "digest"), ".." * 32),
    (task(0, "train", "x", "dtype"), "object"),
    (task(0, "train", "x", "shape"), [1 << 40, 1, 8, 8]),
    (task(0, "train", "x", "shape"), [24, 1, 8, 9]),
    (task(0, "train", "y", "shape"), [25]),
    (task(0, "classes"), ["one"]),
    (task(0, "classes"), ["same", "same"]),
    (task(0, "classes"), ["one", "\x1b[2J"]),
    (task(0, "task"), "\x1b]0;owned\x07"),
    (task(0, "task"), "dots"),
    (task(0, "task"), None),
    (task(0, "test"), None),
    (task(0, "counts"), {"nowhere": 5}),
    (task(0, "counts"), {"0": -5}),
    (task(0, "counts"), {"0": "many"}),
    (task(0, "asked"), [1]),
    (task(0, "votes"), "0" * 64),
    (task(0, "fix_train"), {"pairs": {"digest": "0" * 64, "dtype": "int64", "shape": [1, 3]}, "deleted": 0}),
    (task(0, "fix_train"), {"pairs": {"digest": "0" * 64, "dtype": "int64", "shape": [1, 2]}, "deleted": 99}),
    (task(0, "train", "names"), {"digest": "0" * 64, "dtype": "int64", "shape": [1]}),
    (task(0, "episode"), 2),
    (task(0, "augment"), {"a": 1}),
    (episode(0, "task"), "dots"),
    (episode(0, "number"), 7),
    (episode(0, "measures"), {"stripes": {"accuracy": 2, "confidence": 0}}),
    (episode(1, "measures"), {}),
    (episode(0, "when"), "\x1b[2J"),
    (("settings", "shape"), [1, 8]),
    (("settings", "columns"), ["a", "b"]),
    (("settings", "columns"), [7]),
    (("settings", "shape"), [3, 100_000, 100_000]),
    (("settings", "recipe", "epochs"), "many"),
    (("settings", "recipe", "schedule"), "exec"),
    (("settings", "recipe", "lr"), -1),
    (("settings", "recipe", "device"), ["cpu"]),
    (("settings", "tasks_per_episode"), 0),
    (("settings", "replay"), True),
    (("settings", "recipe", "flip_tta"), 1),
    (("settings", "grow"), 7),
    (("settings", "grow"), {"chains": 2}),
    (("settings", "grow"), {"name": "warm-start", "chains": 0}),
    (("settings", "grow"), {"name": "warm-start", "refit_heads": "yes"}),
    (("settings", "grow"), {"name": "warm-start", "os": "system"}),
    (("settings", "grow"), {"name": "elsewhere", "of": [1]}),
    (("generation",), -1),
    (("format",), 1),
    (("log", 0), {"when": "now"}),
    (("log", 0, "detail"), "\x1b[2J"),
    (("episodes", 0), []),
    (("episodes", 0, "members"), {"0": {}}),
    (("episodes", 1, "members"), []),
    (("episodes", 0, "arrival"), None),
]


@pytest.mark.parametrize(
    ("way", "value"), WRONG, ids=[f"{'.'.join(map(str, way))}={value!r:.30}" for way, value in WRONG]
)
def test_an_index_that_lies_is_refused_by_name(zoo, way, value) -> None:
    with pytest.raises(StoreError, match=r"zoo\.json|index/(episodes|contents|log)-1\.jsonl"):
        looked_through(altered(zoo, *way, value=value))


def looked_at(folder: Path) -> None:
    for _ in zoolearn.open(folder).index.records:
        pass


def looked_through(folder: Path) -> None:
    """Opens a zoo and asks it, which may be refused by a `ZooError` and nothing else; then reads all of it."""
    zoo = zoolearn.open(folder)
    for name in TASKS[0].name, TASKS[1].name:
        with suppress(ZooError):
            zoo.predict(TASKS[0].test.x[:1], name)
    for problem in run_to_end(zoo.verify()):
        raise StoreError(problem)


@pytest.mark.parametrize(
    "line", [[0, 0, ["dots", True, [2], {}, [], "", False]], [0, 0, [None, False, [], {}, [], "", False]], 7, [[], []]]
)
def test_a_table_of_contents_that_lies_is_refused(zoo, line) -> None:
    with pytest.raises(StoreError, match=r"index/(episodes|contents)-1\.jsonl"):
        looked_through(with_line(zoo, "contents", line))


def with_line(folder: Path, kind: str, line: Any) -> Path:
    """The folder with another last line in one journal, and checksums that fit."""
    head = load_json(folder / "zoo.json")
    lines = {kind: lines_of(folder, head[kind]["file"]) for kind in JOURNALS}
    lines[kind][-1] = json.dumps(line).encode() + b"\n"
    return save_lines(folder, head, lines)


@pytest.mark.parametrize("line", [[""], ["AAAA"], ["AAAAAAAAAAA="], {}])
def test_a_journal_of_rows_that_lies_is_refused(zoo, line) -> None:
    with pytest.raises(StoreError, match=r"index/rows-1\.jsonl"):
        looked_through(with_line(zoo, "rows", line))
    with suppress(StoreError):
        zoolearn.open(zoo).learn(TASKS[2])


@pytest.mark.parametrize(
    "mark", [{"file": "../../passwd"}, {"file": "episodes-1.jsonl/"}, {"bytes": -1}, {"bytes": 7}, {"digest": "0"}]
)
def test_a_head_that_lies_about_a_journal_is_refused(zoo, mark) -> None:
    head = load_json(zoo / "zoo.json")
    save_json(zoo / "zoo.json", {**head, "episodes": {**head["episodes"], **mark}})
    with pytest.raises(StoreError, match=r"zoo\.json|index/episodes-1\.jsonl"):
        zoolearn.open(zoo)


@pytest.mark.parametrize("kind", JOURNALS)
def test_any_byte_of_a_journal_that_differs_is_noticed(zoo, kind) -> None:
    path = zoo / "index" / load_json(zoo / "zoo.json")[kind]["file"]
    look = {"rows": lambda folder: zoolearn.open(folder).learn(TASKS[2]), "episodes": looked_at}.get(
        kind, zoolearn.open
    )
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StoreError, match=path.name):
            look(zoo)
    path.write_bytes(whole[:-1])
    with pytest.raises(StoreError, match=path.name):
        look(zoo)
    path.write_bytes(whole + b"a line that was never counted")
    zoolearn.open(zoo).learn(TASKS[2])
    assert [*zoolearn.open(zoo).tasks] == [task.name for task in TASKS[:3]]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[" * 100_000, '{"a":' * 100_000, '{"format": 1' + "0" * 5000 + "}", "null", "\x00\xff"],
    ids=["empty", "list", "cut", "deep list", "deep object", "huge number", "null", "binary"],
)
def test_an_index_that_is_no_index_is_refused(zoo, text) -> None:
    (zoo / "zoo.json").write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match=r"zoo\.json"):
        zoolearn.open(zoo)


def test_a_line_of_absurd_length_is_not_read_to_its_end(zoo, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.zoo.disk.plain_files.LONGEST_LINE", 100)
    with pytest.raises(StoreError, match="a line of more than 100 bytes"):
        zoolearn.open(zoo)


def test_a_head_of_absurd_size_is_not_even_read(zoo) -> None:
    with (zoo / "zoo.json").open("r+b") as file:
        file.truncate(1 << 32)  # sparse: it takes no room
    with pytest.raises(StoreError, match="more than any zoo's head"):
        zoolearn.open(zoo)


def files(folder: Path, place: str) -> list[Path]:
    return sorted((folder / place).iterdir())


@pytest.mark.parametrize("place", ["members", "data", "votes"])
@pytest.mark.parametrize("kind", ["file", "folder", "itself", "pipe"])
def test_links_and_other_odd_files_are_never_followed(zoo, tmp_path, place, kind) -> None:
    victim = files(zoo, place)[0]
    outside = tmp_path / "outside"
    outside.write_bytes(victim.read_bytes())
    if kind == "folder":
        (zoo / place).rename(tmp_path / "moved")
        (zoo / place).symlink_to(tmp_path / "moved")
    else:
        victim.unlink()
        {
            "file": lambda: victim.symlink_to(outside),
            "itself": lambda: victim.symlink_to(victim),
            "pipe": lambda: os.mkfifo(victim),
        }[kind]()
    with pytest.raises(ZooError, match=r"link|plain"):
        used(zoolearn.open(zoo))


def used(zoo: Any) -> None:
    """Opens all that a zoo holds, and learns."""
    for member in zoo.members:
        zoo.net(member.number)
    for name in zoo.tasks:
        zoo.task(name)
    zoo.learn(TASKS[2])


def test_a_head_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch) -> None:
    zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
    empty = zoolearn.new(tmp_path / "empty", epochs=1)
    least = (empty.path / "zoo.json").stat().st_size + 1
    monkeypatch.setattr("zoolearn.zoo.disk.index_files.LARGEST_HEAD", least)
    with pytest.raises(StoreError, match="give columns shorter names"):
        empty.learn(TASKS[0])
    assert zoolearn.open(empty.path).generation == empty.generation, "it can still be opened, and is as it was"
    with pytest.raises(StoreError, match="more than any zoo's head"):
        zoolearn.open(zoo.path)


@pytest.mark.parametrize("wrong", ["n" * 201, "net\N{NO-BREAK SPACE}v2"], ids=["long", "odd"])
@pytest.mark.parametrize("part", ["settings", "chosen"])
def test_settings_that_could_not_be_read_again_are_not_written(zoo, part, wrong) -> None:
    before, folder = (zoo / "zoo.json").read_bytes(), zoolearn.open(zoo).folder
    with (
        pytest.raises(SettingsError, match=r"could not be read again: .*nothing was changed"),
        folder.begin_change() as index,
    ):
        folder.commit(replace(index, **{part: replace(getattr(index, part), weigh=wrong)}))
    assert (zoo / "zoo.json").read_bytes() == before
    zoolearn.open(zoo).undo()


@pytest.mark.parametrize("name", [".lock", "checkpoints", "data", "index", "incoming"])
def test_a_link_cannot_make_a_writer_write_elsewhere(zoo, tmp_path, name) -> None:
    target = tmp_path / "precious"
    if name == ".lock":
        (zoo / ".lock").unlink(missing_ok=True)
        target.write_text("keep me")
    else:
        target.mkdir()
        (target / "keep me").touch()
        if (zoo / name).exists():
            (zoo / name).rename(tmp_path / "old")
    (zoo / name).symlink_to(target)
    before = contents(target) if target.is_dir() else target.read_text()
    with pytest.raises(StoreError, match="is a link"):
        zoolearn.open(zoo).learn(TASKS[2])
    assert (contents(target) if target.is_dir() else target.read_text()) == before


def test_an_index_that_is_a_link_is_refused(zoo, tmp_path) -> None:
    (zoo / "zoo.json").rename(tmp_path / "elsewhere.json")
    (zoo / "zoo.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(StoreError, match="is a link"):
        zoolearn.open(zoo)


def planted(folder: Path, content: bytes) -> Path:
    """The folder with a member's file replaced by other bytes, under a digest that fits."""
    digest = sha256(content).hexdigest()
    (folder / "members" / f"{digest}.safetensors").write_bytes(content)
    return altered(folder, *member(0, "file"), value=digest)


def safetensors(header: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


HARMFUL = {
    "huge header": struct.pack("<Q", 1 << 60) + b"{}",
    "huge tensor": safetensors({"heads.0.bias": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}),
    "other tensor": safetensors({"evil": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4),
    "deep metadata": safetensors({"__metadata__": {"zoolearn": "[" * 100_000}}),
    "a pickle": b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.",
    "nothing": b"",
}


@pytest.mark.parametrize("kind", HARMFUL)
def test_a_members_file_made_to_harm_is_refused(zoo, kind) -> None:
    opened = zoolearn.open(planted(zoo, HARMFUL[kind]))
    with pytest.raises(StoreError, match="safetensors"):
        opened.predict(TASKS[0].test.x, TASKS[0].name)


def test_a_members_file_of_another_dtype_is_refused(zoo, tmp_path) -> None:
    from safetensors.torch import save_file

    state = zoolearn.open(zoo).net(1).state_dict()
    save_file({name: tensor.double() for name, tensor in state.items()}, tmp_path / "double")
    opened = zoolearn.open(planted(zoo, (tmp_path / "double").read_bytes()))
    with pytest.raises(StoreError, match=r"is torch\.float64, not torch\.float32"):
        opened.predict(TASKS[0].test.x, TASKS[0].name)


@pytest.mark.parametrize("place", ["members", "data", "votes"])
def test_a_flipped_bit_is_found_by_verify(zoo, place) -> None:
    victim = files(zoo, place)[0]
    raw = bytearray(victim.read_bytes())
    raw[-1] ^= 1
    victim.write_bytes(raw)
    problems = run_to_end(zoolearn.open(zoo).verify())
    assert problems == [f"{place}/{victim.name} was altered: its checksum differs"]


def test_a_truncated_or_missing_file_is_named(zoo) -> None:
    victim = files(zoo, "data")[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert victim.name in str(run_to_end(zoolearn.open(zoo).verify()))
    with pytest.raises(StoreError, match=victim.name):
        [zoolearn.open(zoo).task(name) for name in ("stripes", "dots")]
    victim.unlink()
    assert "is missing" in str(run_to_end(zoolearn.open(zoo).verify()))


@pytest.mark.parametrize("call", ["checksum", "os.open", "Path.lstat", "Path.exists"])
def test_a_file_that_cannot_be_read_is_named(zoo, monkeypatch, call) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    opened = zoolearn.open(zoo)
    monkeypatch.setattr(f"zoolearn.zoo.disk.stored_files.{call}", fails)
    with pytest.raises(StoreError, match=r"zoo/\S+ cannot be read \(Permission denied\)"):
        opened.task(TASKS[0].name) if call == "os.open" else opened.refresh() if "Path" in call else opened.net(1)


def test_labels_out_of_range_are_refused(zoo) -> None:
    index = index_of(zoo)
    entry = index["episodes"][0]["arrival"]["train"]["y"]
    raw = b"\x7f" * 8 * entry["shape"][0]
    (zoo / "data" / f"{sha256(raw).hexdigest()}.bin").write_bytes(raw)
    entry["digest"] = sha256(raw).hexdigest()
    save_index(zoo, index)
    with pytest.raises(StoreError, match="altered"):
        zoolearn.open(zoo).task("stripes")


def test_a_zoo_on_a_medium_that_cannot_be_written_answers(zoo) -> None:
    expected = answers(zoolearn.open(zoo))
    (zoo / "data" / f"{'0' * 64}.bin").touch()  # a leftover that cannot be cleaned up
    for path in (zoo, *zoo.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert answers(zoolearn.open(zoo)).keys() == expected.keys()
    for path in (zoo, *zoo.rglob("*")):
        path.chmod(0o755)
