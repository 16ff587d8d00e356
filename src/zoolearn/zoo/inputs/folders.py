"""A folder of images with one subfolder for each class."""

import re
from collections.abc import Iterator
from pathlib import Path

from zoolearn.errors import DataError
from zoolearn.zoo.inputs.cells import compose
from zoolearn.zoo.inputs.pictures import is_picture
from zoolearn.zoo.inputs.source import Broken, Pictures

NO_PICTURE = "no picture that can be read"
STRAY = "a picture in no subfolder, so of no class"
LINK = "a link to a folder, which is not followed"
LITTER = {"__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "system volume information"}
SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation"}


def image_folder(folder: Path) -> Pictures:
    """The images below each subfolder, labelled by the subfolder's name; links to folders are not followed."""
    left_out: list[Broken] = []
    entries = [
        entry for entry in sorted(folder.iterdir(), key=lambda path: natural(path.name)) if not is_litter(entry.name)
    ]
    classes = [entry.name for entry in entries if entry.is_dir() and not entry.is_symlink()]
    for entry in entries:
        if entry.name not in classes:
            why = LINK if entry.is_dir() else STRAY if is_picture(entry) else NO_PICTURE
            left_out.append(Broken(str(entry), why))
    names: list[str] = []
    labels: list[str] = []
    for name in classes:
        images = [str(path) for path in iter_images(folder / name, left_out)]
        if not images:
            raise DataError(f"{folder / name} holds no image; put images there or remove the folder")
        names += images
        labels += [compose(name)] * len(images)
    if not classes:
        links = " but links, which are not followed" if any(entry.is_dir() for entry in entries) else ""
        raise DataError(f"{folder} has no subfolders{links}; give a folder with one subfolder of images for each class")
    if {name.lower() for name in classes} <= SPLITS:
        first, *others = sorted(classes, key=lambda name: name.lower() not in ("train", "training"))
        test = f" with --test {folder / others[0]}" if others else ""
        raise DataError(
            f"{folder} is split into {', '.join(classes)}, which are not classes; learn from {folder / first}{test}"
        )
    pictures = Pictures(str(folder), names, labels)
    pictures.left_out = tuple(left_out)
    return pictures


def iter_images(folder: Path, left_out: list[Broken] | None = None) -> Iterator[Path]:
    """Every image file below a folder, in natural order, folder by folder, without following links to folders.

    Other files are added to `left_out`.
    """
    others = [] if left_out is None else left_out
    try:
        entries = sorted(folder.iterdir(), key=lambda path: natural(path.name))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        if is_litter(entry.name):
            continue
        if entry.is_dir():
            if entry.is_symlink():
                others.append(Broken(str(entry), LINK))
            else:
                yield from iter_images(entry, others)
        elif is_picture(entry):
            yield entry
        else:
            others.append(Broken(str(entry), NO_PICTURE))


def natural(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """A key for sorting in natural order: 2 before 10, and -1 before both; capitals decide between equals.

    >>> sorted(["10", "b2", "2", "b10", "B2", "-1"], key=natural)
    ['-1', '2', '10', 'B2', 'b2', 'b10']
    """
    if re.fullmatch("-[0-9]+", name):
        return ((0, int(name)),), name
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(part)) if part[0] in "0123456789" else (1, part.casefold()) for part in parts), name


def is_litter(name: str) -> bool:
    """Whether an entry is hidden, or one that systems and archivers leave in folders."""
    return name.startswith(".") or name.casefold() in LITTER
