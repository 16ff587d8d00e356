"""Readers against hand-made files in every publisher's format, and against the real ones where they are at hand."""

import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from published_files import (
    CIFAR10_NAMES,
    COARSE_NAMES,
    FINE_NAMES,
    MNIST_NAMES,
    REAL,
    coarse_of,
    idx,
    mini_imagenet_classes,
    mini_imagenet_colour,
    python2_pickle,
    with_real,
    write,
    write_cifar10,
    write_cifar100,
    write_mini_imagenet_folder,
    write_mini_imagenet_pickles,
    write_mnist,
)
from zoolearn.data import datasets
from zoolearn.data.datasets.catalog import SOURCES, Layout, PublishedFile, Source
from zoolearn.data.datasets.mini_imagenet import cache_files
from zoolearn.data.datasets.progress import iter_with_bar
from zoolearn.data.datasets.safe_pickle import load_pickle
from zoolearn.errors import DataError, MissingData, StoreError

# The data root


def test_the_data_root_is_what_is_named_else_the_environment_else_the_platforms_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("ZOOLEARN_DATA", raising=False)
    assert datasets.data_root() == tmp_path / "zoolearn"
    monkeypatch.setenv("ZOOLEARN_DATA", "/from/environment")
    assert datasets.data_root() == Path("/from/environment")
    assert datasets.data_root("/named") == Path("/named")


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", ".cache/zoolearn"), ("darwin", "Library/Caches/zoolearn"), ("win32", "AppData/Local/zoolearn")],
)
def test_each_platform_has_its_own_cache_folder(monkeypatch, tmp_path, platform, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "ZOOLEARN_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    assert datasets.data_root() == tmp_path / expected


def test_importing_loads_no_image_learning_or_terminal_library():
    code = "import sys, zoolearn.data.benchmarks; print(sorted({'PIL', 'sklearn', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# MNIST


@pytest.mark.parametrize("compressed", [True, False])
def test_mnist_is_read_compressed_or_not(tmp_path, compressed):
    written = write_mnist(tmp_path, compressed=compressed)
    mnist = datasets.mnist(tmp_path)
    assert torch.equal(mnist.train.x[:, 0], torch.from_numpy(written[MNIST_NAMES[0]]))
    assert mnist.train.y.tolist() == written[MNIST_NAMES[1]].tolist()
    assert torch.equal(mnist.test.x[:, 0], torch.from_numpy(written[MNIST_NAMES[2]]))
    assert mnist.classes == tuple("0123456789")
    assert mnist.train.x.is_contiguous()


def test_missing_files_are_named_with_the_place_and_the_command(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(MissingData) as error:
        datasets.mnist(tmp_path)
    message = str(error.value)
    assert message.startswith(f"mnist: {tmp_path / 'mnist'} lacks t10k-labels-idx1-ubyte.gz; ")
    assert "zoo data --download mnist" in message
    assert "ZOOLEARN_DATA" in message


def truncate(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate, "is truncated or damaged"),
        (lambda content: b"not compressed at all", "is truncated or damaged"),
        (lambda content: gzip.compress(truncate(gzip.decompress(content))), "but its header announces 23520"),
        (
            lambda content: gzip.compress(gzip.decompress(content) + b"x"),
            "holds 23521 bytes but its header announces 23520",
        ),
        (lambda content: gzip.compress(b"\0\0\x0b\x03" + bytes(40)), "does not start as an idx file of bytes in 3"),
        (lambda content: gzip.compress(b"\0\0\x08\x03"), "does not start as an idx file"),
        (lambda content: gzip.compress(idx(np.zeros((29, 28, 28), np.uint8))), "holds 29 images but"),
    ],
)
def test_damaged_mnist_images_are_named(tmp_path, spoil, message):
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / f"{MNIST_NAMES[0]}.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DataError, match=message) as error:
        datasets.mnist(tmp_path)
    assert str(path) in str(error.value)


def test_a_label_that_is_no_digit_is_named(tmp_path):
    write_mnist(tmp_path, compressed=False)
    path = tmp_path / "mnist" / MNIST_NAMES[1]
    path.write_bytes(path.read_bytes()[:-1] + b"\x0b")
    with pytest.raises(DataError, match="holds the label 11; MNIST's labels are 0 to 9"):
        datasets.mnist(tmp_path)


