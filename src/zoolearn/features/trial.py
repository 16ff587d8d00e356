"""Runs a new net in a process of its own, with limits of memory and time (`trial_process`).

Its outputs must be finite, deterministic, and the same for a picture alone as among others.
"""

import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.features.probe import Pictures, trial_pictures

MEMORY = 3 << 30  # bytes, beside some copies of the file
COPIES = 6
SECONDS = 30  # of a core
WAIT = 600  # by the clock: the machine may have other work
CLOSE = 1e-4  # of the largest feature: sums of several pictures at once may round in another order

Run = Callable[[Pictures], NDArray[np.float32]]


def check_by_trial(content: bytes, size: int, num_features: int, memory: int = MEMORY, seconds: int = SECONDS) -> None:
    """Runs a file's net in a limited process; raises if it does not behave as a function of each picture."""
    limits = (size, num_features, memory + COPIES * len(content), seconds)
    command = [sys.executable, "-P", "-m", "zoolearn.features.trial_process", *map(str, limits)]
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=WAIT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise DataError(f"the extractor gave no answer within {WAIT} s; it is refused") from error
    except OSError as error:
        raise DataError(f"the extractor cannot be tried: no process can be started ({error.strerror})") from error
    try:
        wrong = json.loads(done.stdout.splitlines()[-1])["wrong"]
    except (ValueError, LookupError, TypeError) as error:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise DataError(
            f"the extractor ended the process that tried it (status {done.returncode}{f', {lines[-1]}' if lines else ''}); for "
            f"{len(trial_pictures(1))} pictures it may take {seconds} s of a core and {memory / 2**30:.1f} GB of memory"
        ) from error
    if wrong:
        raise DataError(f"the extractor {wrong}")


def what_is_wrong(run: Run, size: int, num_features: int) -> str:
    """What is wrong with a net's outputs; empty if nothing."""
    pictures = trial_pictures(size)
    together = run(pictures)
    if together.shape != (len(pictures), num_features):
        return f"gives an array of {together.shape} for {len(pictures)} pictures, and declares {num_features} features each"
    if not np.isfinite(together).all():
        return "gives features that are not finite"
    if not np.array_equal(together, run(pictures)):
        return "gives other features for the same pictures when it is asked again"
    alone = np.concatenate([run(picture[None]) for picture in pictures])
    if alone.shape != together.shape or np.abs(alone - together).max() > CLOSE * np.abs(together).max():
        return "gives other features for a picture alone than for the same picture among others"
    if not together[0].any() or np.array_equal(together[0], together[-1]):
        return "gives zeros, or the same features for different pictures"
    return ""
