"""mini-ImageNet from a folder of images with the lists of Ravi and Larochelle (2017), or from the three cached pickles.

Its publishers split classes, not images. Continual learning needs both halves of every class, so the split is made here,
once and for all: of each class, in the order of its list, the first 80 % of the images train (480 of 600), the rest test.
"""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from zoolearn.data.datasets.catalog import MINI_IMAGENET
from zoolearn.data.datasets.dataset import DataSet
from zoolearn.data.datasets.decoded import Decoding, Image, damage, fingerprint, load_decoded
from zoolearn.data.datasets.root import data_root
from zoolearn.data.datasets.safe_pickle import Plain, load_pickle
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, MissingData

SIDE = 84
SPLITS = ("train", "val", "test")

Item = TypeVar("Item")
Counts = dict[str, list[int]]  # how many images of each class train and test


def mini_imagenet(data: Path | str | None = None) -> DataSet:
    """A hundred classes of 600 images of 84x84 colour pixels, memory-mapped, in the order of the train, val and test lists.

    Images of another size are squeezed whole into 84x84 (Lanczos), as the makers of the lists did. Classes are named by
    their WordNet number.
    """
    root = data_root(data)
    layout = MINI_IMAGENET.locate(root)
    folder = root / layout.folder
    names = [file.name for file in layout.files]
    from_images, from_pickles = cache_files(root)
    if "images" in names:
        x, counts = load_decoded(from_images, _folder_fingerprint(folder), lambda: _decode_folder(folder))
    else:
        pickles = [folder / name for name in names]
        x, counts = load_decoded(from_pickles, fingerprint(pickles), lambda: _decode_pickles(pickles))
    train, test = (
        torch.arange(len(counts)).repeat_interleave(torch.tensor([count[part] for count in counts.values()]))
        for part in (0, 1)
    )
    return DataSet(Examples(x[: len(train)], train), Examples(x[len(train) :], test), tuple(counts))


def cache_files(root: Path) -> tuple[Path, Path]:
    """Where the pixels decoded from a folder of images and from the pickles are kept."""
    return root / ".cache" / "mini-imagenet-images.bin", root / ".cache" / "mini-imagenet-pickles.bin"


def _folder_fingerprint(folder: Path) -> str:
    try:
        with os.scandir(folder / "images") as images:
            return fingerprint([*(folder / f"{split}.csv" for split in SPLITS), *images])
    except OSError as error:
        raise DataError(f"mini-imagenet: {folder / 'images'} cannot be listed ({error}); fix or replace it") from error


def problems(root: Path) -> list[str]:
    """What is wrong with the lists, the images they name, and the decoded pixels (all of which are read)."""
    found = [damage(path) for path in cache_files(root)]
    folder = root / MINI_IMAGENET.layouts[0].folder
    if not MINI_IMAGENET.layouts[0].find_missing(root):
        try:
            _list_images(folder)
        except DataError as error:
            found.append(str(error))
    return [problem for problem in found if problem]