# CIFAR


@pytest.mark.parametrize("version", ["binary", "python"])
def test_cifar10_is_read_in_both_versions(tmp_path, version):
    x, y = write_cifar10(tmp_path, version=version)
    cifar = datasets.cifar10(tmp_path)
    assert cifar.classes == tuple(CIFAR10_NAMES)
    assert torch.equal(cifar.train.x.flatten(1), torch.from_numpy(x[:100]))
    assert torch.equal(cifar.test.x.flatten(1), torch.from_numpy(x[100:]))
    assert cifar.train.y.tolist() == y[:100].tolist()
    assert cifar.test.y.tolist() == y[100:].tolist()
    assert cifar.train.shape == (3, 32, 32)


@pytest.mark.parametrize("version", ["binary", "python"])
def test_cifar100_is_read_in_both_versions(tmp_path, version):
    written = write_cifar100(tmp_path, version=version)
    cifar = datasets.cifar100(tmp_path)
    for examples, (x, fine) in zip((cifar.train, cifar.test), written.values(), strict=True):
        assert torch.equal(examples.x.flatten(1), torch.from_numpy(x))
        assert examples.y.tolist() == fine.tolist()
    assert cifar.classes == tuple(FINE_NAMES)
    assert list(cifar.superclasses) == COARSE_NAMES
    assert cifar.superclasses["coarse_03"] == (3, 23, 43, 63, 83)


def test_the_binary_version_of_cifar100_is_mapped_not_copied(tmp_path):
    write_cifar100(tmp_path, version="binary")
    x = datasets.cifar100(tmp_path).train.x
    assert x.stride() == (3074, 1024, 32, 1)
    x[0] = 0
    assert datasets.cifar100(tmp_path).train.x[0].any(), "the file was written to"


def test_the_binary_version_is_preferred_and_any_complete_one_will_do(tmp_path):
    written = write_cifar100(tmp_path, version="python")
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary" / "train.bin").write_bytes(b"half a download")
    assert torch.equal(datasets.cifar100(tmp_path).train.x.flatten(1), torch.from_numpy(written["train"][0]))


def test_missing_cifar_files_name_both_versions(tmp_path):
    with pytest.raises(MissingData) as error:
        datasets.cifar100(tmp_path)
    for part in ("cifar-100-binary", "cifar-100-python", "train.bin", "meta", "zoo data --download cifar-100"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(3073), "has 3073 bytes, not a whole number of records of 3074"),
        (b"", "has 0 bytes, not a whole number of records"),
        (bytes([20, 0]) + bytes(3072), "holds the label 20, its labels end at 19"),
        (bytes([0, 100]) + bytes(3072), "holds the label 100, its labels end at 99"),
        (bytes([0, 7]) + bytes(3072) + bytes([1, 7]) + bytes(3072), "puts class 'fine_07' into"),
    ],
)
def test_damaged_binary_files_are_named(tmp_path, content, message):
    write_cifar100(tmp_path, version="binary")
    (tmp_path / "cifar-100-binary" / "train.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        datasets.cifar100(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"fine_labels": [0], "coarse_labels": [0]}, "has no entry 'data'"),
        ([1, 2], "has no entry 'data'"),
        ({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [0]}, "has no entry 'coarse_labels'"),
        (
            {"data": np.zeros((1, 9), np.uint8), "fine_labels": [0], "coarse_labels": [0]},
            "not an array of bytes with 3072",
        ),
        ({"data": np.zeros((1, 3072)), "fine_labels": [0], "coarse_labels": [0]}, "not an array of bytes with 3072"),
        (
            {"data": np.zeros((1, 3072), np.uint8), "fine_labels": [0, 1], "coarse_labels": [0]},
            "'fine_labels' is not a list of 1 labels",
        ),
        (
            {"data": np.zeros((1, 3072), np.uint8), "fine_labels": [0.5], "coarse_labels": [0]},
            "labels that are not whole numbers from 0",
        ),
        (
            {"data": np.zeros((1, 3072), np.uint8), "fine_labels": [-1], "coarse_labels": [0]},
            "labels that are not whole numbers from 0",
        ),
        ({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [100], "coarse_labels": [0]}, "holds the label 100"),
    ],
)
def test_damaged_python_files_are_named(tmp_path, content, message):
    write_cifar100(tmp_path, version="python")
    (tmp_path / "cifar-100-python" / "train").write_bytes(python2_pickle(content))
    with pytest.raises(DataError, match=message):
        datasets.cifar100(tmp_path)


