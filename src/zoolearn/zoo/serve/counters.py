"""What is counted while a server runs, as Prometheus reads it."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """How many values were at most so large, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Counts one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str) -> list[str]:
        """As Prometheus reads it."""
        counts = list(accumulate(self.counts))
        bounds = [f"{bound:g}" for bound in self.bounds] + ["+Inf"]
        lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in zip(bounds, counts, strict=True)]
        return [*lines, f"{name}_sum {self.sum:.6f}", f"{name}_count {counts[-1]}"]


class Counters:
    """The counters of one server.

    >>> counters = Counters()
    >>> counters.request("GET", "/tasks", 200, 0.002)
    >>> [line for line in counters.text({"zoo_tasks": 3}).splitlines() if line.startswith(("zoo_tasks", "zoo_requests"))]
    ['zoo_requests_total{method="GET",route="/tasks",status="200"} 1', 'zoo_tasks 3']
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds = Histogram(SECONDS)
        self.batches = Histogram(ROWS)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request that was answered; the route is its pattern, so that clients cannot make up new ones."""
        self.requests[method if method in ("GET", "POST") else "other", route, status] += 1
        if route.endswith("/predict"):
            self.seconds.add(seconds)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, with some values of the moment."""
        lines = ["# HELP zoo_requests_total Requests that were answered.", "# TYPE zoo_requests_total counter"]
        lines += [
            f'zoo_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
            for (method, route, status), count in sorted(self.requests.items())
        ]
        for name, what, histogram in (
            ("zoo_predict_seconds", "Seconds from the head of a question to the end of its answer.", self.seconds),
            ("zoo_batch_rows", "Rows in one model call; their sum is the number of rows asked.", self.batches),
        ):
            lines += [f"# HELP {name} {what}", f"# TYPE {name} histogram", *histogram.lines(name)]
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
