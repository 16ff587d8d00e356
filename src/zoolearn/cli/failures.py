"""Errors in the caller's own code: its part of the traceback, and one line."""

import traceback

from zoolearn.runs.code import is_library, last_own_place


def format_own_trace(error: Exception) -> str | None:
    """The traceback from the first frame outside libraries on; None if there is none, also in a worker."""
    trace = traceback.TracebackException.from_exception(error)
    own = [place for place, frame in enumerate(trace.stack) if not is_library(frame.filename)]
    if not own and not getattr(error, "__notes__", ()):
        return None
    trace.stack = traceback.StackSummary.from_list(trace.stack[own[0] :] if own else [])
    return "".join(trace.format())


def describe_error(error: Exception) -> str:
    """The error in a line, with the last place in the caller's code that led to it."""
    return f"{type(error).__name__}: {error}{last_own_place(''.join(traceback.format_exception(error)))}"
