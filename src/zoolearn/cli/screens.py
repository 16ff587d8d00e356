"""Lists that fit on a screen unless all of it is wanted."""

from collections.abc import Collection, Sequence
from typing import Annotated

import tyro

SCREEN = 20  # lines
All = Annotated[bool, tyro.conf.arg(name="all", help=f"print all of it, however long; without, at most {SCREEN} lines")]


def screenful(names: Sequence[str], first: Collection[str], *, everything: bool) -> tuple[list[str], str]:
    """The names to print, in their order: at most a screen of them, some first and then the newest; and what was left out.

    >>> names = [f"task {number}" for number in range(1000)]
    >>> shown, rest = screenful(names, ["task 7"], everything=False)
    >>> shown[0], shown[1], len(shown), rest
    ('task 7', 'task 981', 20, '... 980 more; --all prints them')
    """
    if everything or len(names) <= SCREEN:
        return list(names), ""
    wanted = [name for name in names if name in first][-SCREEN:]
    others = [name for name in names if name not in first]
    chosen = {*wanted, *others[len(others) - (SCREEN - len(wanted)) :]}
    return [name for name in names if name in chosen], f"... {len(names) - len(chosen):,} more; --all prints them"
