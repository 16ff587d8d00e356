"""`zoo serve --learn`: archives from strangers, one training at a time, and how it comes on."""

import asyncio
import gzip
import io
import json
import shutil
import socket
import struct
import tarfile
import tempfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoolearn
from archives import files, tarred, zipped
from processes import eventually
from servers import Client, png, serving
from zoolearn.files import load_json, save_json
from zoolearn.locks import lock_folder
from zoolearn.zoo.serve.archive import open_unpacked, unpack
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.problems import Problem
from zoolearn.zoo.serve.training import Training, remove_left_behind
from zoos import TASKS, alike, answers, small_zoo

pytestmark = pytest.mark.slow  # servers are started

SMALL = replace(Limits(), archive_entries=50, picture_bytes=100_000, unpacked_bytes=400_000)


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, to
    return entry


def unpacking(folder: Path, content: bytes, limits: Limits = SMALL) -> tuple[dict[str, int], list[str]]:
    (folder / "archive").write_bytes(content)
    (folder / "pictures").mkdir(exist_ok=True)
    return unpack(folder / "archive", folder / "pictures", limits)


class TestArchives:
    @pytest.mark.parametrize("top", ["", "birds/"])
    @pytest.mark.parametrize(
        "packed", [zipped, tarred, lambda content: tarred(content, "w:gz"), lambda content: zipped(content, zipfile.ZIP_STORED)],
        ids=["zip", "tar", "tar.gz", "stored"],
    )  # fmt: skip
    def test_images_come_out_with_their_classes_and_names(self, tmp_path, packed, top):
        extra = {f"{top}kind 0/notes.txt": b"x", f"{top}kind 0/.hidden.png": b"x", "__MACOSX/kind 0/._1.png": b"x"}
        content = files(top=top)
        told = {"kind 0": 6, "kind 1": 6}, [f"{top}kind 0/notes.txt"]
        assert unpacking(tmp_path, packed({**extra, **content})) == told, "what is no image is named, litter is not"
        source = open_unpacked(tmp_path / "pictures")
        assert [source.name(row) for row in range(len(source))] == list(content)
        assert [source.open_row_file(row).read_bytes() for row in range(len(source))] == list(content.values())
        assert sorted(path.name for path in (tmp_path / "pictures").iterdir())[:2] == ["000000.png", "000001.png"]

    @pytest.mark.parametrize(
        "name",
        ["../evil/1.png", "a/../../evil.png", "/etc/evil.png", "a\\..\\evil.png", "C:/evil.png", "a/\x1b[2J.png", "a/../b/1.png"],
    )  # fmt: skip
    def test_names_that_lead_elsewhere_are_refused(self, tmp_path, name):
        for packed in (zipped, tarred):
            with pytest.raises(Problem, match="no plain name") as refused:
                unpacking(tmp_path, packed({**files(), name: b"x"}))
            assert refused.value.status == 422
        assert not list(tmp_path.parent.rglob("*evil*"))

    @pytest.mark.parametrize(
        "entry",
        [
            link("a/1.png", "/etc/passwd"),
            link("a", "/etc"),
            link("a/1.png", "/etc/passwd", tarfile.LNKTYPE),
            link("a/1.png", "", tarfile.CHRTYPE),
            link("a/1.png", "", tarfile.FIFOTYPE),
        ],
        ids=["link", "folder link", "hard link", "device", "pipe"],
    )
    def test_links_and_devices_are_refused(self, tmp_path, entry):
        with pytest.raises(Problem, match="a link or no plain file"):
            unpacking(tmp_path, tarred({"link": entry, **files()}))

    def test_a_link_in_a_zip_is_refused(self, tmp_path):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            entry = zipfile.ZipInfo("a/1.png")
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, "/etc/passwd")
        with pytest.raises(Problem, match="a link or no plain file"):
            unpacking(tmp_path, file.getvalue())

    @pytest.mark.parametrize("packed", [zipped, lambda content: tarred(content, "w:gz")], ids=["zip", "tar.gz"])
    def test_bombs_end_where_the_limit_is(self, tmp_path, packed):
        bombs = {
            "one file": {"a/1.png": bytes(10_000_000)},
            "many files": {f"a/{number}.png": bytes(90_000) for number in range(10)},
            "many entries": {f"a/{number}.png": b"" for number in range(51)},
        }
        for content in bombs.values():
            with pytest.raises(Problem) as refused:
                unpacking(tmp_path, packed(content))
            assert refused.value.status == 413
            written = sum(path.stat().st_size for path in (tmp_path / "pictures").iterdir())
            assert written <= SMALL.unpacked_bytes + SMALL.picture_bytes
            shutil.rmtree(tmp_path / "pictures")

    def test_what_is_passed_over_is_counted_too(self, tmp_path):
        with pytest.raises(Problem) as refused:
            unpacking(tmp_path, tarred({"readme.txt": bytes(2_000_000), **files()}, "w:gz"))
        assert refused.value.status == 413

    def test_a_tar_whose_header_claims_to_be_endless_is_refused(self, tmp_path):
        for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            entry = tarfile.TarInfo("x")
            entry.type, entry.size = kind, 1 << 33
            raw = entry.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
            with pytest.raises(Problem) as refused:
                unpacking(tmp_path, gzip.compress(raw))
            assert refused.value.status == 413

    def test_a_zip_that_lists_more_than_can_be_read_is_refused(self, tmp_path):
        plain = zipped(files())
        place = plain.rfind(b"PK\x05\x06")
        for tail in (
            plain[place : place + 12] + struct.pack("<I", 1 << 30) + plain[place + 16 :],
            b"PK\x06\x07" + bytes(16) + plain[place:],
        ):
            with pytest.raises(Problem) as refused:
                unpacking(tmp_path, plain[:place] + tail)
            assert refused.value.status == 413

    @pytest.mark.parametrize(
        ("content", "status", "word"),
        [
            (b"", 415, "no archive"),
            (b"Rar!\x1a\x07", 415, "no archive"),
            (zipped(files())[:-40], 422, "cut off"),
            (zipped(files())[:40] + b"x" * 100, 422, "cut off"),
            (tarred(files(), "w:gz")[:200], 422, "damaged"),
            (b"\x1f\x8b" + b"x" * 50, 422, "damaged"),
            (zipped({}), 422, "no image"),
            (zipped({"a/notes.txt": b"x"}), 422, "no image"),
            (zipped({"1.png": b"x", "a/2.png": b"x"}), 422, "in no folder"),
            (zipped({"train/1.png": b"x", "train/2.png": b"x", "test/1.png": b"x", "test/2.png": b"x"}), 422, "no classes"),
            (zipped({**files(), "a" * 300 + "/1.png": b"x", "a" * 300 + "/2.png": b"x"}), 422, "characters"),
            (zipped(files(), zipfile.ZIP_LZMA), 422, "deflate"),
        ],
    )  # fmt: skip
    def test_what_is_no_task_is_refused_and_says_what_to_send(self, tmp_path, content, status, word):
        with pytest.raises(Problem) as refused:
            unpacking(tmp_path, content)
        assert refused.value.status == status
        assert word in refused.value.detail

    def test_a_damaged_file_inside_is_found(self, tmp_path):
        content = bytearray(zipped(files(), zipfile.ZIP_STORED))
        content[content.find(b"IDAT")] ^= 1
        with pytest.raises(Problem, match="damaged"):
            unpacking(tmp_path, bytes(content))


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    return small_zoo(tmp_path_factory.mktemp("learner") / "zoo", TASKS[:2]).path


