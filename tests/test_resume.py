"""A run that is killed, again and again, at random moments, ends bit for bit like one that never was."""

import random
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from toys import LONGER, RESUMED, SUBJECTS, begin, doomed, in_another_process, learner_of, outcome, processes
from zoolearn.methods.registry import METHODS
from zoolearn.runs.results import Results
from zoolearn.runs.run import progress
from zoolearn.runs.store import load

pytestmark = pytest.mark.slow  # runs are killed and continued

NEVER = -1


@cache
def unharmed(method):
    """What a run leaves that nobody kills, and how many moments it has."""
    with TemporaryDirectory() as folder:
        moments = int(in_another_process(doomed, method, Path(folder), 1, NEVER))
        return outcome(Path(folder)), moments


@pytest.mark.parametrize("checkpoint_every", [None, 1])
@pytest.mark.parametrize("method", [*SUBJECTS])
def test_a_run_killed_at_random_moments_ends_as_if_nothing_had_happened(tmp_path, method, checkpoint_every):
    whole, moments = unharmed(method)
    rng = random.Random(f"{method} {checkpoint_every}")
    assert in_another_process(doomed, method, tmp_path, checkpoint_every, rng.randrange(1, moments // 2)) == "killed"
    in_another_process(doomed, method, tmp_path, checkpoint_every, rng.randrange(1, moments))  # perhaps again
    in_another_process(doomed, method, tmp_path, checkpoint_every, NEVER)
    assert outcome(tmp_path) == whole


def test_a_run_killed_from_outside_while_it_is_at_work_ends_the_same_too(tmp_path):
    whole, _ = unharmed("model-zoo")
    rng = random.Random(0)
    deaths = []
    for _ in range(4):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=doomed, args=("model-zoo", tmp_path, 2, NEVER, theirs))
        begin(process)
        theirs.close()
        with suppress(EOFError):
            for _ in range(rng.randrange(1, 25)):
                ours.recv()
        process.kill()
        process.join()
        deaths.append(process.exitcode)
    assert -signal.SIGKILL in deaths
    in_another_process(doomed, "model-zoo", tmp_path, 2, NEVER)
    assert outcome(tmp_path) == whole


def test_a_training_that_is_killed_loses_no_more_than_the_epochs_since_its_checkpoint(tmp_path):
    _, moments = unharmed("fine-tune")
    assert in_another_process(doomed, "fine-tune", tmp_path, 1, moments // 2) == "killed"
    checkpoints = list((tmp_path / "checkpoints").glob("*.safetensors"))
    assert len(checkpoints) == 1
    work = progress(learner_of(METHODS["fine-tune"], LONGER), RESUMED, tmp_path, 1)
    first = next(work)
    taken_up = next(work) if isinstance(first, Results) else first
    assert taken_up.epoch > 1
    work.close()


def test_a_killed_run_can_be_asked_about_what_it_had_learned(tmp_path):
    _, moments = unharmed("model-zoo")
    assert in_another_process(doomed, "model-zoo", tmp_path, None, 2 * moments // 3) == "killed"
    learner = load(tmp_path)
    assert 1 <= len(learner.classes) < 3
    for task in RESUMED[: len(learner.classes)]:
        assert len(learner.predict(task.test.x, task.name)) == len(task.test)
