"""Prometheus counters of a server: requests, answers, and rows unlike all stored ones."""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from zoolearn.zoo.learning.scores import Share

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SHARES = tuple(tenth / 10 for tenth in range(1, 11))
NOT_SURE = "(not sure)"
NOT_TOLD = "(not told)"  # the task label of rows without a given task


class Counters:
    """The counters of one server.

    >>> counters = Counters()
    >>> counters.count_request("GET", "/tasks", 200, 0.002)
    >>> counters.count_answers("garden", [("heron", 0.9), ("stork", 0.6)])
    >>> lines = counters.render({"zoo_tasks": 3}).decode().splitlines()
    >>> [line for line in lines if line.startswith(("zoo_requests_total", "zoo_answers_total", "zoo_tasks"))][:2]
    ['zoo_requests_total{method="GET",route="/tasks",status="200"} 1.0', 'zoo_answers_total{class="heron",task="garden"} 1.0']
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else each series has another that tells when it began
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter(
            "zoo_requests", "Requests that were answered.", ["method", "route", "status"], registry=own
        )
        self.seconds = Histogram(
            "zoo_predict_seconds",
            "Seconds from the head of a question to the end of its answer.",
            buckets=SECONDS,
            registry=own,
        )
        self.batches = Histogram(
            "zoo_batch_rows",
            "Rows in one model call; their sum is the number of rows asked.",
            buckets=ROWS,
            registry=own,
        )
        self.answers = Counter("zoo_answers", "Rows by the class that was named.", ["task", "class"], registry=own)
        self.confidence = Histogram(
            "zoo_answer_confidence",
            "Probability of the class that was named.",
            ["task"],
            buckets=SHARES,
            registry=own,
        )
        self.recognised = Counter("zoo_recognised", "Rows by the task that was found out.", ["task"], registry=own)
        self.compared = Counter(
            "zoo_compared_rows", "Rows that were compared with what is stored.", ["task"], registry=own
        )
        self.strange = Counter("zoo_strange_rows", "Those of them that are like none of it.", ["task"], registry=own)
        self.gauges: dict[str, Gauge] = {}
        self.tasks: set[str] = set()  # that something was counted of

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request, by the pattern of its route, so that clients cannot create new labels."""
        self.requests.labels(method if method in ("GET", "POST") else "other", route, str(status)).inc()
        if route.endswith("/predict"):
            self.seconds.observe(seconds)

    def count_answers(self, task: str, named: Iterable[tuple[str, float]]) -> None:
        """Counts answers for a task: the class of each row and its probability."""
        self.tasks.add(task)
        confidence = self.confidence.labels(task)
        for name, probability in named:
            self.answers.labels(task, name).inc()
            confidence.observe(probability)

    def count_recognised(self, tasks: Iterable[str | None]) -> None:
        """Counts rows by whether their task was inferred."""
        for task in tasks:
            self.tasks |= {task} if task else set()
            self.recognised.labels(task or NOT_SURE).inc()

    def count_compared(self, task: str, strange: Sequence[bool]) -> None:
        """Counts rows that were compared with what is stored of a task, or of all, and those that are like none of it."""
        self.tasks |= {task} - {NOT_TOLD}
        self.compared.labels(task).inc(len(strange))
        self.strange.labels(task).inc(sum(strange))

    def let_go(self, known: Container[str]) -> None:
        """Forgets tasks that the zoo no longer knows, with their names."""
        for task in [task for task in self.tasks if task not in known]:
            self.tasks.remove(task)
            for metric in (self.answers, self.confidence, self.recognised, self.compared, self.strange):
                metric.remove_by_labels({"task": task})

    def render(self, gauges: Mapping[str, float]) -> bytes:
        """All of it, with some values of the moment."""
        for name, value in gauges.items():
            if name not in self.gauges:
                self.gauges[name] = Gauge(name, name.removeprefix("zoo_").replace("_", " "), registry=self.registry)
            self.gauges[name].set(value)
        return generate_latest(self.registry)


class Drift:
    """Watches the share of recent rows that are unlike all stored ones; warns when it rises and when it falls.

    Of the stored rows themselves one in a hundred to one in twenty is. The alarm starts when the low end of the
    share's 95 % interval is above `share`, and ends when the share is below it.

    >>> alarms = []
    >>> drift = Drift(rows=100, share=0.1, notify=alarms.append)
    >>> drift.add([False] * 90 + [True] * 10), drift.is_alarming
    (None, False)
    >>> drift.add([True] * 15), drift.is_alarming, len(alarms)
    (None, True, 1)
    """

    def __init__(self, rows: int, share: float, notify: Callable[[str], None]) -> None:
        self.last: deque[bool] = deque(maxlen=rows)
        self.share, self.notify, self.is_alarming = share, notify, False

    @property
    def now(self) -> Share:
        """The share of strange rows among the recent ones."""
        return Share(sum(self.last), len(self.last))

    def add(self, strange: Iterable[bool]) -> None:
        self.last.extend(strange)
        now, was = self.now, self.is_alarming
        self.is_alarming = now.value > self.share if was else now.low > self.share
        if self.is_alarming and not was:
            self.notify(
                f"{now.value:.0%} of the last {now.rows} rows that were compared are like nothing stored (1 to 5 % are usual): "
                "what is asked has changed; look at it, and teach the zoo what is new"
            )
        elif was and not self.is_alarming:
            self.notify(
                f"{now.value:.0%} of the last {now.rows} rows that were compared are like nothing stored: usual again"
            )
