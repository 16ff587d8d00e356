"""The time that work takes, by the clock and by processors, as if it had never been interrupted."""

from dataclasses import dataclass
from threading import local
from time import perf_counter, process_time


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock, and those of processors over all threads."""

    seconds: float = 0.0
    processor_seconds: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.seconds + other.seconds, self.processor_seconds + other.processor_seconds)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.seconds - other.seconds, self.processor_seconds - other.processor_seconds)


class Clock(local):
    """The time of this thread: a training that is resumed puts it forward by what it had taken before."""

    def __init__(self) -> None:
        self.earlier = Spent()

    def now(self) -> Spent:
        return Spent(perf_counter(), process_time()) + self.earlier

    def put_forward(self, by: Spent) -> None:
        self.earlier += by


clock = Clock()
