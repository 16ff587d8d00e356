"""What `zoo predict` and `zoo recognise` share: inputs are read and answered in blocks, unreadable ones reported."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from zoolearn.errors import DataError, SettingsError
from zoolearn.files import Json
from zoolearn.words import plural
from zoolearn.zoo import Zoo
from zoolearn.zoo.inputs import Block, Columns, iter_blocks
from zoolearn.zoo.inputs.pictures import SUFFIXES


def confirm(question: str, what: str) -> bool:
    """Asks before something that cannot be undone."""
    if not sys.stdin.isatty():
        raise SettingsError(f"{what} cannot be undone, and there is no terminal to ask on; add --yes")
    return input(f"There is no way back. {question}? [y/N] ").strip().lower() in ("y", "yes")


def check_question(inputs: Sequence[Path], *, csv: bool, as_json: bool) -> None:
    """Raises on no inputs, and on two output formats at once."""
    if csv and as_json:
        raise SettingsError("both --csv and --json were given; choose one")
    if not inputs:
        raise SettingsError("there is nothing to predict; give images, folders, arrays or tables")


def print_answers(
    zoo: Zoo,
    inputs: Sequence[Path],
    columns: Columns,
    answer: Callable[[Tensor], Sequence[dict[str, Json]]],
    show: Callable[[str, dict[str, Json]], None],
    *,
    as_json: bool,
    skip_broken: bool,
    header: str = "",
) -> None:
    """Prints an answer for every input as it is read; unreadable ones are an error at the end."""
    answered, broken = 0, list[str]()
    if header and not as_json and sys.stdout.isatty():
        print(header)
    for block in _blocks(zoo, inputs, replace(columns, wanted=zoo.settings.columns, embed=zoo.columns.embed)):
        if isinstance(block, DataError):
            broken.append(str(block))
            if len(inputs) > 1:
                print(f"zoo: {block}", file=sys.stderr)
            continue
        names, rows = block
        for row in rows.broken:
            broken.append(f"{row.name}: {row.reason}")
            print(f"zoo: {broken[-1]}", file=sys.stderr)
        answered += len(rows.x)
        for name, found in zip(names, answer(torch.from_numpy(rows.x)) if len(rows.x) else (), strict=True):
            if as_json:
                print(json.dumps({"input": name, **found}))
            else:
                show(name, found)
    if not broken or skip_broken:
        return
    if not answered:
        raise DataError(
            broken[0] if len(inputs) == len(broken) == 1 else f"none of the {len(broken):,} inputs can be read"
        )
    raise DataError(
        f"{plural(len(broken), 'input')} could not be read, the others were answered; --skip-broken makes this no error"
    )


def _blocks(zoo: Zoo, inputs: Sequence[Path], columns: Columns) -> Iterator[tuple[list[str], Block] | DataError]:
    """The rows of all inputs; an unreadable one does not stop the others. Adjacent pictures share a block."""
    shape = zoo.settings.shape
    assert shape is not None
    for _, paths in groupby(enumerate(inputs), lambda item: "" if _is_picture(item[1]) else str(item[0])):
        try:
            yield from iter_blocks([path for _, path in paths], shape, columns)
        except DataError as error:
            yield error


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.is_dir()
