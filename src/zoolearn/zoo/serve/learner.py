"""The process that learns: `python -m zoolearn.zoo.serve.learner` reads its order from the first line of its input.

It reports progress as one JSON object a line. When its input ends, the server is gone, and it stops.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

from zoolearn.cores import default_threads, keep_freed_memory
from zoolearn.errors import ZooError
from zoolearn.training.fit import Progress
from zoolearn.training.step import Step
from zoolearn.zoo import Zoo
from zoolearn.zoo.intake.intake import Reading
from zoolearn.zoo.learning.episode import Learned
from zoolearn.zoo.learning.scores import Share
from zoolearn.zoo.serve.archive import open_unpacked
from zoolearn.zoo.serve.problems import in_options

SAY_EVERY = 0.2  # seconds


def main() -> None:
    """Learns one task; errors in the data are reported in one line."""
    signal.signal(signal.SIGTERM, _interrupt)
    order = json.loads(sys.stdin.readline())
    Thread(target=_leave_with_the_server, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(10)  # answers come first
    import torch

    torch.set_num_threads(default_threads())
    keep_freed_memory()
    try:
        for event in iter_events(**order):
            print(json.dumps(event), flush=True)
    except ZooError as error:
        print(json.dumps({"state": "failed", "detail": in_options(error)}), flush=True)
    except KeyboardInterrupt:
        sys.exit(130)


def iter_events(folder: str, name: str, pictures: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Progress while a task is learned from unpacked images; the last event is the outcome."""
    zoo = Zoo(folder)
    work = zoo.iter_learn_from(name, open_unpacked(Path(pictures)), **options)
    last_report = 0.0
    notes: list[str] = []
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            yield {**_describe(end.value), "notes": notes}
            return
        if isinstance(event, Reading):
            notes = list(event.notes)
        if time.monotonic() - last_report < SAY_EVERY:
            continue
        if isinstance(event, Step):
            last_report = time.monotonic()
            yield {"state": "reading", "done": event.done, "total": event.total}
        elif isinstance(event, Progress):
            last_report = time.monotonic()
            where = {"epoch": event.epoch, "epochs": event.epochs, "loss": event.loss}
            yield {"state": "training", "done": event.step, "total": event.steps, **where}


def _describe(learned: Learned) -> dict[str, Any]:
    """Every task that the member votes on, with its accuracy before (None for a new one) and after, and the change."""
    detail: dict[str, dict[str, Any]] = {
        learned.task: {"before": None, **_ends(learned.scores.accuracy), "change": None}
    }  # not comparable: other classes than before
    for name, change in learned.earlier.items():
        before, after = learned.before[name], Share.of(learned.after[name].accuracy, change.rows)
        assert before is not None
        detail[name] = {"before": before.accuracy, **_ends(after), "change": change.to_json()}
    if learned.task in learned.changes:
        detail[learned.task]["grown"] = _describe_growth(learned)
    for name, share in detail.items():
        share["balanced_accuracy"] = learned.after[name].balanced
    return {
        "state": "taken back" if learned.worse else "learned",
        "worse": list(learned.worse),
        "episode": learned.episode,
        "seconds": round(learned.seconds, 1),
        "accuracy": detail,
    }


def _describe_growth(learned: Learned) -> dict[str, Any]:
    """The accuracies of old and new rows and classes of a task that grew; the change is that of the old ones."""
    new = {name: learned.scores.of_class(name) for name in learned.new_classes}
    return {
        "change": learned.changes[learned.task].to_json(),
        "new_rows": None if learned.new_rows is None else learned.new_rows.to_json(),
        "earlier_classes": learned.earlier_classes.to_json(),
        "new_classes": {name: share.to_json() if share.rows else None for name, share in new.items()},
    }


def _ends(after: Share) -> dict[str, float]:
    return {"after": after.value, "low": after.low, "high": after.high}


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _leave_with_the_server() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
