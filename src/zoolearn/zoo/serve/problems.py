"""Refusals of requests: an HTTP status, and a sentence that says what to send instead."""

from collections.abc import Mapping, Sequence

from zoolearn.errors import ZooError


class Problem(Exception):
    """Ends a request; the client gets {"detail": ...}, and the classes that it must announce if only those are missing."""

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, new_classes: Sequence[str] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        self.new_classes = list(new_classes)


def service_unavailable(detail: str, seconds: int = 1) -> Problem:
    """A 503 with Retry-After."""
    return Problem(503, detail, {"Retry-After": str(seconds)})


def in_options(error: ZooError) -> str:
    """The first line of an error, which names options of a request in place of flags."""
    return (
        str(error)
        .partition("\n")[0]
        .rstrip(":")
        .replace("--skip-broken", "skip_broken=true")
        .replace("--skip-known (skip_known=True)", "skip_known=true")
        .replace("--heads-only", "heads_only")
    )