def _split(classes: Mapping[str, Sequence[Item]]) -> tuple[list[Item], Counts]:
    """All that trains, class by class, then all that tests: so that a task's images lie side by side in the file."""
    if not classes:
        raise DataError("mini-ImageNet's three files name no image at all; replace them")
    cuts = {name: len(items) * 4 // 5 for name, items in classes.items()}
    for name, cut in cuts.items():
        if cut == 0:
            raise DataError(f"mini-ImageNet's class {name!r} has {len(classes[name])} image(s); it needs at least 2")
    train = [item for name, items in classes.items() for item in items[: cuts[name]]]
    test = [item for name, items in classes.items() for item in items[cuts[name] :]]
    return train + test, {name: [cut, len(classes[name]) - cut] for name, cut in cuts.items()}


def _decode_folder(folder: Path) -> Decoding:
    paths, counts = _list_images(folder)
    return Decoding((len(paths), 3, SIDE, SIDE), _decode_images(paths), counts)


def _list_images(folder: Path) -> tuple[list[Path], Counts]:
    names, counts = _split(_read_lists(folder))
    present = set(os.listdir(folder / "images"))
    missing = [name for name in names if name not in present]
    if missing:
        raise MissingData(
            f"mini-imagenet: {folder / 'images'} lacks {len(missing)} of the {len(names)} listed images, "
            f"{missing[0]} first; put them there or take their lines out of the lists"
        )
    return [folder / "images" / name for name in names], counts


def _read_lists(folder: Path) -> dict[str, list[str]]:
    """The images of each class, classes in the order in which the three lists first name them."""
    classes: dict[str, list[str]] = {}
    listed: set[str] = set()
    for split in SPLITS:
        path = folder / f"{split}.csv"
        earlier = set(classes)
        for number, (name, label) in enumerate(_rows(path), start=2):
            if label in earlier:
                raise DataError(f"{path}, line {number}: class {label!r} is in an earlier list too; keep it in one")
            if name in listed:
                raise DataError(f"{path}, line {number}: image {name!r} is listed twice, and could both train and test")
            listed.add(name)
            classes.setdefault(label, []).append(name)
    return classes


def _rows(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    if header != ["filename", "label"]:
        raise DataError(f"{path} starts with {','.join(header)!r}; its first line must be 'filename,label'")
    for number, row in enumerate(rows, start=2):
        if len(row) != 2 or not all(row):
            raise DataError(f"{path}, line {number}: {','.join(row)!r} is not a file name and a label")
    return [(name, label) for name, label in rows]


def _decode_images(paths: Sequence[Path], block: int = 256) -> Iterator[Image]:
    """The pixels of each image, decoded by several threads, a block at a time to bound the memory."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), block):
            yield from pool.map(_decode_image, paths[start : start + block])


def _decode_image(path: Path) -> Image:
    from PIL import Image as pillow  # noqa: N813 (here an Image is an array)

    try:
        with pillow.open(path) as image:
            colour = image.convert("RGB")
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be decoded ({error}); replace the file") from error
    if colour.size != (SIDE, SIDE):
        colour = colour.resize((SIDE, SIDE), pillow.Resampling.LANCZOS)
    return np.asarray(colour).transpose(2, 0, 1)


def _decode_pickles(paths: Sequence[Path]) -> Decoding:
    """The images of the three pickles; classes by name within each, which is their order in the lists."""
    pixels: list[Image] = []
    classes: dict[str, list[tuple[int, int]]] = {}
    for place, path in enumerate(paths):
        images, rows = _check_pickle(path, load_pickle(path))
        for name in sorted(rows):
            if name in classes:
                raise DataError(f"{path}: class {name!r} is in an earlier file too; they do not belong together")
            classes[name] = [(place, row) for row in rows[name]]
        pixels.append(images)
    order, counts = _split(classes)
    return Decoding(
        (len(order), 3, SIDE, SIDE), (pixels[place][row].transpose(2, 0, 1) for place, row in order), counts
    )


def _check_pickle(path: Path, content: Plain) -> tuple[Image, dict[str, list[int]]]:
    if not isinstance(content, dict) or not {"image_data", "class_dict"} <= content.keys():
        raise DataError(f"{path} has no entries 'image_data' and 'class_dict'; it is another file or damaged")
    images, classes = content["image_data"], content["class_dict"]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE, 3):
        raise DataError(f"{path}: 'image_data' is not an array of bytes of shape (count, {SIDE}, {SIDE}, 3)")
    if not isinstance(classes, dict) or not all(map(_is_rows, classes.values())):
        raise DataError(f"{path}: 'class_dict' does not give a list of rows for each class")
    met: set[int] = set()
    for name, rows in classes.items():
        for row in rows:
            if row in met or not 0 <= row < len(images):
                raise DataError(f"{path}: class {name!r} has row {row}, which is beyond the images or used twice")
            met.add(row)
    return images, {str(name): rows for name, rows in classes.items()}


def _is_rows(rows: Plain) -> bool:
    return isinstance(rows, list) and all(isinstance(row, int) for row in rows)
