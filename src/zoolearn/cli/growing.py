"""What `zoo learn` asks before a known task grows by a class: a slip of the pen must not become one."""

import sys
from collections.abc import Sequence
from shlex import join

from rich.console import Console
from rich.text import Text

from zoolearn.errors import SettingsError
from zoolearn.words import plural
from zoolearn.zoo.intake.growth import Growth


def confirm_classes(
    growth: Growth, announced: Sequence[str], arguments: Sequence[str], console: Console, *, yes: bool
) -> list[str] | None:
    """Tells what rows would add to a task, and asks about classes that are new; gives them, or None if they are not meant.

    `yes` is an answer for all that are not nearly named like a known class.
    """
    console.print(Text(str(growth)))
    for doubt in growth.doubts():
        console.print(Text(f"note: {doubt}"))
    names = [*announced, *(name for name in growth.new if yes and name not in growth.typos)]
    open_ones = growth.unannounced(names)
    if not open_ones or not sys.stdin.isatty():
        _check_silence(open_ones, arguments)
        return sorted({*names})
    is_meant = (
        f"Learn {'it' if len(open_ones) == 1 else 'them'} as {plural(len(open_ones), 'new class', 'new classes')}"
    )
    answer = input(f"{is_meant} ({', '.join(open_ones)})? [y/N] ")
    return [*growth.new] if answer.strip().lower() in ("y", "yes") else None


def _check_silence(names: Sequence[str], arguments: Sequence[str]) -> None:
    """Refuses to take silence for a yes."""
    if names:
        raise SettingsError(
            f"{plural(len(names), 'class is', 'classes are')} new, and there is no terminal to ask on; if that is meant: "
            f"{join(['zoo', 'learn', *arguments, '--new-class', *names])}"
        )
