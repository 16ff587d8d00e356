"""Texts: a column of a table, or the lines of a text file; a zoo on features of texts takes what its extractor makes of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.inputs.source import Block, Broken, Source

Embed = Callable[[Sequence[str]], NDArray[np.int16]]  # texts as the rows that are stored of them

TEXTS_AT_ONCE = 256
TEXT_NAMES = ("text", "texts", "body", "message", "sentence", "question")
SUFFIX = ".txt"


@dataclass(eq=False)
class Texts(Source):
    """Texts with the function that makes rows of them."""

    where: str
    texts: Sequence[str]
    labels: Sequence[str] | None
    embed: Embed
    numbered: Sequence[int]  # the rows' numbers, as a spreadsheet or an editor counts them
    column: str = ""

    def __len__(self) -> int:
        return len(self.texts)

    def name(self, row: int) -> str:
        return f"{self.where}, row {self.numbered[row]}"

    def look(self) -> Look:
        return Look("texts", uniform=True, columns=(self.column,) if self.column else ())

    def blocks(self, rows: Sequence[int], shape: Shape) -> Iterator[Block]:
        """Rows of features; a text that has none cannot be read."""
        for first in range(0, len(rows), TEXTS_AT_ONCE):
            yield self._block(list(rows[first : first + TEXTS_AT_ONCE]), shape)

    def _block(self, rows: list[int], shape: Shape) -> Block:
        try:
            return Block(rows, self.embed([self.texts[row] for row in rows]))
        except DataError as error:
            if len(rows) == 1:
                why = "it is empty" if not self.texts[rows[0]].strip() else "the extractor makes nothing of it"
                broken = (Broken(self.name(rows[0]), f"{why} ({error})" if self.texts[rows[0]].strip() else why),)
                return Block([], np.empty((0, *shape), np.int16), broken)
        parts = [self._block([row], shape) for row in rows]
        return Block(
            [row for part in parts for row in part.rows],
            np.concatenate([part.x for part in parts]),
            tuple(broken for part in parts for broken in part.broken),
        )


def lines_source(path: Path, embed: Embed) -> Source:
    """A text file with a text on each line that is not empty."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a text in UTF-8 ({error}); save it as one") from error
    numbered = [number for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise DataError(f"{path} holds no text; give one a line")
    return Texts(str(path), [lines[number - 1] for number in numbered], None, embed, numbered)