def test_label_names_must_be_complete(tmp_path):
    write_cifar100(tmp_path, version="binary")
    (tmp_path / "cifar-100-binary" / "coarse_label_names.txt").write_text("fish\n")
    with pytest.raises(DataError, match="does not hold the names of 20 labels"):
        datasets.cifar100(tmp_path)


# Pickles


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_any_protocol_give_plain_values(tmp_path, protocol):
    arrays = [np.arange(6, dtype=np.uint8).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))]
    content = {"arrays": arrays, "text": "é", "bytes": b"\xff\0", "numbers": (1, -2, 3.5, None, True), "none": []}
    write(tmp_path / "file", pickle.dumps(content, protocol))
    loaded = load_pickle(tmp_path / "file")
    for left, right in zip(loaded.pop("arrays"), content.pop("arrays"), strict=True):
        assert left.dtype == right.dtype
        assert np.array_equal(left, right)
    assert loaded == content


def test_pickles_of_python_2_give_text_and_arrays(tmp_path):
    array = np.arange(1000, dtype=">i4")
    write(tmp_path / "file", python2_pickle({"data": array, "names": ["a", "b"]}))
    loaded = load_pickle(tmp_path / "file")
    assert loaded["names"] == ["a", "b"]
    assert np.array_equal(loaded["data"], array)


class Hostile:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_something_is_refused_before_it_runs(tmp_path, protocol):
    trace = tmp_path / "trace"
    write(tmp_path / "file", pickle.dumps({"data": Hostile(os.system, f"touch {trace}")}, protocol))
    with pytest.raises(DataError, match=r"asks for posix\.system; only arrays, bytes, text, numbers, lists and dicts"):
        load_pickle(tmp_path / "file")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([{"a": 1}], dtype=object), r"an array of type 'O8'"),
        (np.array(["text"]), r"an array of type 'U4'"),
        (np.zeros(2, np.dtype([("a", "u1"), ("b", "O")])), "an array of type 'V"),
        (np.zeros(2, np.complex64), "an array of type 'c8'"),
        (np.uint8(3), r"asks for numpy\..*scalar"),
        (Hostile(eval, "1"), "asks for (__builtin__|builtins).eval"),
        (Hostile(getattr, "a", "b"), "asks for (__builtin__|builtins).getattr"),
        (np.load, "asks for numpy"),
        ({1, 2}, "asks for (__builtin__|builtins).set"),
        (1j, "asks for (__builtin__|builtins).complex"),
    ],
)
def test_whatever_is_not_plain_is_refused_by_name(tmp_path, content, message):
    write(tmp_path / "file", pickle.dumps([content], 2))
    with pytest.raises(DataError, match=message) as error:
        load_pickle(tmp_path / "file")
    assert str(tmp_path / "file") in str(error.value)


def test_a_set_written_by_opcode_is_refused(tmp_path):
    write(tmp_path / "file", pickle.dumps({1, 2}, 4))
    with pytest.raises(DataError, match="holds a set; only arrays"):
        load_pickle(tmp_path / "file")


