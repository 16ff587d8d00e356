"""Inputs of `predict` in Python: arrays, files, folders, Pillow images and data frames."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoolearn.errors import DataError
from zoolearn.zoo.inputs.cells import LARGEST, list_lines
from zoolearn.zoo.inputs.find import iter_blocks
from zoolearn.zoo.inputs.pictures import is_open_picture, to_pixels
from zoolearn.zoo.inputs.source import Block
from zoolearn.zoo.inputs.tables import Columns, table_source
from zoolearn.zoo.inputs.texts import Embed
from zoolearn.zoo.settings import ZooSettings


def read_rows(x: Any, settings: ZooSettings, embed: Embed | None = None) -> Tensor:
    """Inputs as rows: a path (or several), a Pillow image (or several), a data frame, or an array.

    If the zoo takes texts, `embed` makes rows of them, and a string is a text, not a path.
    """
    several = list(x) if isinstance(x, list | tuple) and len(x) else [x]
    if embed is not None and all(isinstance(one, str) for one in several):
        return torch.from_numpy(embed(several))
    if all(isinstance(one, str | Path) for one in several):
        return _from_paths([Path(one) for one in several], settings, embed)
    if all(is_open_picture(one) for one in several):
        return _from_pictures(several, settings)
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):
        return _from_frame({str(name): np.asarray(x[name]) for name in x.columns}, settings, embed)
    return _from_array(x, settings)


def _from_paths(paths: Sequence[Path], settings: ZooSettings, embed: Embed | None) -> Tensor:
    columns = Columns(wanted=settings.columns, embed=embed)
    return _join_blocks([block for _, block in iter_blocks(paths, settings.shape or (), columns)])


def _from_pictures(pictures: Sequence[Any], settings: ZooSettings) -> Tensor:
    shape = settings.shape or ()
    if len(shape) != 3:
        raise DataError(f"a picture was given, but this zoo takes rows of {shape[0]} features")
    return torch.from_numpy(np.stack([to_pixels(picture, shape) for picture in pictures]))


def _from_frame(table: Mapping[str, Any], settings: ZooSettings, embed: Embed | None) -> Tensor:
    shape = settings.shape or ()
    is_picture = len(shape) == 3
    wanted, width = settings.columns, None if is_picture else shape[0]
    columns = Columns(wanted=wanted, features=width, pictures=is_picture, embed=embed)
    rows = range(len(next(iter(table.values()), ())))
    source = table_source(Path("the frame"), table, rows, columns, labelled=False)
    return _join_blocks(list(source.blocks(range(len(source)), shape)))


def _join_blocks(blocks: Sequence[Block]) -> Tensor:
    """The rows of all blocks; raises if one cannot be read, so that answers stay aligned with inputs."""
    broken = [row for block in blocks for row in block.broken]
    if broken:
        rows = len(broken) + sum(len(block.x) for block in blocks)
        lines = list_lines(f"{row.name}: {row.reason}" for row in broken)
        raise DataError(f"{len(broken)} of {rows} inputs cannot be read; leave them out:{lines}")
    return torch.from_numpy(np.concatenate([block.x for block in blocks]))


def _from_array(x: Any, settings: ZooSettings) -> Tensor:
    if isinstance(x, np.ndarray) and not x.flags.writeable:
        x = x.copy()  # torch warns of what it cannot write to
    try:
        inputs = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        ways = (
            "texts: a string, or a list of them" if settings.takes_texts else "an array, a path, a picture or a frame"
        )
        raise DataError(f"inputs are a {type(x).__name__}, which is no array of numbers; give {ways}") from error
    if inputs.dtype == torch.int16 and settings.features and tuple(inputs.shape[1:]) == settings.stored_shape:
        return inputs
    if settings.takes_texts:
        raise DataError(
            f"inputs are a {type(x).__name__} of {inputs.dtype}; this zoo takes texts: a string, or a list of them"
        )
    shape = settings.shape or ()
    if inputs.ndim == 3 and len(shape) == 3:
        inputs = inputs[:, None] if shape[0] == 1 else inputs
    if len(shape) == 1 and inputs.ndim == 2:
        inputs = inputs.to(torch.float32)
    wanted = torch.uint8 if len(shape) == 3 else torch.float32
    if tuple(inputs.shape[1:]) != shape or inputs.dtype != wanted:
        raise DataError(
            f"inputs have shape {tuple(inputs.shape)} and dtype {inputs.dtype}; this zoo takes "
            f"(count, {', '.join(map(str, shape))}) {wanted}"
        )
    if not len(inputs):
        raise DataError("there are no inputs; give at least one row")
    if inputs.is_floating_point() and not bool((inputs.abs() <= LARGEST).all()):  # False for NaN too
        raise DataError(f"inputs hold values that are NaN, infinite or beyond {LARGEST:g}; clean them first")
    return inputs
