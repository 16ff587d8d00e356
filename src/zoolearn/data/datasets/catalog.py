"""What is known of each data set: its files, the publisher's checksums, and where the files come from."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zoolearn.errors import MissingData


def matches(path: Path, checksum: str) -> bool:
    """Whether the file is there and has this checksum; nothing is remembered, since a file can change after it was compared."""
    if not path.is_file():
        return False
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return digest.hexdigest() == expected


@dataclass(frozen=True)
class PublishedFile:
    """A file (or folder) of a data set; checksums are written "md5:...", and left empty where none is published."""

    name: str
    checksum: str = ""
    unpacked: str = ""  # the checksum without the compression; where it is given, the unpacked file will do as well

    def versions(self, folder: Path) -> dict[Path, str]:
        """The paths under which this file is accepted, each with its checksum."""
        versions = {folder / self.name: self.checksum}
        if self.unpacked:
            versions[folder / self.name.removesuffix(".gz")] = self.unpacked
        return versions

    def find(self, folder: Path) -> Path | None:
        return next((path for path in self.versions(folder) if path.exists()), None)


@dataclass(frozen=True)
class Layout:
    """One version of a data set: a folder below the data root and the files that must be in it."""

    folder: str
    files: tuple[PublishedFile, ...]

    def find_missing(self, root: Path) -> list[str]:
        """The names of the files that are not there."""
        return [file.name for file in self.files if file.find(root / self.folder) is None]

    def find_altered(self, root: Path) -> list[str]:
        """The names of the files that are there but are not the publisher's."""
        folder = root / self.folder
        there = [(path, file.versions(folder)[path]) for file in self.files if (path := file.find(folder))]
        return [path.name for path, checksum in there if checksum and not matches(path, checksum)]

    def is_whole(self, root: Path) -> bool:
        """Whether no file is missing or altered."""
        return not self.find_missing(root) and not self.find_altered(root)


@dataclass(frozen=True)
class Download:
    """A file to fetch: its place below the data root, its checksum, and the addresses to try in turn."""

    place: str
    checksum: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A data set: the layouts that can be read, the preferred one first, and what can be downloaded."""

    name: str
    layouts: tuple[Layout, ...]
    downloads: tuple[Download, ...] = ()
    origin: str = ""  # how to get the files where there is nothing to download

    def nearest(self, root: Path) -> Layout:
        """The first complete layout, else the one that lacks the fewest of its files."""
        return min(self.layouts, key=lambda layout: len(layout.find_missing(root)) / len(layout.files))

    def locate(self, root: Path) -> Layout:
        """The first complete layout; an error that names the missing files and what to do, if there is none."""
        layout = self.nearest(root)
        missing = layout.find_missing(root)
        if missing:
            raise MissingData(
                f"{self.name}: {root / layout.folder} lacks {', '.join(missing)}; {self.advice(root)}; "
                "--data or ZOOLEARN_DATA names another folder than " + str(root)
            )
        return layout

    def advice(self, root: Path) -> str:
        places = " or ".join(
            f"{root / layout.folder} ({', '.join(file.name for file in layout.files)})" for layout in self.layouts
        )
        if self.downloads:
            return f"run `zoo data --download {self.name}`, or put the publisher's files into {places}"
        return f"{self.origin}: put them into {places}"


CIFAR_HOSTS = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
MNIST_HOSTS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def _download(folder: str, name: str, checksum: str, hosts: Iterable[str]) -> Download:
    return Download(folder + name, checksum, tuple(host + name for host in hosts))


def _layout(folder: str, checksums: Mapping[str, str]) -> Layout:
    return Layout(folder, tuple(PublishedFile(name, checksum) for name, checksum in checksums.items()))


MNIST_CHECKSUMS = {
    "train-images-idx3-ubyte.gz": ("md5:f68b3c2dcbeaaa9fbdd348bbdeb94873", "md5:6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte.gz": ("md5:d53e105ee54ea40749a09fcbcd1e9432", "md5:a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte.gz": ("md5:9fb629c4189551a2d022fa330f9573f3", "md5:2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte.gz": ("md5:ec29112dd5afa0611ce80d1b7f02629c", "md5:27ae3e4e09519cfbb04c329615203637"),
}  # compressed, and not
MNIST_FILES = tuple(PublishedFile(name, *checksums) for name, checksums in MNIST_CHECKSUMS.items())

MNIST = Source(
    "mnist",
    (Layout("mnist", MNIST_FILES),),
    tuple(_download("mnist/", file.name, file.checksum, MNIST_HOSTS) for file in MNIST_FILES),
)

CIFAR10 = Source(
    "cifar-10",
    (
        _layout(
            "cifar-10-batches-bin",
            {
                "data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
                "data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
                "data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
                "data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
                "data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
                "test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
                "batches.meta.txt": "",
            },
        ),
        _layout(
            "cifar-10-batches-py",
            {
                "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
                "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
                "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
                "test_batch": "md5:40351d587109b95175f43aff81a1287e",
                "batches.meta": "md5:5ff9c542aee3614f3951f8cda6e48888",
            },
        ),
    ),
    (_download("", "cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", CIFAR_HOSTS),),
)

CIFAR100 = Source(
    "cifar-100",
    (
        _layout(
            "cifar-100-binary",
            {
                "train.bin": "sha1:e207cd2e05b73b1393c74c7f5e7bea451d63e08e",
                "test.bin": "sha1:8fb6623e830365ff53cf14adec797474f5478006",
                "fine_label_names.txt": "",
                "coarse_label_names.txt": "",
            },
        ),
        _layout(
            "cifar-100-python",
            {
                "train": "md5:16019d7e3df5f24257cddd939b257f8d",
                "test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
                "meta": "md5:7973b15100ade9c7d40fb424638fde48",
            },
        ),
    ),
    (_download("", "cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8", CIFAR_HOSTS),),
)

MINI_IMAGENET = Source(
    "mini-imagenet",
    (
        Layout("mini-imagenet", tuple(map(PublishedFile, ("train.csv", "val.csv", "test.csv", "images")))),
        Layout(
            "mini-imagenet",
            tuple(PublishedFile(f"mini-imagenet-cache-{split}.pkl") for split in ("train", "val", "test")),
        ),
    ),
    origin="it has no free download: make it from your copy of ImageNet with the lists of Ravi and Larochelle "
    "(github.com/twitter-research/meta-learning-lstm), or take the three cached pickles from a colleague",
)

SOURCES = {source.name: source for source in (MNIST, CIFAR10, CIFAR100, MINI_IMAGENET)}