def reconstruct(state: bytes, code: bytes = b"u1") -> bytes:
    """A handmade pickle of an array with any state; `DTYPE` in the state stands for the type."""
    dtype = b"cnumpy\ndtype\n(U" + bytes([len(code)]) + code + b"I0\nI1\ntR"
    start = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR"
    return start + state.replace(b"DTYPE", dtype) + b"b."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (reconstruct(b"(I1\n(I3\ntDTYPEI00\nU\x02abt"), r"holds 2 bytes for an array of shape \(3,\)"),
        (reconstruct(b"(I1\n(I-2\ntDTYPEI00\nU\x02abt"), r"an array of shape \(-2,\)"),
        (reconstruct(b"(I1\n(I2\ntDTYPEI00\n(lt"), "holds an array of list"),
        (reconstruct(b"(I1\n(I2\ntNI00\nU\x02abt"), "holds an array of bytearray"),
        (reconstruct(b"(I1\n(I1\ntDTYPEI00\n(I1\nlt", b"O8"), "an array of type 'O8'"),
        (reconstruct(b"I5\n"), "is truncated or not a pickle"),
        (b"\x80\x02cnumpy\ndtype\n(U\x02u1tR(I3\nU\x01?tb.", "byte order"),
        (b"\x80\x02c_codecs\nencode\n(U\x01aU\x05rot13tR.", "encoding 'rot13'"),
        (b"\x80\x02c_codecs\nencode\n(U\x01aU\x06latin1tR}b.", "gives a state to bytes"),
        (b"\x80\x02cnumpy\ndtype\n}b.", "is truncated or not a pickle"),
        (b"\x80\x02cnumpy\ndtype\n.", "holds a type"),
        (b"\x80\x02cnumpy\ndtype\n(U\x02u1tR.", "holds a _Dtype"),
        (b"\x80\x02Pname\n.", "is truncated or not a pickle"),
        (b"", "is truncated or not a pickle"),
        (b"no pickle", "is truncated or not a pickle"),
        (pickle.dumps(list(range(1000)))[:-200], "is truncated or not a pickle"),
    ],
)
def test_damaged_or_crafted_pickles_are_refused(tmp_path, content, message):
    write(tmp_path / "file", content)
    with pytest.raises(DataError, match=message):
        load_pickle(tmp_path / "file")


def test_a_list_that_holds_itself_ends(tmp_path):
    endless: list = [1]
    endless.append(endless)
    write(tmp_path / "file", pickle.dumps(endless))
    assert load_pickle(tmp_path / "file") == [1, None]


# mini-ImageNet


def check_mini_imagenet(dataset) -> None:
    """Five images of each of ten classes: four train, one tests, in the order of the lists."""
    names = [name for split in mini_imagenet_classes().values() for name in split]
    assert dataset.classes == tuple(names)
    expected = [mini_imagenet_colour(label, image) for label in range(10) for image in range(4)]
    assert dataset.train.x[:, :, 0, 0].tolist() == [list(colour) for colour in expected]
    assert dataset.train.y.tolist() == [label for label in range(10) for _ in range(4)]
    assert dataset.test.x[:, :, 83, 83].tolist() == [list(mini_imagenet_colour(label, 4)) for label in range(10)]
    assert dataset.test.y.tolist() == list(range(10))
    assert dataset.train.shape == (3, 84, 84)


