"""A folder of images with one subfolder for each class."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from zoolearn.errors import DataError
from zoolearn.zoo.inputs.pictures import SUFFIXES
from zoolearn.zoo.inputs.source import Pictures

NOT_OURS = (".", "__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information")  # left by systems, not by people
SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation"}


def image_folder(folder: Path) -> Pictures:
    """The images below each subfolder, labelled by the subfolder's name; links to folders are not followed."""
    classes = sorted((entry.name for entry in folder.iterdir() if _is_class(entry)), key=natural)
    names: list[str] = []
    labels: list[str] = []
    for name in classes:
        images = [str(path) for path in images_below(folder / name)]
        if not images:
            raise DataError(f"{folder / name} holds no image; put images there or remove the folder")
        names += images
        labels += [name] * len(images)
    if not classes:
        raise DataError(f"{folder} has no subfolders; give a folder with one subfolder of images for each class")
    if len(classes) < 2:
        raise DataError(f"{folder} has one class, {classes[0]!r}; give at least two subfolders, one for each class")
    if {name.lower() for name in classes} <= SPLITS:
        test = next((name for name in classes if name.lower() not in ("train", "training")), "test")
        raise DataError(
            f"{folder} is split into {', '.join(classes)}, which are not classes; learn from {folder / 'train'} "
            f"with --test {folder / test}"
        )
    return Pictures(str(folder), names, labels)


def images_below(folder: Path) -> Iterator[Path]:
    """Every image file below a folder, in natural order, without following links to folders; listed folder by folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: natural(entry.name))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith(NOT_OURS):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from images_below(Path(entry.path))
        elif Path(entry.name).suffix.lower() in SUFFIXES:
            yield Path(entry.path)


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key that sorts names as people do: 2 before 10, and -1 before both.

    >>> sorted(["10", "b2", "2", "b10", "-1"], key=natural)
    ['-1', '2', '10', 'b2', 'b10']
    """
    if re.fullmatch("-[0-9]+", name):
        return ((0, int(name)),)
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(part)) if part[0] in "0123456789" else (1, part.casefold()) for part in parts)


def _is_class(entry: Path) -> bool:
    return not entry.name.startswith(NOT_OURS) and entry.is_dir() and not entry.is_symlink()
