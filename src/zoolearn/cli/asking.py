"""What `zoo predict` and `zoo recognise` share: inputs are read and answered block by block, unreadable ones are told."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from zoolearn.errors import DataError, SettingsError
from zoolearn.zoo import Zoo
from zoolearn.zoo.inputs import Columns, streamed

Answer = TypeVar("Answer")


def check_question(inputs: Sequence[Path], *, csv: bool, json: bool) -> None:
    """Refuses a question about nothing, and answers in two forms at once."""
    if csv and json:
        raise SettingsError("both --csv and --json were given; choose one")
    if not inputs:
        raise SettingsError("there is nothing to predict; give images, folders, arrays or tables")


def print_answers(
    zoo: Zoo,
    inputs: Sequence[Path],
    columns: Columns,
    answer: Callable[[Sequence[str], Tensor], Iterable[Answer]],
    show: Callable[[Answer], None],
    *,
    skip_broken: bool,
) -> None:
    """Prints an answer for every input, as it is read; inputs that cannot be read are an error at the end."""
    broken = 0
    for item in _answered(zoo, inputs, columns, answer):
        if isinstance(item, str):
            broken += 1
            print(f"zoo: {item}", file=sys.stderr)
        else:
            show(item)
    if broken and not skip_broken:
        raise DataError(
            f"{broken} input(s) could not be read, the others were answered; --skip-broken makes this no error"
        )


def _answered(
    zoo: Zoo, inputs: Sequence[Path], columns: Columns, answer: Callable[[Sequence[str], Tensor], Iterable[Answer]]
) -> Iterator[Answer | str]:
    """The answers, and a message for every input that cannot be read."""
    shape = zoo.settings.shape
    assert shape is not None
    for names, block in streamed(inputs, shape, replace(columns, wanted=zoo.settings.columns)):
        yield from (f"{row.name}: {row.reason}" for row in block.broken)
        if len(block.x):
            yield from answer(names, torch.from_numpy(block.x))


def printable(name: str) -> str:
    """A name that a terminal can be shown."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
