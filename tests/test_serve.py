"""A served zoo: every route says what the folder says, also while somebody changes it."""

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch

import zoolearn
from processes import PATIENCE, eventually, started
from servers import Client, Said, form, png, serving
from toys import blobs, pictures
from zoolearn import cli
from zoolearn.errors import UnknownTask
from zoolearn.zoo import Zoo
from zoolearn.zoo.answers.answers import Answers
from zoolearn.zoo.serve.batching import Backlog, Batcher
from zoolearn.zoo.serve.counters import Counters
from zoolearn.zoo.serve.guard import Guard
from zoolearn.zoo.serve.limits import Limits
from zoolearn.zoo.serve.live_zoo import LiveZoo, Outdated
from zoolearn.zoo.serve.page import shell
from zoolearn.zoo.serve.problems import Problem
from zoolearn.zoo.serve.rows import from_json
from zoolearn.zoo.serve.server import open_socket, own_names
from zoolearn.zoo.summary import describe_task
from zoos import HAZY, TASKS, small_zoo

pytestmark = pytest.mark.slow  # servers are started

X = TASKS[0].test.x
GUIDE = Path(__file__).parents[1] / "docs" / "serving.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return small_zoo(tmp_path_factory.mktemp("served") / "zoo", TASKS[:2]).path


@pytest.fixture(scope="module")
def client(folder):
    with serving(folder) as client:
        yield client


@pytest.fixture
def own(folder, tmp_path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(folder, tmp_path / "zoo"))


def probabilities(said: Said) -> np.ndarray:
    assert said.status == 200, said.body
    return np.array([list(row["probabilities"].values()) for row in said.json["predictions"]], np.float32)