def test_mini_imagenet_is_read_from_images_and_lists(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    check_mini_imagenet(datasets.mini_imagenet(tmp_path))


def test_mini_imagenet_is_read_from_the_cached_pickles(tmp_path):
    write_mini_imagenet_pickles(tmp_path)
    check_mini_imagenet(datasets.mini_imagenet(tmp_path))
    check_mini_imagenet(datasets.mini_imagenet(tmp_path))


@pytest.mark.parametrize(("images", "trained"), [(2, 1), (3, 2), (6, 4), (7, 5), (9, 7), (11, 8), (12, 9)])
def test_of_each_class_of_mini_imagenet_four_fifths_train_rounded_down(tmp_path, images, trained):
    write_mini_imagenet_pickles(tmp_path, per_class=images)
    dataset = datasets.mini_imagenet(tmp_path)
    assert dataset.train.y.bincount().tolist() == [trained] * 10
    assert dataset.test.y.bincount().tolist() == [images - trained] * 10
    greens = [dataset.train.x[:trained, 1, 0, 0].tolist(), dataset.test.x[: images - trained, 1, 0, 0].tolist()]
    assert greens == [[20 * image for image in range(trained)], [20 * image for image in range(trained, images)]]


def test_of_the_600_images_of_a_class_480_train_and_120_test(tmp_path, monkeypatch):
    monkeypatch.setitem(datasets.mini_imagenet.__globals__, "SIDE", 1)  # one pixel each, which tells class and number
    for split, label in (("train", 0), ("val", 1), ("test", 2)):
        pixels = np.array([(label, *divmod(image, 256)) for image in range(600)], np.uint8)[:, None, None]
        content = {"image_data": pixels, "class_dict": {f"n{label:08}": list(range(600))}}
        write(tmp_path / "mini-imagenet" / f"mini-imagenet-cache-{split}.pkl", pickle.dumps(content))
    dataset = datasets.mini_imagenet(tmp_path)
    for examples, numbers in ((dataset.train, range(480)), (dataset.test, range(480, 600))):
        expected = [[label, *divmod(image, 256)] for label in range(3) for image in numbers]
        assert examples.x[:, :, 0, 0].tolist() == expected
        assert examples.y.tolist() == [label for label, _, _ in expected]


def test_images_of_another_size_are_squeezed_whole(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    path = tmp_path / "mini-imagenet" / "images" / "n0000003000000000.jpg"
    left_half_white = Image.new("L", (200, 50), 0)
    left_half_white.paste(255, (0, 0, 100, 50))
    left_half_white.save(path, "PNG")
    image = datasets.mini_imagenet(tmp_path).train.x[0]
    assert image[:, :, :38].eq(255).all()
    assert image[:, :, 46:].eq(0).all()


def test_images_are_decoded_once(tmp_path, monkeypatch):
    write_mini_imagenet_folder(tmp_path)
    datasets.mini_imagenet(tmp_path)
    monkeypatch.setattr(Image, "open", lambda path: pytest.fail(f"{path} was decoded again"))
    check_mini_imagenet(datasets.mini_imagenet(tmp_path))


@pytest.mark.parametrize("spoil", ["truncate pixels", "delete pixels", "alter record", "delete record"])
def test_a_cache_that_does_not_fit_its_record_is_made_again(tmp_path, spoil):
    write_mini_imagenet_folder(tmp_path)
    datasets.mini_imagenet(tmp_path)
    verb, what = spoil.split()
    path = cache_files(tmp_path)[0]
    path = path if what == "pixels" else path.with_suffix(".json")
    if verb == "delete":
        path.unlink()
    else:
        path.write_bytes(truncate(path.read_bytes()) if verb == "truncate" else path.read_bytes().replace(b"50", b"51"))
    check_mini_imagenet(datasets.mini_imagenet(tmp_path))
    assert find(tmp_path, "mini-imagenet").state == "present"


def test_a_changed_image_is_decoded_again(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    datasets.mini_imagenet(tmp_path)
    path = tmp_path / "mini-imagenet" / "images" / "n0000003000000000.jpg"
    Image.new("RGB", (84, 84), "white").save(path, "PNG", compress_level=0)
    assert datasets.mini_imagenet(tmp_path).train.x[0].eq(255).all()


def test_writing_into_mapped_images_leaves_the_file_alone(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    datasets.mini_imagenet(tmp_path).train.x.zero_()
    check_mini_imagenet(datasets.mini_imagenet(tmp_path))


def test_an_image_that_cannot_be_decoded_is_named_and_nothing_is_left_behind(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    path = tmp_path / "mini-imagenet" / "images" / "n0000003000000000.jpg"
    path.write_bytes(truncate(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{path} cannot be decoded \(.*\); replace the file"):
        datasets.mini_imagenet(tmp_path)
    assert list((tmp_path / ".cache").iterdir()) == []


def test_what_a_killed_process_left_is_removed_but_not_what_another_is_writing(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    abandoned, busy = (tmp_path / ".cache" / f".mini-imagenet-images.bin.{name}.part" for name in ("old", "new"))
    write(abandoned, b"half")
    os.utime(abandoned, (0, 0))
    write(busy, b"half")
    datasets.mini_imagenet(tmp_path)
    assert not abandoned.exists()
    assert busy.exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    (tmp_path / ".cache").write_text("a file in the way")
    with pytest.raises(StoreError, match=r"cannot write .*mini-imagenet-images\.bin"):
        datasets.mini_imagenet(tmp_path)


def test_listed_images_that_are_not_there_are_counted(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    (tmp_path / "mini-imagenet" / "images" / "n0000003000000002.jpg").unlink()
    with pytest.raises(MissingData, match=r"lacks 1 of the 50 listed images, n0000003000000002\.jpg first"):
        datasets.mini_imagenet(tmp_path)


def test_images_that_cannot_be_listed_are_named(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    (tmp_path / "mini-imagenet" / "images" / "nowhere.jpg").symlink_to(tmp_path / "gone")
    with pytest.raises(DataError, match=r"images cannot be listed \(.*nowhere\.jpg.*\); fix or replace it"):
        datasets.mini_imagenet(tmp_path)


def test_lists_without_any_image_are_refused(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    for split in ("train", "val", "test"):
        (tmp_path / "mini-imagenet" / f"{split}.csv").write_text("filename,label\n")
    with pytest.raises(DataError, match="three files name no image at all"):
        datasets.mini_imagenet(tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a.jpg,n1\nb.jpg,n1\n", "starts with 'a.jpg,n1'; its first line must be 'filename,label'"),
        ("", "starts with ''"),
        ("filename,label\na.jpg\n", "line 2: 'a.jpg' is not a file name and a label"),
        ("filename,label\na.jpg,n1\na.jpg,n1\n", r"line 3: image 'a\.jpg' is listed twice"),
        ("filename,label\na.jpg,n00000030\n", "line 2: class 'n00000030' is in an earlier list too"),
        ("filename,label\na.jpg,n1\n", r"class 'n1' has 1 image\(s\); it needs at least 2"),
        ("filename,label\n../../secret,n1\n../x,n1\n", r"lacks 2 of the 42 listed images, \.\./\.\./secret first"),
    ],
)
def test_damaged_lists_are_named(tmp_path, lines, message):
    write_mini_imagenet_folder(tmp_path)
    (tmp_path / "mini-imagenet" / "test.csv").write_text(lines)
    with pytest.raises(DataError, match=message):
        datasets.mini_imagenet(tmp_path)


IMAGES = np.zeros((2, 84, 84, 3), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"image_data": IMAGES}, "has no entries 'image_data' and 'class_dict'"),
        ({"image_data": IMAGES[:, :80], "class_dict": {}}, r"not an array of bytes of shape \(count, 84, 84, 3\)"),
        ({"image_data": IMAGES, "class_dict": {"n1": 3}}, "'class_dict' does not give a list of rows"),
        ({"image_data": IMAGES, "class_dict": {"n1": ["a", "b"]}}, "'class_dict' does not give a list of rows"),
        ({"image_data": IMAGES, "class_dict": {"n1": [0, 2]}}, "class 'n1' has row 2, which is beyond the images"),
        ({"image_data": IMAGES, "class_dict": {"n1": [0, 0]}}, "class 'n1' has row 0, which is .* used twice"),
        ({"image_data": IMAGES, "class_dict": {"n00000030": [0, 1]}}, "class 'n00000030' is in an earlier file"),
        ({"image_data": IMAGES, "class_dict": Hostile(os.system, "true")}, "asks for posix.system"),
    ],
)
def test_damaged_cached_pickles_are_named(tmp_path, content, message):
    write_mini_imagenet_pickles(tmp_path)
    write(tmp_path / "mini-imagenet" / "mini-imagenet-cache-test.pkl", pickle.dumps(content))
    with pytest.raises(DataError, match=message):
        datasets.mini_imagenet(tmp_path)


def test_missing_mini_imagenet_says_that_there_is_no_download(tmp_path):
    with pytest.raises(MissingData, match=r"lacks train\.csv, val\.csv, test\.csv, images; it has no free download"):
        datasets.mini_imagenet(tmp_path)


# Digits


def test_digits_are_those_that_scikit_learn_loads():
    from sklearn.datasets import load_digits

    digits, content = datasets.digits(), load_digits()
    for label in range(10):
        x = torch.cat([part.x[part.y == label] for part in (digits.train, digits.test)])
        assert (x[:, 0] == torch.from_numpy(content.images[content.target == label] * 255 / 16).round()).all()


def test_digits_use_the_whole_range_and_share_no_image():
    digits = datasets.digits()
    assert digits.train.x.max() == 255
    assert digits.train.x.min() == 0
    train = {bytes(image.flatten().tolist()) for image in digits.train.x}
    test = {bytes(image.flatten().tolist()) for image in digits.test.x}
    assert len(digits.train) + len(digits.test) == 1797
    assert not train & test


# Status


def find(root: Path, name: str, **options):
    return next(entry for entry in datasets.status(root, **options) if entry.name == name)


def test_status_tells_missing_from_damaged_from_present(tmp_path):
    assert [entry.state for entry in datasets.status(tmp_path)] == ["missing"] * 4 + ["present"]
    write_mnist(tmp_path)
    (tmp_path / "mnist" / f"{MNIST_NAMES[3]}.gz").unlink()
    entry = find(tmp_path, "mnist")
    assert entry.problems == ("t10k-labels-idx1-ubyte.gz is missing",)
    assert "zoo data --download mnist" in entry.advice
    write_mnist(tmp_path)
    entry = find(tmp_path, "mnist")
    assert entry.state == "damaged"
    assert entry.problems[0] == "train-images-idx3-ubyte.gz is not the publisher's file"
    assert find(tmp_path, "mnist", verify=False).state == "present"


def test_status_verifies_what_has_the_publishers_checksum(tmp_path, monkeypatch):
    layout = Layout("toy", (PublishedFile("file", "md5:900150983cd24fb0d6963f7d28e17f72"),))
    monkeypatch.setitem(SOURCES, "toy", Source("toy", (layout,)))
    write(tmp_path / "toy" / "file", b"abc")
    assert find(tmp_path, "toy").state == "verified"


def test_status_reads_all_of_a_cache_and_names_it_if_it_was_altered(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    datasets.mini_imagenet(tmp_path)
    assert find(tmp_path, "mini-imagenet").state == "present"
    path = cache_files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    entry = find(tmp_path, "mini-imagenet")
    assert entry.state == "damaged"
    assert entry.problems == (f"{path} was altered; delete it, and it is made again",)
    path.with_suffix(".json").unlink()
    assert "has no usable record" in find(tmp_path, "mini-imagenet").problems[0]


def test_status_names_listed_images_that_are_not_there(tmp_path):
    write_mini_imagenet_folder(tmp_path)
    (tmp_path / "mini-imagenet" / "images" / "n0000003000000002.jpg").unlink()
    assert "lacks 1 of the 50 listed images" in find(tmp_path, "mini-imagenet").problems[0]


def test_progress_is_shown_where_someone_is_looking(monkeypatch, capsys):
    assert list(iter_with_bar([1, 2], "counting", total=2)) == [1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(iter_with_bar([b"ab", b"c"], "counting", total=3, size=len)) == [b"ab", b"c"]
    assert "counting" in capsys.readouterr().err


# The real files


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=with_real(name)) for name in ("mnist", "cifar-10", "cifar-100")]
)
def test_the_real_files_are_the_publishers(name):
    assert find(REAL, name).state == "verified"


@with_real("mnist")
def test_real_mnist_has_its_known_counts_and_values():
    mnist = datasets.mnist(REAL)
    assert mnist.train.y.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.test.y.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert mnist.train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert mnist.train.x[0, 0, 5, 12:16].tolist() == [3, 18, 18, 18]


@with_real("cifar-10")
def test_real_cifar10_has_its_known_counts_and_values():
    cifar = datasets.cifar10(REAL)
    assert cifar.train.y.bincount().tolist() == [5000] * 10
    assert cifar.test.y.bincount().tolist() == [1000] * 10
    assert [cifar.classes[label] for label in cifar.train.y[:3]] == ["frog", "truck", "truck"]
    assert cifar.train.x[0, :, 0, 0].tolist() == [59, 62, 63]


@with_real("cifar-100")
def test_real_cifar100_has_its_known_counts_and_values():
    cifar = datasets.cifar100(REAL)
    assert cifar.train.y.bincount().tolist() == [500] * 100
    assert cifar.test.y.bincount().tolist() == [100] * 100
    assert cifar.classes[int(cifar.train.y[0])] == "cattle"
    assert cifar.train.x[0, :, 0, 0].tolist() == [255, 255, 255]
    fish = [cifar.classes[label] for label in cifar.superclasses["fish"]]
    assert fish == ["aquarium_fish", "flatfish", "ray", "shark", "trout"]
    assert {len(labels) for labels in cifar.superclasses.values()} == {5}


@with_real("mini-imagenet")
def test_real_mini_imagenet_has_a_hundred_classes_of_one_size():
    dataset = datasets.mini_imagenet(REAL)
    assert len(dataset.classes) == 100
    assert dataset.classes[0] == "n01532829"
    train, test = dataset.train.y.bincount(), dataset.test.y.bincount()
    assert len(set(train.tolist())) == len(set(test.tolist())) == 1
    assert int(train[0]) == 4 * int(test[0])


def test_the_toy_superclasses_are_not_consecutive():
    assert coarse_of(np.array([0, 1, 20])).tolist() == [0, 1, 0]
