"""What whoever runs a server can watch: counters, the access log, an alarm, and how good the answers are."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import zoolearn
from processes import eventually
from servers import Client, serving
from zoolearn.zoo.serve.guard import access, log_access
from zoos import TASKS, small_zoo

pytestmark = pytest.mark.slow  # servers are started

X = TASKS[0].test.x
GAUGES = ("zoo_strange_share", "zoo_drift_alarm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return small_zoo(tmp_path_factory.mktemp("watched") / "zoo", TASKS[:2]).path


@pytest.fixture
def own(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "zoo"))


@pytest.fixture(scope="module")
def client(folder):
    with serving(folder) as client:
        yield client


def test_counters_are_as_prometheus_reads_them(folder):
    with serving(folder) as client:
        said = client.rows("stripes", X[:3].tolist())
        client.rows("nowhere", X[:3].tolist())
        client.get("/no/such/path")
        text = client.get("/metrics").body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {"zoo_requests", "zoo_answers", "zoo_answer_confidence", "zoo_strange_share"} <= families.keys()
    assert 'zoo_requests_total{method="POST",route="/tasks/{name}/predict",status="200"} 1' in text
    assert 'zoo_requests_total{method="POST",route="/tasks/{name}/predict",status="404"} 1' in text
    named = np.array([list(row["probabilities"].values()) for row in said.json["predictions"]])
    counted = {TASKS[0].classes[place]: float(count) for place, count in Counter(named.argmax(axis=1).tolist()).items()}
    samples = families["zoo_answers"].samples
    assert {sample.labels["class"]: sample.value for sample in samples} == counted
    assert {sample.labels["task"] for sample in samples} == {"stripes"}
    total = next(s for s in families["zoo_answer_confidence"].samples if s.name.endswith("_sum"))
    assert total.value == pytest.approx(named.max(axis=1).sum())
    assert 'route="other",status="404"} 1' in text
    assert "zoo_batch_rows_sum 3.0" in text
    assert "zoo_tasks 2" in text


def test_metrics_hold_no_name_of_a_forgotten_task(own):
    with serving(own) as client:
        for task in ("stripes", "dots"):
            assert client.rows(task, X[:1].tolist()).status == 200
        assert 'task="stripes"' in client.get("/metrics").body.decode()
        zoolearn.open(own).forget("stripes")
        eventually(lambda: client.get("/tasks/stripes").status == 404)
        text = client.get("/metrics").body.decode()
    assert "stripes" not in text
    assert 'task="dots"' in text


def test_rows_that_are_like_nothing_stored_raise_an_alarm_until_they_cease(folder, caplog):
    strange = np.tile(np.array([0, 255], np.uint8), (30, 32)).reshape(30, 1, 8, 8)
    usual = np.concatenate([task.train.x[:15].numpy() for task in TASKS[:2]])

    def asked(client: Client, rows: np.ndarray) -> tuple[float, float]:
        said = client.post("/recognise", rows.tobytes(), "application/octet-stream").json
        text = client.get("/metrics").body.decode()
        share, alarm = (float(re.search(rf"^{name} (.*)$", text, re.M)[1]) for name in GAUGES)
        assert share == np.mean([row["strange"] for row in said["recognitions"]])
        return share, alarm

    with serving(folder, drift_rows=30) as client, caplog.at_level("WARNING", "zoolearn.zoo.serve"):
        assert asked(client, usual)[1] == 0
        assert asked(client, strange) == (1.0, 1.0)
        assert asked(client, usual)[1] == 0
    assert [record.getMessage().partition(":")[0] for record in caplog.records if "like nothing" in record.message]
    assert "100% of the last 30 rows" in caplog.text
    assert "usual again" in caplog.text


@pytest.mark.parametrize("sure", ["", "?sure=0.01"])
def test_predictions_of_what_is_like_nothing_stored_raise_the_alarm_too(folder, sure):
    strange = np.tile(np.array([0, 255], np.uint8), (30, 32)).reshape(30, 1, 8, 8)
    usual = np.tile(X.numpy(), (30, 1, 1, 1))[:30]  # held out: they say how far is too far
    with serving(folder, drift_rows=30, sampled_rows=30, sample_seconds=0.0) as client:
        compared = 0

        def asked(rows: np.ndarray) -> tuple[float, float]:
            nonlocal compared
            compared += len(rows)
            client.post(f"/tasks/stripes/predict{sure}", rows.tobytes(), "application/octet-stream")
            counted = f'zoo_compared_rows_total{{task="stripes"}} {compared}.0'
            eventually(lambda: counted in client.get("/metrics").body.decode())
            text = client.get("/metrics").body.decode()
            return tuple(float(re.search(rf"^{name} (.*)$", text, re.M)[1]) for name in GAUGES)

        assert asked(usual)[1] == 0
        share, alarm = asked(strange)
        assert share > 0.9
        assert alarm == 1
        assert asked(usual)[1] == 0


def test_the_access_log_has_a_line_for_every_request_and_no_secret(folder, tmp_path):
    file = tmp_path / "access.log"
    handler = log_access(file)
    try:
        with serving(folder, token="open-sesame") as client:
            client.rows("stripes", X[:1].tolist())
            client.get("/tasks?hidden=1", Authorization="Bearer wrong-token")
            client.get("/tasks/a%0Ab")
    finally:
        access.removeHandler(handler)
        access.propagate = True
        handler.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("POST", "/tasks/stripes/predict", 200),
        ("GET", "/tasks", 401),
        ("GET", "/tasks/a\nb", 404),
    ]
    assert all(line["client"] == "127.0.0.1" and line["seconds"] > 0 and line["bytes"] > 0 for line in lines)
    assert not {"open-sesame", "wrong-token", "hidden"} & set(re.findall(r"[\w-]+", file.read_text()))


def test_the_scores_of_a_task_are_told_class_by_class(client, folder):
    scores = zoolearn.open(folder).scores("stripes")
    said = client.get("/tasks/stripes/scores").json
    assert said == {"task": "stripes", **scores.to_json()}
    task = client.get("/tasks/stripes").json
    assert (task["low"], task["high"]) == (scores.accuracy.low, scores.accuracy.high)
    assert (task["most_frequent"], task["majority"]) == (scores.most_frequent, scores.majority.value)
    assert client.get("/tasks/none/scores").status == 404
