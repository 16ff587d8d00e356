"""Which kind of data a path holds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from zoolearn.errors import DataError, MissingData
from zoolearn.nets.backbones import Shape
from zoolearn.zoo.inputs.arrays import npy_source, npz_source
from zoolearn.zoo.inputs.folders import image_folder, iter_images
from zoolearn.zoo.inputs.pictures import SUFFIXES, is_picture
from zoolearn.zoo.inputs.saved import is_saved, saved_source, splits_of
from zoolearn.zoo.inputs.source import PICTURES_AT_ONCE, Block, Broken, Numbers, Pictures, Source
from zoolearn.zoo.inputs.tables import Columns, csv_source, parquet_source
from zoolearn.zoo.inputs.texts import SUFFIX, lines_source

TABLES = {".npz", ".npy", ".csv", ".tsv", ".parquet", ".pq"}
KINDS = "a folder with one subfolder of images per class, .npz, .npy, .csv, .parquet, or a data set saved to disk"
TEXTS = "a table with a column of texts, .csv, .parquet or a data set saved to disk, or, to be answered, .txt with one a line"


def open_source(
    path: Path,
    columns: Columns | None = None,
    *,
    labels: Path | None = None,
    split: str | None = None,
    labelled: bool = True,
) -> Source:
    """The rows of a path of any kind that is known; where texts are taken (`columns.embed`), of one that holds texts."""
    columns = columns or Columns()
    kinds = TEXTS if columns.embed is not None else KINDS if labelled else "images, folders of them, arrays or tables"
    if not path.exists():
        raise MissingData(f"{path} does not exist; give {kinds}")
    source = _open_known(path, columns, labels, split, labelled=labelled)
    if source is None:
        raise DataError(f"{path} is of no kind that is known; give {kinds}")
    if columns.embed is not None and source.look().kind != "texts":
        raise DataError(f"{path} holds no texts, and this zoo takes nothing else; give {kinds}")
    return source


def _open_known(
    path: Path, columns: Columns, labels: Path | None, split: str | None, *, labelled: bool
) -> Source | None:
    suffix = path.suffix.lower()
    if path.is_dir():
        if is_saved(path):
            return saved_source(path, columns, split, labelled=labelled)
        if (path / "x.npy").is_file():
            return npy_source(path / "x.npy", labels, labelled=labelled)
        return image_folder(path)
    if suffix == ".npz":
        return npz_source(path, labelled=labelled)
    if suffix == ".npy":
        return npy_source(path, labels, labelled=labelled)
    if suffix in (".csv", ".tsv"):
        return csv_source(path, columns, labelled=labelled)
    if suffix in (".parquet", ".pq"):
        return parquet_source(path, columns, labelled=labelled)
    if suffix == SUFFIX and columns.embed is not None and not labelled:
        return lines_source(path, columns.embed)
    return None


def open_sources(
    data: Path | str | Source, test: Path | str | Source | None, columns: Columns
) -> tuple[Source, Source | None]:
    """What to learn from and what to test on, each a path or rows at hand."""
    if not isinstance(data, Source) and not isinstance(test, Source):
        return open_pair(Path(data), None if test is None else Path(test), columns)
    first = data if isinstance(data, Source) else open_source(Path(data), columns)
    second = test if isinstance(test, Source) or test is None else open_source(Path(test), columns)
    return first, second


def open_pair(
    data: Path, test: Path | None, columns: Columns | None = None, labels: Path | None = None
) -> tuple[Source, Source | None]:
    """The rows to learn from and those to test on; splits that were saved together are used as such."""
    first = open_source(data, columns, labels=labels)
    if isinstance(first, Numbers) and first.columns:
        columns = replace(columns or Columns(), wanted=first.columns)
    split = _test_split(data) if test is None else None
    splits = _splits(data)
    first.left_out += tuple(
        Broken(f"{data}[{name}]", f"a split of {rows:,} rows, neither trained on nor held out")
        for name, rows in splits.items()
        if name not in ("train", split)
    )
    if test is not None:
        return first, open_source(test, columns, split=_test_split(test))
    return first, open_source(data, columns, split=split) if split else None


def _splits(path: Path) -> dict[str, int]:
    return splits_of(path) if path.is_dir() and is_saved(path) else {}


def _test_split(path: Path) -> str | None:
    return next((name for name in ("test", "validation") if name in _splits(path)), None)


def iter_blocks(
    paths: Sequence[Path], shape: Shape, columns: Columns | None = None
) -> Iterator[tuple[list[str], Block]]:
    """Everything that these paths hold, in blocks with the names of their rows; folders are walked as they are read."""
    is_picture = len(shape) == 3
    columns = replace(columns or Columns(), features=None if is_picture else shape[0], pictures=is_picture)
    takes_texts = columns.embed is not None
    pictures: list[Path] = []
    for path in paths:
        if not takes_texts and not path.is_dir() and (path.suffix.lower() in SUFFIXES or _is_unnamed_picture(path)):
            pictures.append(path)
            continue
        yield from _iter_pictures(pictures, shape)
        pictures = []
        if not takes_texts and path.is_dir() and not is_saved(path) and not (path / "x.npy").is_file():
            yield from _iter_pictures(iter_images(path), shape, path)
        else:
            source = open_source(path, columns, labelled=False)
            for block in source.blocks(range(len(source)), shape):
                yield [source.name(row) for row in block.rows], block
    yield from _iter_pictures(pictures, shape)


def _is_unnamed_picture(path: Path) -> bool:
    return path.suffix.lower() not in TABLES and path.is_file() and is_picture(path)


def _iter_pictures(
    paths: Iterable[Path], shape: Shape, folder: Path | None = None
) -> Iterator[tuple[list[str], Block]]:
    remaining = iter(paths)
    found = False
    while some := [str(path) for path in islice(remaining, PICTURES_AT_ONCE)]:
        found = True
        for block in Pictures(some[0], some, None).blocks(range(len(some)), shape):
            yield [some[row] for row in block.rows], block
    if folder is not None and not found:
        raise DataError(f"{folder} holds no image; known are {', '.join(sorted(SUFFIXES))}")
