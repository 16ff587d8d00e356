"""Long work without its reports, as `fit` is `iter_fit`."""

from collections.abc import Callable, Generator
from functools import wraps
from inspect import signature
from typing import ParamSpec, get_args

from zoolearn.training.fit import End, iter_fit, run_to_end

Arguments = ParamSpec("Arguments")


def at_once(work: Callable[Arguments, Generator[object, None, End]]) -> Callable[Arguments, End]:
    """A function that does at once what an `iter_...` does step by step; it takes the same, and gives what that returns."""

    @wraps(work)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> End:
        return run_to_end(work(*args, **kwargs))

    written = signature(work)
    run.__signature__ = written.replace(return_annotation=get_args(written.return_annotation)[-1])  # type: ignore[attr-defined]
    run.__name__ = work.__name__.removeprefix("iter_")
    run.__qualname__ = work.__qualname__.replace(work.__name__, run.__name__)
    return run


fit = at_once(iter_fit)