class TestRoutes:
    def test_tasks_and_members_are_those_of_the_folder(self, client, folder):
        zoo = zoolearn.open(folder)
        said = client.get("/tasks").json
        assert (said["zoo"], said["generation"], said["shape"], said["learns"]) == ("zoo", 3, [1, 8, 8], False)
        assert [task["name"] for task in said["tasks"]] == ["stripes", "dots"]
        assert said["tasks"][0]["accuracy"] == zoo.measure("stripes").accuracy
        assert [point["episode"] for point in said["tasks"][0]["history"]] == [1, 2]
        assert client.get("/tasks/dots").json == said["tasks"][1]
        members = client.get("/members").json["members"]
        assert [member["votes_on"] for member in members] == [dict(member.share) for member in zoo.members]

    def test_long_lists_come_page_by_page_the_newest_first_asked_for_and_tasks_are_found_by_words(self, client):
        def listed(path: str) -> tuple[int, int, list[str]]:
            said = client.get(path).json
            return said["total"], said["first"], [task["name"] for task in said["tasks"]]

        assert listed("/tasks?count=1") == (2, 1, ["dots"])
        assert listed("/tasks?count=1&first=0") == (2, 0, ["stripes"])
        assert listed("/tasks?search=STRI") == (1, 0, ["stripes"])
        assert listed("/tasks?first=7") == (2, 7, [])
        assert client.get("/tasks?count=0").status == 422
        members = client.get("/members?count=1").json
        assert (members["total"], members["first"], members["members"][0]["number"]) == (2, 1, 2)

    def test_a_list_is_made_once_for_each_state_of_the_zoo(self, own, monkeypatch):
        made = []
        monkeypatch.setattr(
            "zoolearn.zoo.serve.listing.describe_task",
            lambda index, entry, majority: made.append(entry.name) or describe_task(index, entry, majority),
        )
        with serving(own) as client:
            lists = [client.get("/tasks").body for _ in range(3)]
            assert made == ["stripes", "dots"]
            assert len({*lists}) == 1
            zoolearn.open(own).learn(TASKS[2])
            eventually(lambda: client.get("/tasks").json["total"] == 3)
            assert made == ["stripes", "dots", "stripes", "dots", TASKS[2].name]

    def test_a_server_that_still_reads_its_nets_is_well_and_not_ready(self, own, monkeypatch):
        read, go_on = LiveZoo._prepare, threading.Event()
        monkeypatch.setattr(LiveZoo, "_prepare", lambda *given: go_on.wait() and read(*given))
        with serving(own) as client:
            assert client.get("/healthz").status == 200
            said = client.get("/readyz")
            assert (said.status, said.json) == (503, {"ready": False, "nets": 0, "members": 2})
            go_on.set()
            assert eventually(lambda: client.get("/readyz").status == 200)

    def test_answers_go_on_while_what_tells_tasks_apart_is_fitted_once(self, own, monkeypatch):
        fit, fits, go_on = Zoo.which_task, [], threading.Event()

        def slowly(zoo: Zoo) -> object:
            if threading.current_thread().daemon:
                fits.append(zoo.generation)
                go_on.wait()
            return fit(zoo)

        monkeypatch.setattr(Zoo, "which_task", slowly)
        with serving(own) as client, ThreadPoolExecutor(2) as pool:
            body = json.dumps({"rows": X[:1].tolist()})
            asked = [pool.submit(client.post, "/recognise", body, "application/json") for _ in range(2)]
            eventually(lambda: fits)
            assert client.rows("stripes", X[:1].tolist()).status == 200
            assert not any(question.done() for question in asked)
            go_on.set()
            assert [question.result().status for question in asked] == [200, 200]
            assert client.post("/recognise", body, "application/json").status == 200
        assert fits == [3]

    def test_a_server_that_does_not_learn_says_how_it_would(self, client):
        said = client.post("/tasks/rings", b"PK", "application/zip")
        assert (said.status, said.headers["allow"]) == (405, "GET")
        assert "does not learn" in said.json["detail"]
        said = client.get("/training")
        assert said.status == 404
        assert "does not learn" in said.json["detail"]
        assert "/training" not in client.get("/openapi.json").json["paths"]

    def test_the_task_of_a_row_is_found_out_or_null(self, client, folder):
        rows = np.concatenate([X[:4].numpy(), TASKS[1].test.x[:3].numpy(), np.zeros((1, 1, 8, 8), np.uint8)])
        for words, sure in (("", 0.5), ("?sure=0", 0.0), ("?sure=0.99", 0.99)):
            expected = zoolearn.open(folder).recognise(rows, sure)
            said = client.post(f"/recognise{words}", rows.tobytes(), "application/octet-stream")
            assert said.status == 200, said.body
            found = said.json["recognitions"]
            assert [(row["task"], row["class"]) for row in found] == [(row.task, row.label) for row in expected]
            assert [row["probability"] is None for row in found] == [row.task is None for row in expected]
            assert found[0]["chances"] == pytest.approx(expected[0].chances)

    @pytest.mark.parametrize("words", ["?sure=2", "?sure=nan", "?sure=much", "?surely=1", "?sure=0.5&votes=true"])
    def test_how_sure_is_a_number_from_0_to_1(self, client, words):
        said = client.post(f"/recognise{words}", X[:1].numpy().tobytes(), "application/octet-stream")
        assert said.status == 422
        assert "a number from 0 to 1" in said.json["detail"]

    def test_a_zoo_that_stores_no_rows_or_knows_no_task_says_so(self, tmp_path):
        zoolearn.new(tmp_path / "empty")
        for path, word in (
            (small_zoo(tmp_path / "bare", TASKS[:1], replay=0.0).path, "no rows"),
            (tmp_path / "empty", "no task"),
        ):
            with serving(path) as client:
                said = client.post("/recognise", X[:1].numpy().tobytes(), "application/octet-stream")
                assert said.status == 422
                assert word in said.json["detail"]

    def test_answers_are_those_of_the_zoo_in_every_form(self, client, folder):
        expected = zoolearn.open(folder).predict_proba(X[:4], "stripes").numpy()
        place = "/tasks/stripes/predict"
        as_json = client.rows("stripes", X[:4].tolist())
        as_bytes = client.post(place, X[:4].numpy().tobytes(), "application/octet-stream")
        as_form = client.post(place, *form({f"{row}.png": png(X[row]) for row in range(4)}))
        for said in (as_json, as_bytes, as_form):
            assert (probabilities(said) == expected).all()
        alone = client.post(place, png(X[2]), "image/png")
        assert probabilities(alone) == pytest.approx(expected[2:3], abs=1e-6)
        best = as_json.json["predictions"][0]
        assert best["class"] == TASKS[0].classes[int(expected[0].argmax())]
        assert best["probability"] == max(best["probabilities"].values())
        assert "votes" not in best

    def test_votes_come_if_asked_for_and_are_the_answer_on_average_at_the_task_s_temperature(self, client, folder):
        said = client.rows("stripes", X[:1].tolist(), "?votes=true")
        votes = said.json["predictions"][0]["votes"]
        assert [vote["member"] for vote in votes] == [1, 2]
        weights = [vote["weight"] for vote in votes]
        each = [list(vote["probabilities"].values()) for vote in votes]
        mean = np.average(each, axis=0, weights=weights) ** (1 / client.get("/tasks/stripes").json["temperature"])
        assert probabilities(said)[0] == pytest.approx(mean / mean.sum(), abs=1e-6)

    def test_what_is_not_sure_enough_or_strange_is_none_of_these_and_says_why(self, client, folder):
        noise = np.random.default_rng(0).integers(0, 256, (20, 1, 8, 8), dtype=np.uint8)
        rows = np.concatenate([X.numpy(), noise])
        plain = client.rows("stripes", rows.tolist()).json["predictions"]
        assert {row["none_of_these"] for row in plain} == {None}
        line = sorted(row["probability"] for row in plain[:20])[10]  # of the task's own rows
        said = client.rows("stripes", rows.tolist(), f"?sure={line}").json["predictions"]
        zoo = zoolearn.open(folder)
        assert [row["class"] for row in said] == zoo.predict(rows, "stripes", sure=line)
        strange = zoo.familiarity("stripes").strange(torch.from_numpy(rows)).tolist()
        assert [row["none_of_these"] == "strange" for row in said] == strange
        assert {row["none_of_these"] for row in said} == {None, "not sure", "strange"}
        assert [row["probability"] for row in said] == [row["probability"] for row in plain]
        assert 'zoo_answers_total{class="(none of these)",task="stripes"}' in client.get("/metrics").body.decode()

    def test_votes_of_unequal_weight_and_silent_members_are_told_as_they_are(self, tmp_path):
        zoo = small_zoo(tmp_path / "zoo", HAZY, replay=0.5)
        loud = {task.name: len(zoo.index.voters(task.name)) for task in HAZY}
        zoo.prune(loss=0.02)
        with serving(zoo.path) as client:
            tasks = client.get("/tasks").json["tasks"]
            members = client.get("/members").json["members"]
            said = {task.name: client.rows(task.name, task.test.x[:5].tolist(), "?votes=true") for task in HAZY}
        assert [task["accuracy"] for task in tasks] == [zoo.measure(task.name).accuracy for task in HAZY]
        assert [task["members"] for task in tasks] == [
            [member.number for member in zoo.index.voters(task.name)] for task in HAZY
        ]
        assert any(len(task["members"]) < loud[task["name"]] for task in tasks)
        assert [member["votes_on"] for member in members] == [
            {name: share for name, share in member.share.items() if name not in member.silent} for member in zoo.members
        ]
        for task in HAZY:
            expected = zoo.predict_proba(task.test.x[:5], task.name).numpy()
            assert probabilities(said[task.name]) == pytest.approx(expected, abs=1e-6)
        heard = [answer.json["predictions"][0]["votes"] for answer in said.values()]
        assert {0.5, 1.0} in [{vote["weight"] for vote in votes} for votes in heard], "some vote counts half of another"

    def test_features_are_taken_as_json_and_as_bytes_but_not_as_images(self, tmp_path):
        task = blobs()
        zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
        zoo.learn(task)
        expected = zoo.predict_proba(task.test.x[:3], "blobs").numpy()
        with serving(tmp_path / "zoo") as client:
            place = "/tasks/blobs/predict"
            assert (probabilities(client.rows("blobs", task.test.x[:3].tolist())) == expected).all()
            raw = client.post(place, task.test.x[:3].numpy().tobytes(), "application/octet-stream")
            assert (probabilities(raw) == expected).all()
            said = client.post(place, png(X[0]), "image/png")
            assert said.status == 415
            assert "rows of 6 finite numbers" in said.detail
            for huge in (1e300, 1e30):  # as files and learning refuse them
                assert client.rows("blobs", [[huge] * 6]).status == 422

    def test_rows_of_a_table_go_by_the_names_of_its_columns(self, tmp_path):
        lines = [f"{row},{row % 7},{'odd' if row % 2 else 'even'}" for row in range(40)]
        (tmp_path / "t.csv").write_text("\n".join(["age,size,label", *lines]))
        zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
        zoo.learn_from("parity", tmp_path / "t.csv")
        with serving(tmp_path / "zoo") as client:
            assert client.get("/tasks").json["columns"] == ["age", "size"]
            by_place = client.rows("parity", [[3, 5], [4, 1]]).json["predictions"]
            by_name = client.rows("parity", [{"size": 5, "age": 3}, {"age": 4, "size": 1}])
            assert by_name.json["predictions"] == by_place
            for row, problem in (
                ({"age": 3}, "row 1 lacks the column 'size'; this zoo takes age, size"),
                ({"age": 3, "sise": 5}, "row 1: unknown column 'sise'; did you mean 'size'"),
                ({"age": 3, "size": "big"}, "a text instead of a number in row 1, column 'size'"),
                ({"age": True, "size": 5}, "true or false instead of a number in row 1, column 'age'"),
                ({"age": 3, "size": None}, "null instead of a number in row 1, column 'size'"),
            ):
                refused = client.rows("parity", [row])
                assert refused.status == 422
                assert problem in refused.detail

    def test_a_name_of_a_column_may_hold_any_word(self):
        columns = ("true_rate", "is false")
        body = json.dumps({"rows": [{"is false": 2, "true_rate": 1}]}).encode()
        assert from_json(body, (2,), 8, columns).tolist() == [[1, 2]]

    def test_an_empty_zoo_is_served_too(self, tmp_path):
        zoolearn.new(tmp_path / "zoo")
        with serving(tmp_path / "zoo") as client:
            assert client.get("/tasks").json["shape"] is None
            assert client.rows("none", [[1]]).status == 404

    def test_a_name_with_a_slash_is_sent_as_2f(self, own):
        zoolearn.open(own).learn(pictures("sea/birds"))
        with serving(own) as client:
            assert client.get("/tasks/sea%2Fbirds").json["name"] == "sea/birds"
            assert client.rows("sea%2fbirds", X[:1].tolist()).status == 200
            assert client.get("/tasks/sea/birds").status == 404

    def test_the_pages_hold_nothing_of_the_zoo_and_need_nothing_from_outside(self, client):
        for path in ("/", "/docs"):
            said = client.get(path)
            assert said.status == 200
            assert b"stripes" not in said.body
            assert b"//" not in re.sub(
                rb"http://www\.w3\.org/\S+|^ *// .*$|; //.*$", b"", said.body, flags=re.MULTILINE
            )
            assert "default-src 'none'" in said.headers["content-security-policy"]
        assert shell("/nowhere") is None


