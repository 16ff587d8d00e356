"""Fair timing on a machine that others use: contenders take turns, and what counts is the median of their ratios.

A contender is a function that does its work once and returns the seconds of the part that counts. Seconds are of this
thread's processor time, so that a program that takes the core meanwhile is not counted; what it does to caches and
clock is, which is why contenders alternate within one run and only their ratios are compared.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from time import process_time

Contender = Callable[[], float]


class Stopwatch:
    """Processor seconds spent inside `with`."""

    seconds = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    watch = Stopwatch()
    started = process_time()
    yield watch
    watch.seconds = process_time() - started


def take_turns(contenders: Mapping[str, Contender], repeats: int) -> dict[str, list[float]]:
    """The seconds of each contender in each round, after one round to warm up; every other round goes backwards."""
    for contender in contenders.values():
        contender()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(repeats):
        for name in list(contenders) if number % 2 == 0 else list(contenders)[::-1]:
            seconds[name].append(contenders[name]())
    return seconds


def ratio(seconds: Mapping[str, list[float]], name: str, base: str) -> float:
    """How many times the seconds of `base` are those of `name`: the median over rounds, above 1 is faster than `base`."""
    return median(theirs / ours for ours, theirs in zip(seconds[name], seconds[base], strict=True))
