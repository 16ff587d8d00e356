"""Plain functions of generators: `fit` runs `iter_fit` to its end."""

from collections.abc import Callable, Generator
from functools import wraps
from inspect import signature
from typing import ParamSpec, get_args

from zoolearn.training.fit import End, iter_fit, run_to_end

Arguments = ParamSpec("Arguments")


def at_once(work: Callable[Arguments, Generator[object, None, End]]) -> Callable[Arguments, End]:
    """A function with the arguments of a generator function `iter_...` that returns the generator's result."""

    @wraps(work)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> End:
        return run_to_end(work(*args, **kwargs))

    written = signature(work)
    run.__signature__ = written.replace(return_annotation=get_args(written.return_annotation)[-1])  # type: ignore[attr-defined]
    run.__name__ = work.__name__.removeprefix("iter_")
    run.__qualname__ = work.__qualname__.replace(work.__name__, run.__name__)
    return run


fit = at_once(iter_fit)