class TestToken:
    ROUTES = ("/", "/docs", "/openapi.json", "/tasks", "/tasks/stripes", "/members", "/metrics", "/no/such/path")

    def test_every_route_but_health_needs_it(self, folder):
        with serving(folder, token="open sesame") as client:
            stranger = Client(client.server, client.port)
            assert stranger.get("/healthz").json == {"status": "ok", "generation": 3, "training": False}
            for path in self.ROUTES:
                for wrong in ("", "Bearer", "Bearer open sesam", "Basic open sesame", "open sesame", "Bearer \xff"):
                    said = stranger.get(path, **({"Authorization": wrong} if wrong else {}))
                    assert said.status == 401
                    assert said.headers["www-authenticate"] == "Bearer"
                    assert b"stripes" not in said.body
                assert client.get(path).status == (404 if path.startswith("/no") else 200)
            assert stranger.rows("stripes", X[:1].tolist()).status == 401
            assert client.rows("stripes", X[:1].tolist()).status == 200

    def test_a_browser_gets_the_empty_page_to_enter_it(self, folder):
        with serving(folder, token="open sesame") as client:
            assert Client(client.server, client.port).get("/").body == client.get("/").body


class TestWhereRequestsComeFrom:
    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1"])
    def test_another_name_is_refused(self, client, host):
        assert client.get("/tasks", Host=host).status in (400, 421)

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8000"])
    def test_names_of_this_machine_are_fine(self, client, host):
        assert client.get("/tasks", Host=host).status == 200

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "127.1"])
    def test_a_server_answers_to_the_address_that_it_was_given(self, host):
        assert own_names(host) == {"localhost", "127.0.0.1", "[::1]", host}

    def test_pages_of_other_sites_cannot_post(self, client):
        body = json.dumps({"rows": X[:1].tolist()})
        for origin, status in (("http://evil.example", 403), ("null", 403), (client.url, 200)):
            said = client.post("/tasks/stripes/predict", body, "application/json", Origin=origin)
            assert said.status == status


