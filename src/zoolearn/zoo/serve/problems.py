"""What a request is refused with: an HTTP status, and a sentence that says what to send instead."""

from collections.abc import Mapping


class Problem(Exception):
    """Ends a request; the client gets {"detail": ...}."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})


def busy(detail: str, seconds: int = 1) -> Problem:
    """Come again in this many seconds."""
    return Problem(503, detail, {"Retry-After": str(seconds)})