@pytest.fixture
def folder(original, tmp_path, monkeypatch) -> Path:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return Path(shutil.copytree(original, tmp_path / "zoo"))


def events(client: Client) -> list[dict[str, Any]]:
    """Every state until the training is done."""
    said = client.get("/training")
    assert said.headers["content-type"].startswith("text/event-stream")
    parts = said.body.decode().split("\n\n")
    return [json.loads(part.removeprefix("data: ")) for part in parts if part.startswith("data: ")]


def left_behind(folder: Path) -> list[Path]:
    return list((folder.parent / "temporary").glob("zoo-serve-*"))


class TestLearning:
    def test_a_task_is_learned_while_predictions_go_on(self, folder):
        with serving(folder, learns=True) as client:
            assert events(client) == [{"state": "idle"}]
            content = zipped({**files(), "kind 0/broken.png": b"no image"})
            said = client.post("/tasks/new%2Fkinds?skip_broken=true", content, "application/zip")
            assert (said.status, said.json) == (
                202,
                {
                    "task": "new/kinds",
                    "images": {"kind 0": 7, "kind 1": 6},
                    "not_used": 0,
                    "not_used_first": [],
                    "follow": "/training",
                },
            )
            assert client.get("/healthz").json["training"] is True
            assert client.rows("stripes", TASKS[0].test.x[:1].tolist()).status == 200
            second = client.post("/tasks/other", zipped(files()), "application/zip")
            assert second.status == 409
            assert "wait" in second.detail
            states = events(client)
            assert states[-1]["state"] == "learned"
            assert states[-1]["accuracy"]["new/kinds"]["before"] is None
            assert {state["state"] for state in states} <= {"reading", "training", "learned"}
            eventually(
                lambda: (
                    client.post("/tasks/new%2Fkinds/predict", png(np.full((1, 8, 8), 150)), "image/png").status == 200
                )
            )
            one = zipped({name: data for name, data in files().items() if "kind 1" in name})
            alone = client.post("/tasks/alone", one, "application/zip")
            assert (alone.status, "one class, 'kind 1'" in alone.detail) == (422, True)
            spaced = zipped({name.replace("kind 1", "kind 1 "): data for name, data in files().items()})
            refused = client.post("/tasks/spaced", spaced, "application/zip")
            assert (refused.status, "'kind 1 ', with spaces around it" in refused.detail) == (422, True)
            assert "zoo_trainings_learned 1" in client.get("/metrics").body.decode()
            assert left_behind(folder) == []
        assert zoolearn.open(folder).tasks["new/kinds"].classes == ("kind 0", "kind 1")

    def test_a_task_grows_by_a_class_that_is_announced_and_older_questions_are_answered_by_names(self, folder):
        third = {name: data for name, data in files(3).items() if "kind 2" in name}
        written = folder.parent / "kinds"
        for name, data in files().items():
            (written / name).parent.mkdir(parents=True, exist_ok=True)
            (written / name).write_bytes(data)
        zoolearn.open(folder).learn_from("kinds", written)
        with serving(folder, learns=True) as client:
            refused = client.post("/tasks/kinds", zipped(third), "application/zip")
            assert (refused.status, refused.json["new_classes"]) == (409, ["kind 2"])
            assert "kinds: 1 new class kind 2 with 6 rows" in refused.detail
            assert "send it again with ?new_class=kind%202" in refused.detail
            for wrong, why in (
                ("new_class=kind%202&new_class=otter", "class 'otter' was announced as new, but has no row"),
                ("new_class=kind%202&heads_only=true", "class 'kind 2' is new in task 'kinds'; a head alone"),
            ):
                refused = client.post(f"/tasks/kinds?{wrong}", zipped(third), "application/zip")
                assert (refused.status, why in refused.detail) == (422, True), "before anything is begun"
            refused = client.post("/tasks/other?heads_only=true", zipped(files()), "application/zip")
            assert (refused.status, "leave out heads_only" in refused.detail) == (422, True)
            said = client.post("/tasks/kinds?new_class=kind%202", zipped(third), "application/zip")
            assert (said.status, said.json["images"]) == (202, {"kind 2": 6})
            state = events(client)[-1]
            assert (state["state"], state["accuracy"]["kinds"]["change"]) == ("learned", None)
            grown, scores = state["accuracy"]["kinds"]["grown"], zoolearn.open(folder).scores("kinds")
            assert grown["new_classes"] == {"kind 2": scores.of_class("kind 2").to_json()}, "old and new are told apart"
            old = [scores.of_class(f"kind {number}") for number in range(2)]
            assert grown["earlier_classes"]["right"] == sum(share.right for share in old)
            assert grown["new_rows"] is None
            assert grown["change"]["rows"] == grown["earlier_classes"]["rows"] == sum(share.rows for share in old)

            def answer():
                (found,) = client.post("/tasks/kinds/predict?votes=true", next(iter(third.values())), "image/png").json[
                    "predictions"
                ]
                return found

            eventually(lambda: len(answer()["probabilities"]) == 3)
            assert [*answer()["probabilities"]] == ["kind 0", "kind 1", "kind 2"]
            assert [len(vote["probabilities"]) for vote in answer()["votes"]] == [2, 3], "each speaks of what it knows"
            again = client.post("/tasks/kinds", zipped(files()), "application/zip")
            assert again.status == 202
            assert "skip_known=true" in events(client)[-1]["detail"]
            more = {name: data for name, data in files(3, count=9).items() if "kind 2" in name}
            assert client.post("/tasks/kinds?heads_only=true", zipped(more), "application/zip").status == 202
            state = events(client)[-1]
            assert (state["state"], zoolearn.open(folder).members[-1].rows_trained) == ("learned", 0)
            again = state["accuracy"]["kinds"]["grown"]
            assert again["change"]["rows"] + again["new_rows"]["rows"] == zoolearn.open(folder).scores("kinds").rows

    def test_a_training_that_fails_says_why_in_a_line_and_leaves_the_place(self, folder):
        broken = {**files(), "kind 0/broken.png": b"no image"}
        with serving(folder, learns=True) as client:
            assert client.post("/tasks/new", tarred(broken), "application/x-tar").status == 202
            last = events(client)[-1]
            assert last["state"] == "failed"
            assert "1 of 13 rows cannot be read" in last["detail"]
            assert str(folder.parent) not in last["detail"]
            assert "\n" not in last["detail"]
            assert client.service.training.taken is False
            assert "zoo_trainings_failed 1" in client.get("/metrics").body.decode()

    def test_a_refused_archive_frees_the_place(self, folder):
        with serving(folder, learns=True, archive_bytes=100_000) as client:
            for body, status in ((b"nothing", 415), (zipped({}), 422), (b"PK\x03\x04" + bytes(100_000), 413)):
                assert client.post("/tasks/new", body, "application/zip").status == status
            assert client.post("/tasks/%20", zipped(files()), "application/zip").status == 422
            assert client.post("/tasks/stripes", zipped(files()), "application/zip").status == 409
            assert left_behind(folder) == []
            assert client.service.training.taken is False
            said = client.ask("PUT", "/tasks/new")
            assert (said.status, said.headers["allow"]) == (405, "GET, POST")

    def test_a_full_disk_does_not_hold_the_place(self, folder, monkeypatch):
        def full(**_: object) -> str:
            raise OSError(28, "No space left on device")

        with serving(folder, learns=True) as client:
            monkeypatch.setattr("zoolearn.zoo.serve.training.tempfile.mkdtemp", full)
            said = client.post("/tasks/new", b"nothing", "application/zip")
            assert (said.status, said.headers["retry-after"]) == (503, "60")
            monkeypatch.undo()
            assert client.post("/tasks/new", b"nothing", "application/zip").status == 415

    def test_a_slow_sender_holds_the_place_only_so_long(self, folder):
        with serving(folder, learns=True, archive_seconds=1.0) as client:
            head = b"POST /tasks/new HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
            with socket.create_connection(("127.0.0.1", client.port)) as slow:
                slow.sendall(head + b"PK")
                eventually(lambda: client.service.training.taken)
                eventually(lambda: not client.service.training.taken)
                assert b" 408 " in slow.recv(1000)

    def test_what_a_killed_server_left_is_deleted_by_the_next_and_nothing_else(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        (tmp_path / "zoo-serve-left" / "pictures").mkdir(parents=True)
        (tmp_path / "zoo-serve-left" / "pictures" / "private.png").touch()
        (tmp_path / "another").mkdir()
        (tmp_path / "zoo-serve-link").symlink_to(tmp_path / "another")
        with lock_folder(tmp_path / "zoo-serve-running"):
            remove_left_behind()
            assert {path.name for path in tmp_path.iterdir()} == {"another", "zoo-serve-link", "zoo-serve-running"}

    def test_who_follows_hears_the_end_though_news_come_while_the_server_stops(self, tmp_path):
        async def main() -> list[str]:
            training, heard = Training(tmp_path, Limits()), []
            training.taken = training.stopping = True
            training.task = asyncio.create_task(asyncio.Event().wait())

            async def listen() -> None:
                async for event in training.follow():
                    heard.append(json.loads(event.removeprefix("data: "))["state"])

            listener = asyncio.create_task(listen())
            for state in ("training", "failed"):
                while len(heard) < {"training": 1, "failed": 2}[state]:
                    await asyncio.sleep(0)
                    assert not listener.done()
                training.taken = state == "training"
                training.say({"state": state})
            await listener
            training.task.cancel()
            return heard

        assert asyncio.run(main()) == ["idle", "training", "failed"]

    def test_a_server_that_stops_ends_its_training_and_leaves_the_zoo_whole(self, tmp_path, monkeypatch):
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
        index = load_json(zoo.path / "zoo.json")
        index["settings"]["recipe"]["epochs"] = 100_000  # the next training is a long one
        save_json(zoo.path / "zoo.json", index)
        before = answers(zoo)
        followed: list[list[dict[str, Any]]] = []
        with serving(zoo.path, learns=True) as client:
            assert client.post("/tasks/new", zipped(files()), "application/zip").status == 202
            listener = threading.Thread(target=lambda: followed.append(events(client)))
            listener.start()
            eventually(lambda: client.service.training.state["state"] == "training")
        listener.join()
        assert followed[0][-1]["state"] == "failed"
        assert "the server was stopped" in followed[0][-1]["detail"]
        again = zoolearn.open(zoo.path)
        assert list(again.tasks) == ["stripes"]
        assert alike(answers(again), before)
        assert left_behind(zoo.path) == []

    def test_features_cannot_be_taught_with_images(self, tmp_path):
        from toys import blobs

        zoolearn.new(tmp_path / "zoo", epochs=1).learn(blobs())
        with serving(tmp_path / "zoo", learns=True) as client:
            assert client.post("/tasks/new", zipped(files()), "application/zip").status == 422