def batched(
    asked: list[int], hold: threading.Event, thread: ThreadPoolExecutor, backlog: Backlog | None = None
) -> Batcher[np.ndarray]:
    """A batcher whose model doubles rows, and waits at its first call."""

    def double(task: str, rows: np.ndarray) -> np.ndarray:
        if task == "broken":
            raise ValueError(task)
        asked.append(len(rows))
        hold.wait(60)
        return 2 * rows

    return Batcher(thread, double, 8, backlog or Backlog(20, 1000))


class TestBatching:
    def test_what_comes_while_the_model_is_busy_shares_its_next_call(self):
        asked: list[int] = []
        hold = threading.Event()

        async def main() -> None:
            batcher = batched(asked, hold, thread)
            questions = [np.full((count, 2), place, np.uint8) for place, count in enumerate((1, 2, 3, 4, 8, 1))]
            tasks = [asyncio.create_task(batcher.answer("task", rows)) for rows in questions[:1]]
            await asyncio.sleep(0)
            await asyncio.to_thread(eventually, lambda: asked)
            tasks += [asyncio.create_task(batcher.answer("task", rows)) for rows in questions[1:]]
            await asyncio.sleep(0)
            hold.set()
            for rows, (answers, first) in zip(questions, await asyncio.gather(*tasks), strict=True):
                assert (answers[first : first + len(rows)] == 2 * rows).all()
            assert (batcher.backlog.rows, batcher.backlog.bytes) == (0, 0)

        with ThreadPoolExecutor(1) as thread:
            asyncio.run(main())
        assert asked == [1, 5, 4, 8, 1]

    def test_of_answers_given_together_a_question_gets_those_for_its_own_rows(self):
        said = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        strange = torch.tensor([True, False, True])
        together = Answers("task", 1, ("left", "right"), said, {7: said.flip(1)}, {7: 1.0}, strange)
        first, second = together.select(1, 2, 0.1).to_json(votes=True)
        assert [(row["probability"], row["none_of_these"]) for row in (first, second)] == [
            (pytest.approx(0.8), None),
            (pytest.approx(0.6), "strange"),
        ]
        assert [row["votes"][0]["class"] for row in (first, second)] == ["left", "right"]

    def test_more_than_can_wait_is_told_to_come_again(self):
        hold = threading.Event()

        async def main() -> None:
            backlog = Backlog(20, 1000)
            batcher, other = (batched([], hold, thread, backlog) for _ in range(2))
            first = asyncio.create_task(batcher.answer("task", np.zeros((19, 2), np.uint8)))
            await asyncio.sleep(0)
            for asked in (batcher, other):  # they wait for the same thread
                with pytest.raises(Problem) as refused:
                    await asked.answer("task", np.zeros((2, 2), np.uint8))
                assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
            hold.set()
            await first
            await batcher.answer("task", np.zeros((30, 2), np.uint8))  # alone, any size is answered

        with ThreadPoolExecutor(1) as thread:
            asyncio.run(main())

    def test_an_error_is_told_to_those_who_asked_and_the_rest_goes_on(self):
        hold = threading.Event()
        hold.set()

        async def main() -> None:
            batcher = batched([], hold, thread)
            rows = np.zeros((1, 2), np.uint8)
            work = [batcher.answer("broken", rows), batcher.answer("broken", rows), batcher.answer("task", rows)]
            results = await asyncio.gather(*work, return_exceptions=True)
            assert [type(result) for result in results] == [ValueError, ValueError, tuple]

        with ThreadPoolExecutor(1) as thread:
            asyncio.run(main())

    def test_answers_of_many_connections_at_once_are_not_mixed_up(self, client, folder):
        zoo = zoolearn.open(folder)
        expected = {task.name: zoo.predict_proba(task.test.x, task.name).numpy() for task in TASKS[:2]}

        def ask(number: int) -> bool:
            task, place = TASKS[number % 2], number % 17
            said = client.rows(task.name, task.test.x[place : place + 3].tolist())
            return bool(np.allclose(probabilities(said), expected[task.name][place : place + 3], atol=1e-6))

        with ThreadPoolExecutor(12) as many:
            assert all(many.map(ask, range(60)))


class TestChangesUnderneath:
    def test_a_new_task_is_answered_without_a_restart(self, own):
        with serving(own) as client:
            assert client.rows("rings", X[:1].tolist()).status == 404
            zoo = zoolearn.open(own)
            zoo.learn(TASKS[2])
            said = eventually(lambda: (s := client.rows("rings", X[:2].tolist())).status == 200 and s)
            assert (probabilities(said) == zoo.predict_proba(X[:2], "rings").numpy()).all()
            assert client.get("/healthz").json["generation"] == zoo.generation

    def test_what_was_made_of_an_earlier_state_is_made_again(self, own):
        rows = X[:2].numpy()

        async def main(live: LiveZoo) -> None:
            await live.compare("stripes")
            await live.fit()
            assert live.recognise("0.0", rows)[0] == live.zoo.generation
            assert live.ask_surely("stripes", rows).strange is not None
            zoolearn.open(own).learn(TASKS[2])
            await live._look()
            with pytest.raises(Outdated):
                live.recognise("0.0", rows)
            with pytest.raises(Outdated):
                live.ask_surely("stripes", rows)

        with ThreadPoolExecutor(1) as thread:
            asyncio.run(main(LiveZoo(own, thread)))

    def test_a_question_that_needs_files_which_an_undo_deleted_is_asked_of_the_state_after_it(self, own):
        zoo, rows = zoolearn.open(own), X[:2].numpy()
        with ThreadPoolExecutor(1) as thread:
            asked, scored = LiveZoo(own, thread), LiveZoo(own, thread)
            zoo.undo()  # of a member that votes on both tasks
            assert torch.equal(asked.ask("stripes", rows).probabilities, zoo.answers(X[:2], "stripes").probabilities)
            assert scored.scores("stripes") == zoo.scores("stripes")
            with pytest.raises(UnknownTask):
                scored.scores(TASKS[1].name)

    def test_no_request_fails_while_the_zoo_learns_forgets_and_prunes(self, own):
        said: list[int] = []
        done = threading.Event()

        def load() -> None:
            while not done.is_set():
                said.append(client.rows("stripes", X[:2].tolist()).status)

        with serving(own) as client:
            threads = [threading.Thread(target=load) for _ in range(2)]
            for thread in threads:
                thread.start()
            zoo = zoolearn.open(own)
            zoo.learn(TASKS[2])
            zoo.prune(loss=0.5)
            zoo.commit_pruning()
            zoo.learn(TASKS[3])
            zoo.undo()
            zoo.forget("dots")
            eventually(lambda: client.get("/healthz").json["generation"] == zoo.generation)
            assert client.rows("dots", X[:1].tolist()).status == 404
            done.set()
            for thread in threads:
                thread.join()
        assert len(said) > 5
        assert set(said) == {200}

    def test_a_folder_that_cannot_be_read_leaves_the_last_state(self, own):
        with serving(own) as client:
            (own / "zoo.json").rename(own / "away")
            eventually(lambda: client.get("/healthz").json["status"] == "stale")
            assert client.rows("stripes", X[:1].tolist()).status == 200
            (own / "away").rename(own / "zoo.json")
            eventually(lambda: client.get("/healthz").json["status"] == "ok")

    def test_a_folder_that_fails_for_a_while_is_said_to_be_stale_and_followed_again(self, own, monkeypatch):
        def fails(*_: object) -> None:
            raise OSError(errno.ESTALE, "Stale file handle")

        with serving(own) as client:
            with monkeypatch.context() as broken:
                broken.setattr(client.service.live.zoo, "refresh", fails)
                broken.setattr(client.service.live.zoo, "net", fails)
                os.utime(own / "zoo.json")
                eventually(lambda: client.get("/healthz").json["status"] == "stale")
            eventually(lambda: client.get("/healthz").json["status"] == "ok")
            zoolearn.open(own).undo()
            eventually(lambda: client.get("/healthz").json["generation"] == 4)

    def test_a_disk_that_fails_is_no_fault_of_the_client(self, own, monkeypatch):
        def fails(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with serving(own) as client:
            monkeypatch.setattr(client.service.live.zoo, "answers", fails)
            said = client.rows("stripes", X[:1].tolist())
            assert said.status == 503
            assert said.headers["retry-after"] == "60"

    def test_a_damaged_member_is_no_fault_of_the_client(self, own):
        for member in (own / "members").iterdir():
            member.write_bytes(b"")
        with serving(own) as client:
            said = client.rows("stripes", X[:1].tolist())
            assert said.status == 503
            assert str(own) not in said.detail
            assert client.get("/tasks").status == 200


class TestServer:
    def test_answers_are_sent_at_once(self):
        with open_socket("127.0.0.1", 0) as opened:
            assert opened.proto == socket.IPPROTO_TCP  # where asyncio does not see that, it lets small pieces wait

    def test_a_client_that_does_not_take_its_answer_is_given_up(self):
        sent = []

        async def app(scope, receive, send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x"})
            sent.append("all")

        async def stuck(message) -> None:
            sent.append(message["type"])
            if message["type"] == "http.response.body":
                await asyncio.sleep(3600)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        asyncio.run(Guard(app, None, None, Counters(), Limits(send_seconds=0.05))(scope, None, stuck))
        assert sent == ["http.response.start", "http.response.body"]

    def test_idle_connections_make_room_for_others(self, folder):
        with serving(folder, connections=4) as client:
            idle = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(8)]
            assert [client.get("/tasks").status for _ in range(3)] == [200, 200, 200]
            for connection in idle:
                connection.close()

    @pytest.mark.parametrize("limits", [Limits(connections=2), Limits(connections_per_client=2)])
    def test_a_crowd_is_told_to_come_again_and_health_is_always_answered(self, limits):
        async def asked() -> list[tuple[str, int]]:
            said, end = [], asyncio.Event()

            async def app(scope, receive, send) -> None:
                if scope["path"] == "/predict":
                    await end.wait()
                await send({"type": "http.response.start", "status": 200, "headers": []})

            async def request(path: str, client: str) -> None:
                async def send(message) -> None:
                    if message["type"] == "http.response.start":
                        said.append((path, message["status"]))

                scope = {"type": "http", "method": "GET", "path": path, "headers": [], "client": (client, 1)}
                await guard(scope, None, send)

            guard = Guard(app, None, None, Counters(), limits)
            held = [asyncio.create_task(request("/predict", "one")) for _ in range(2)]
            await asyncio.sleep(0)
            for path in ("/tasks", "/healthz", "/readyz"):
                await request(path, "one")
            if limits.connections > 2:
                await request("/of another", "two")
            end.set()
            await asyncio.gather(*held)
            await request("/after", "one")
            return said

        others = [("/of another", 200)] if limits.connections > 2 else []
        assert asyncio.run(asked()) == [
            ("/tasks", 503), ("/healthz", 200), ("/readyz", 200), *others, ("/predict", 200), ("/predict", 200), ("/after", 200),
        ]  # fmt: skip

    def test_a_question_that_a_stopping_server_does_not_come_to_is_told_so(self):
        async def asked() -> list[int]:
            said = []

            async def app(scope, receive, send) -> None:
                await asyncio.Event().wait()

            async def send(message) -> None:
                said.append(message.get("status"))

            scope = {"type": "http", "method": "POST", "path": "/recognise", "headers": [], "client": ("one", 1)}
            request = asyncio.create_task(Guard(app, None, None, Counters(), Limits())(scope, None, send))
            await asyncio.sleep(0)
            request.cancel()
            await request
            return said

        assert asyncio.run(asked()) == [503, None]


def test_requests_that_had_come_when_the_server_was_told_to_stop_are_answered(folder):
    body = json.dumps({"rows": X[:1].tolist()})
    head = f"POST /tasks/stripes/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    busy, go_on = threading.Event(), threading.Event()

    async def stop_at_once(counter: int) -> bool:
        busy.set()
        go_on.wait(PATIENCE)  # the loop has had no time for what comes meanwhile
        return True

    with serving(folder) as client, ExitStack() as connections:
        assert client.rows("stripes", X[:1].tolist()).status == 200
        client.server.on_tick = stop_at_once
        assert busy.wait(PATIENCE)
        asking = [connections.enter_context(socket.create_connection(("127.0.0.1", client.port))) for _ in range(20)]
        for connection in asking:
            connection.sendall(f"{head}\r\n\r\n{body}".encode())
        go_on.set()
        assert [connection.recv(12) for connection in asking] == [b"HTTP/1.1 200"] * 20


FITTING = """
import sys, torch, zoolearn.cli
from zoolearn.zoo import Zoo
from zoolearn.zoo.serve import server

def fit(zoo):
    print("fitting", flush=True)
    while True:
        torch.ones(200, 200) @ torch.ones(200, 200)

Zoo.which_task = fit
server.SECONDS_TO_ANSWER = 1
zoolearn.cli.main()
"""


class TestCommand:
    @pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
    def test_it_serves_until_ctrl_c_or_the_end_of_its_terminal(self, folder, name):
        with started(["-m", "zoolearn", "serve", folder, "--port", "0"], ZOO_TOKEN="open-sesame") as run:
            first = run.stdout.readline()
            port = int(re.search(r"2 tasks at http://127\.0\.0\.1:(\d+)/", first)[1])
            shown = first.strip().replace(f"{folder}:", "birds:").replace(f":{port}/", ":8000/")
            assert shown in GUIDE.read_text(encoding="utf-8")
            assert Client(None, port).get("/tasks").status == 401
            assert Client(None, port, "open-sesame").rows("stripes", X[:1].tolist()).status == 200
            run.send_signal(getattr(signal, name))
            assert run.wait(PATIENCE) in (0, 130, -getattr(signal, name))
            assert "Traceback" not in run.stderr.read()

    def test_one_task_is_no_tasks(self, tmp_path):
        zoo = small_zoo(tmp_path / "zoo", TASKS[:1])
        with started(["-m", "zoolearn", "serve", zoo.path, "--port", "0"]) as run:
            assert run.stdout.readline().startswith(f"{zoo.path}: 1 task at http://127.0.0.1:")

    def test_a_fit_under_way_does_not_keep_it_from_stopping(self, folder):
        with started(["-c", FITTING, "serve", folder, "--port", "0"]) as run:
            port = int(re.search(r"127\.0\.0\.1:(\d+)/", run.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port)) as asking:
                body = json.dumps({"rows": X[:1].tolist()})
                head = f"POST /recognise HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
                asking.sendall(f"{head}\r\n\r\n{body}".encode())
                assert run.stdout.readline() == "fitting\n"
            run.send_signal(signal.SIGTERM)
            assert run.wait(120) == 130
            assert run.stderr.read().splitlines()[-1] == "zoo: stopped"

    def test_what_cannot_be_is_said_in_a_line(self, folder, client, capsys, monkeypatch):
        monkeypatch.delenv("ZOO_TOKEN", raising=False)
        for words, message in (
            (["--token", "short"], "at least 8 characters"),
            (["--learn", "--host", "0.0.0.0"], "give a --token"),
            (["--port", "99999"], "port is 99999; give 1 to 65535"),
            (["--threads", "-1"], "threads is -1; give 1 to 1024"),
            (["--port", str(client.port)], "cannot listen on 127.0.0.1"),
            (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        ):
            with pytest.raises(SystemExit):
                cli.main(["serve", str(folder), *words])
            assert message in capsys.readouterr().err
        with pytest.raises(SystemExit):
            cli.main(["serve", "nowhere"])
        assert "nowhere holds no zoo" in capsys.readouterr().err
