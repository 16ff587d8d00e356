"""People's data: folders of images, arrays, tables and saved data sets, read as they are meant or refused by name."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from sklearn.datasets import load_diabetes

import zoolearn
from toys import TINY
from zoolearn.errors import DataError, MissingData
from zoolearn.nets.perceptrons import mlp_100
from zoolearn.zoo.inputs import Columns, iter_blocks, open_pair, open_source
from zoolearn.zoo.inputs.cells import labels_of
from zoolearn.zoo.inputs.folders import iter_images
from zoolearn.zoo.inputs.pictures import Undecodable, decode_picture, picture_size
from zoolearn.zoo.inputs.source import MOST_DECODERS, Pictures


def saved(image: Image.Image, path: Path, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def image_folder(folder: Path, side: int = 8, count: int = 5) -> Path:
    for name, shade in (("dark", 20), ("light", 220)):
        for number in range(count):
            saved(
                Image.new("RGB", (side + number, side), (shade, shade, shade + number)), folder / name / f"{number}.png"
            )
    return folder


def everything(source, shape):
    blocks = list(source.blocks(range(len(source)), shape))
    return np.concatenate([block.x for block in blocks]), [row for block in blocks for row in block.broken]


def test_a_class_is_one_however_a_system_writes_its_accents(tmp_path) -> None:
    for place, name in enumerate(("\u00c4pfel", "A\u0308pfel", "Birnen")):
        saved(Image.new("RGB", (8, 8), (place, 9, 9)), tmp_path / "fruit" / name / "1.png")
    assert (
        open_source(tmp_path / "fruit").labels.count("\u00c4pfel") == 2
        or len(list((tmp_path / "fruit").iterdir())) == 2
    )
    (tmp_path / "fruit.csv").write_text("a,label\n1,\u00c4pfel\n2,A\u0308pfel\n", encoding="utf-8")
    assert set(open_source(tmp_path / "fruit.csv").labels) == {"\u00c4pfel"}


def test_links_to_folders_are_told_where_there_is_nothing_else(tmp_path) -> None:
    image_folder(tmp_path / "images")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "dark").symlink_to(tmp_path / "images" / "dark")
    with pytest.raises(DataError, match="links has no subfolders but links, which are not followed; give a folder"):
        open_source(tmp_path / "links")


def test_an_image_is_cut_to_proportion_and_never_stretched(tmp_path) -> None:
    wide = Image.new("RGB", (30, 10), "red")
    wide.paste("blue", (10, 0, 20, 10))
    pixels = decode_picture(saved(wide, tmp_path / "wide.png"), (3, 10, 10))
    assert pixels.shape == (3, 10, 10)
    assert (pixels[2] == 255).all(), "the blue middle fills it"
    assert (pixels[0] == 0).all()


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("L", 100, (100, 100, 100)),
        ("1", 1, (255, 255, 255)),
        ("P", 0, (0, 0, 0)),
        ("LA", (10, 0), (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), (10, 20, 30)),
        ("RGBA", (10, 20, 30, 0), (255, 255, 255)),
        ("I;16", 0x64FF, (100, 100, 100)),
        ("CMYK", (0, 0, 0, 255), (0, 0, 0)),
    ],
)
def test_every_kind_of_pixel_becomes_eight_bits_of_colour_or_grey(tmp_path, mode, colour, expected) -> None:
    path = saved(Image.new(mode, (6, 6), colour), tmp_path / ("image.tif" if mode == "CMYK" else "image.png"))
    assert tuple(int(plane[3, 3]) for plane in decode_picture(path, (3, 4, 4))) == expected
    assert decode_picture(path, (1, 4, 4)).shape == (1, 4, 4)


def test_the_cameras_orientation_is_obeyed(tmp_path) -> None:
    image = Image.new("L", (20, 10), 0)
    image.paste(255, (0, 0, 10, 10))  # bright on the left
    marks = Image.Exif()
    marks[0x0112] = 6  # turn it clockwise to see it upright
    path = saved(image, tmp_path / "turned.png", exif=marks)
    size = picture_size(path)
    assert (size.width, size.height) == (10, 20)
    pixels = decode_picture(path, (1, 20, 10))
    assert pixels[0, :8].mean() > 250
    assert pixels[0, 12:].mean() < 5, "what was on the left is above"


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"%!PS-Adobe-3.0 EPSF-3.0"])
def test_what_is_no_image_is_told(tmp_path, content) -> None:
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(Undecodable):
        decode_picture(tmp_path / "bad.png", (3, 4, 4))


def test_a_photograph_is_decoded_at_a_fraction_of_its_size_and_looks_the_same(tmp_path, monkeypatch) -> None:
    slopes = np.add.outer(np.arange(480), np.arange(640)) // 5
    photo = Image.fromarray(np.stack([slopes, slopes // 2, 255 - slopes], -1).astype(np.uint8))
    path = saved(photo, tmp_path / "photo.jpg")
    turned, sizes = ImageOps.exif_transpose, []
    monkeypatch.setattr(
        ImageOps, "exif_transpose", lambda image, **how: sizes.append(image.size) or turned(image, **how)
    )
    found = decode_picture(path, (3, 32, 32))
    assert sizes == [(160, 120)], "the next smaller fraction, 80x60, has not twice the pixels that are wanted"
    with Image.open(path) as image:
        whole = np.asarray(ImageOps.fit(image, (32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    assert np.abs(found.astype(int) - whole).mean() < 1


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_no_second_copy_is_made_of_a_large_picture(mode, tmp_path, monkeypatch) -> None:
    path = saved(Image.new(mode, (40, 30), "grey"), tmp_path / "large.png")
    monkeypatch.setattr(Image.Image, "copy", lambda image: pytest.fail(f"{image.size} were copied"))
    assert decode_picture(path, (3 if mode == "RGB" else 1, 8, 8)).mean() == 128


def test_a_picture_that_a_camera_turned_is_turned_back(tmp_path) -> None:
    sky = Image.new("RGB", (8, 4), "white")
    sky.paste("black", (0, 0, 4, 4))
    orientation = Image.Exif()
    orientation[0x0112] = 6  # to be turned by a quarter, clockwise
    path = saved(sky, tmp_path / "turned.png", exif=orientation)
    assert decode_picture(path, (1, 8, 4))[0, [0, -1], 0].tolist() == [0, 255]


def test_the_next_block_of_pictures_is_decoded_meanwhile_and_no_further_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.zoo.inputs.source.PICTURES_AT_ONCE", 20)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    path, opened, both = saved(Image.new("RGB", (8, 8)), tmp_path / "one.png"), set(), Event()

    def open_row(row: int) -> Path:
        opened.add(row)
        if len(opened) == 40:
            both.set()
        assert len([thread for thread in enumerate_threads() if "Pool" in thread.name]) <= MOST_DECODERS
        return path

    blocks = Pictures("some", [f"{row}" for row in range(70)], None, open_row).blocks(range(70), (3, 8, 8))
    assert next(blocks).rows == [*range(20)]
    assert both.wait(timeout=60)
    assert opened == {*range(40)}
    assert [block.rows for block in blocks] == [[*range(20, 40)], [*range(40, 60)], [*range(60, 70)]]


def test_an_image_that_claims_to_be_enormous_is_not_decoded() -> None:
    header = b"P6\n200000 200000\n255\n"
    with pytest.raises(Undecodable, match="more than 80,000,000"):
        decode_picture(io.BytesIO(header), (3, 4, 4))


def test_an_icon_is_refused_since_it_is_decoded_before_its_size_is_known(monkeypatch) -> None:
    file = io.BytesIO()
    Image.new("RGB", (32, 32)).save(file, "ICO")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(Undecodable):
        picture_size(io.BytesIO(file.getvalue()))


def test_a_folder_gives_its_subfolders_as_classes(tmp_path) -> None:
    folder = image_folder(tmp_path / "data")
    (folder / "dark" / "deeper").mkdir()
    saved(Image.new("L", (9, 9)), folder / "dark" / "deeper" / "10.jpg")
    (folder / "dark" / ".hidden.png").touch()
    (folder / "dark" / "notes.txt").touch()
    (folder / "dark" / "loop").symlink_to(folder)
    source = open_source(folder)
    assert len(source) == 11
    assert set(source.labels) == {"dark", "light"}
    assert str(source.look()) == "colour images of about 10x8 pixels, uint8"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "has no subfolders"),
        (["train/a/1.png", "test/a/1.png"], r"learn from \S*train with --test \S*test$"),
        (["Train/a/1.png", "val/a/1.png"], r"learn from \S*Train with --test \S*val$"),
        (["train/a/1.png"], r"learn from \S*train$"),
        (["test/a/1.png"], r"learn from \S*test$"),
    ],
)
def test_a_folder_that_is_laid_out_otherwise_is_refused_with_a_way_out(tmp_path, made, message) -> None:
    for name in made:
        saved(Image.new("L", (4, 4)), tmp_path / name)
    with pytest.raises(DataError, match=message):
        open_source(tmp_path)


def test_broken_images_are_listed_and_refused_or_left_out(tmp_path) -> None:
    folder = image_folder(tmp_path / "data")
    (folder / "dark" / "bad.png").write_bytes(b"no")
    (folder / "light" / "cut.jpg").write_bytes(
        saved(Image.effect_noise((64, 64), 50), tmp_path / "x.jpg").read_bytes()[:300]
    )
    zoo = zoolearn.new(tmp_path / "zoo", backbone=mlp_100, recipe=TINY)
    with pytest.raises(
        DataError, match=r"(?s)2 of 12 rows cannot be read.*--skip-broken.*dark/bad\.png.*light/cut\.jpg"
    ):
        zoo.learn_from("shades", folder)
    assert not zoo.tasks
    zoo.learn_from("shades", folder, skip_broken=True)
    entry = zoo.tasks["shades"]
    assert entry.rows_kept + entry.rows_held_out == 10
    assert zoo.settings.shape == (3, 32, 32)
    task = zoo.task("shades")
    for side in (task.train, task.test):
        bright = side.x.float().mean(dim=(1, 2, 3)) > 128
        assert torch.equal(bright, side.y == task.classes.index("light")), "those after a broken one keep their labels"


def test_a_holdout_takes_a_share_of_every_class_and_no_row_twice(tmp_path) -> None:
    x = np.arange(60, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32)
    np.savez(tmp_path / "rows.npz", x=x, y=np.repeat([7, 9, 11], 20))
    zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
    zoo.learn_from("rows", tmp_path / "rows.npz", holdout=0.25)
    task = zoo.task("rows")
    assert task.classes == ("7", "9", "11")
    assert task.test.y.bincount().tolist() == [5, 5, 5]
    assert sorted([*task.train.x[:, 0].tolist(), *task.test.x[:, 0].tolist()]) == list(range(60))
    with pytest.raises(DataError, match="holdout is 1"):
        zoo.learn_from("again", tmp_path / "rows.npz", holdout=1)


def test_test_data_with_a_class_that_was_never_trained_on_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "train.npz", x=np.zeros((4, 2)), y=["cat", "dog"] * 2)
    np.savez(tmp_path / "test.npz", x=np.zeros((2, 2)), y=["cat", "cow"])
    zoo = zoolearn.new(tmp_path / "zoo", epochs=1)
    with pytest.raises(DataError, match=r"unknown class 'cow'"):
        zoo.learn_from("pets", tmp_path / "train.npz", test=tmp_path / "test.npz")


def test_arrays_of_images_are_brought_to_the_zoos_size(tmp_path) -> None:
    x = np.zeros((6, 20, 30, 3), np.uint8)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.array([0, 1] * 3))
    source = open_source(tmp_path / "x.npy")
    assert source.labels == ["0", "1"] * 3
    assert everything(source, (1, 8, 8))[0].shape == (6, 1, 8, 8)
    assert open_source(tmp_path).labels == source.labels, "a folder with x.npy and y.npy is a pair too"
    (tmp_path / "y.npy").unlink()
    with pytest.raises(DataError, match=r"labels of .*x\.npy are not at .*y\.npy; .* \(--labels\)"):
        open_source(tmp_path)
    with pytest.raises(DataError, match="holds images, but the zoo takes features"):
        everything(source, (5,))


def test_every_value_of_an_array_keeps_its_place_however_it_was_saved(tmp_path) -> None:
    rows, pictures = np.arange(6.0).reshape(2, 3), np.arange(180, dtype=np.uint8).reshape(2, 6, 5, 3)
    np.savez(tmp_path / "rows.npz", x=np.asfortranarray(rows), y=[0, 1])
    np.savez(tmp_path / "pictures.npz", x=pictures, y=[0, 1])
    assert everything(open_source(tmp_path / "rows.npz"), (3,))[0].tolist() == rows.tolist()
    x, _ = everything(open_source(tmp_path / "pictures.npz"), (3, 6, 5))
    assert x.tolist() == [[picture[..., channel].tolist() for channel in range(3)] for picture in pictures]


def test_labels_of_an_archive_are_places_in_its_list_of_classes(tmp_path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.zeros((3, 2)), y=[1, 0, 2], classes=["night", "day", "dusk"])
    source = open_source(tmp_path / "rows.npz")
    assert (source.labels, source.classes) == (["day", "night", "dusk"], ("night", "day", "dusk"))


def test_columns_are_found_by_their_names_in_whatever_order_they_come(tmp_path) -> None:
    (tmp_path / "asked.csv").write_text("z,note,x\n2,fine,1\n4,fine,3\n")
    ((_, block),) = iter_blocks([tmp_path / "asked.csv"], (2,), Columns(wanted=("x", "z")))
    assert block.x.tolist() == [[1, 2], [3, 4]]


def test_arrays_with_as_many_channels_as_no_image_has_are_refused(tmp_path) -> None:
    for shape in ((2, 2, 8, 8), (2, 8, 8, 2), (2, 5, 6, 7)):
        np.savez(tmp_path / "x.npz", x=np.zeros(shape, np.uint8), y=[0, 1])
        with pytest.raises(DataError, match="channels"):
            open_source(tmp_path / "x.npz")


def test_rows_that_are_not_finite_are_broken_rows(tmp_path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.array([[1.0, 2], [np.nan, 1], [3, 4e300]]), y=[0, 1, 0])
    x, broken = everything(open_source(tmp_path / "rows.npz"), (2,))
    assert x.tolist() == [[1, 2]]
    assert [row.name.rpartition("[")[2] for row in broken] == ["1]", "2]"]


def test_nothing_is_unpickled(tmp_path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{}, []], object), y=[0, 1])
    np.save(tmp_path / "x.npy", np.array([{}], object))
    for name in ("objects.npz", "x.npy"):
        with pytest.raises(DataError, match=r"pickle|objects"):
            open_source(tmp_path / name, labelled=False)


def test_archives_made_to_burst_are_measured_first(tmp_path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 29, 1)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for _ in range(300):
                file.write(bytes(1 << 20))
        archive.writestr("y.npy", b"")
    with pytest.raises(DataError, match="as no real data does"):
        open_source(tmp_path / "bomb.npz")
    with zipfile.ZipFile(tmp_path / "liar.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"12")
    with pytest.raises(DataError, match="claims"):
        open_source(tmp_path / "liar.npz")
    (tmp_path / "x.npy").write_bytes(header.getvalue())
    with pytest.raises(DataError, match="not a whole"):
        open_source(tmp_path / "x.npy")


def test_a_table_of_paths_gives_images_and_a_table_of_numbers_features(tmp_path) -> None:
    image_folder(tmp_path / "images")
    (tmp_path / "list.csv").write_text("path,label\nimages/dark/0.png,night\nimages/light/0.png,day\n")
    source = open_source(tmp_path / "list.csv")
    assert source.labels == ["night", "day"]
    assert everything(source, (3, 8, 8))[0].mean(axis=(1, 2, 3)).round().tolist() == [20, 220]
    (tmp_path / "rows.csv").write_text("\ufeffage;height;class\n1;2,5;a\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"--ignore 'height':\n.*numbers with a decimal comma in 1 of 1 rows, as '2,5' in row 2"
    ):
        open_source(tmp_path / "rows.csv")
    ignoring = open_source(tmp_path / "rows.csv", Columns(ignore=("height",)))
    assert (ignoring.x.tolist(), ignoring.labels) == ([[1.0]], ["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "table.csv is empty; a table begins with the names of its columns"),
        ("\na,label\n1,x\n", "table.csv has an empty first line"),
        ("a", "first line must name"),
        ("a,b\n", "no rows"),
        ("a,label\n1\n", "line 2: 1 values for 2 columns"),
        ("a,b\n1,2\n", "--label"),
        ("a,label\n1,\n", "column 'label': 1 row has no label"),
        ("a,a\n1,2\n", "each once"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_its_line(tmp_path, text, message) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        open_source(tmp_path / "table.csv")


def test_a_table_of_a_spreadsheet_is_read_in_utf_16_and_one_in_another_encoding_is_refused_in_plain_words(
    tmp_path,
) -> None:
    table = "größe\tlabel\n1\tblüte\n2\tblatt\n"
    (tmp_path / "table.csv").write_text(table, encoding="utf-16")
    source = open_source(tmp_path / "table.csv")
    assert (source.x.tolist(), source.labels, source.columns) == ([[1.0], [2.0]], ["blüte", "blatt"], ("größe",))
    (tmp_path / "table.csv").write_text(table, encoding="latin-1")
    with pytest.raises(DataError, match=r"table.csv is no text in UTF-8 from byte 2 on; save it as CSV in UTF-8$"):
        open_source(tmp_path / "table.csv")


def test_a_feature_that_is_named_like_a_label_is_asked_with(tmp_path) -> None:
    (tmp_path / "bare.csv").write_text("y,z\n1,2\n3,4\n")
    (tmp_path / "labelled.csv").write_text("x,label,z\n1,cat,2\n3,dog,4\n")
    for name in ("bare.csv", "labelled.csv"):
        ((_, block),) = iter_blocks([tmp_path / name], (2,))
        assert block.x.tolist() == [[1, 2], [3, 4]]
    (tmp_path / "both.csv").write_text("y,kind,z\n1,cat,2\n3,dog,4\n")
    ((_, block),) = iter_blocks([tmp_path / "both.csv"], (2,), Columns("kind"))
    assert block.x.tolist() == [[1, 2], [3, 4]]


def test_a_feature_of_a_saved_data_set_that_is_named_like_a_label_is_asked_with(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": [[1.0, 2.0], [3.0, 4.0]], "y": [5, 6]})
    data.save_to_disk(str(tmp_path / "saved"))
    for width, expected in ((2, [[1, 2], [3, 4]]), (3, [[1, 2, 5], [3, 4, 6]])):
        ((_, block),) = iter_blocks([tmp_path / "saved"], (width,))
        assert block.x.tolist() == expected


def test_a_parquet_table_reads_like_its_csv(tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"age": [1, 2], "height": [0.5, 1.5], "label": ["a", "b"]})
    parquet.write_table(table, tmp_path / "rows.parquet")
    source = open_source(tmp_path / "rows.parquet")
    assert (source.x.tolist(), source.labels) == ([[1.0, 0.5], [2.0, 1.5]], ["a", "b"])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="not a whole Parquet file"):
        open_source(tmp_path / "bad.parquet")


def test_a_saved_data_set_of_images_gives_its_splits_and_class_names(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"picture": datasets.Image(), "label": datasets.ClassLabel(names=["night", "day"])})
    rows = {"picture": [Image.new("L", (6, 6), shade) for shade in (0, 255)], "label": [0, 1]}
    part = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(str(tmp_path / "saved"))
    train, test = open_pair(tmp_path / "saved", None)
    assert train.classes == ("night", "day")
    assert test.labels == ["night", "day"]
    assert everything(train, (1, 4, 4))[0].mean(axis=(1, 2, 3)).tolist() == [0, 255]
    datasets.Dataset.from_dict({"a": [1.0, 2.0], "target": [3, 4]}).save_to_disk(str(tmp_path / "numbers"))
    numbers, none = open_pair(tmp_path / "numbers", None)
    assert (numbers.x.tolist(), numbers.labels, none) == ([[1.0], [2.0]], ["3", "4"], None)


def test_a_folder_is_streamed_in_blocks_of_bounded_size(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.zoo.inputs.find.PICTURES_AT_ONCE", 4)
    folder = image_folder(tmp_path / "data")
    lone = saved(Image.new("L", (5, 5)), tmp_path / "lone.png")
    np.save(tmp_path / "many.npy", np.zeros((3, 8, 8), np.uint8))
    blocks = list(iter_blocks([lone, folder, tmp_path / "many.npy"], (3, 8, 8)))
    assert [len(names) for names, _ in blocks] == [1, 4, 4, 2, 3]
    assert blocks[0][0] == [str(lone)]
    assert blocks[-1][0][-1].endswith("many.npy[2]")
    with pytest.raises(DataError, match="holds no image"):
        list(iter_blocks([(tmp_path / "empty").mkdir() or tmp_path / "empty"], (3, 8, 8)))


def test_what_is_not_taken_from_a_folder_is_named_with_the_reason(tmp_path) -> None:
    folder = image_folder(tmp_path / "data")
    first = sorted(entry for entry in folder.iterdir())[0]
    (first / "notes.txt").write_text("to do")
    saved(Image.new("L", (5, 5)), folder / "stray.png")
    (folder / "elsewhere").symlink_to(tmp_path)
    for litter in (".DS_Store", "Thumbs.db", "__MACOSX"):
        (folder / litter).mkdir()
    source = open_source(folder)
    assert source.labels == [Path(source.name(row)).parent.name for row in range(10)]
    left = {Path(thing.name).name: thing.reason for thing in source.left_out}
    assert left == {
        "notes.txt": "no picture that can be read",
        "stray.png": "a picture in no subfolder, so of no class",
        "elsewhere": "a link to a folder, which is not followed",
    }


def test_pictures_are_known_by_their_content_where_the_name_does_not_tell(tmp_path) -> None:
    folder = image_folder(tmp_path / "data")
    first = sorted(entry for entry in folder.iterdir())[0]
    for name, form in (("bare", "JPEG"), ("photo.dat", "PNG"), ("photo.tga", "TGA"), ("photo.avif", "AVIF")):
        Image.new("RGB", (8, 8), "red").save(first / name, form)
    data = open_source(folder)
    assert (len(data), data.left_out) == (14, ())
    assert not [row for _, block in iter_blocks([folder], (3, 8, 8)) for row in block.broken]
    assert [names for names, _ in iter_blocks([first / "bare"], (3, 8, 8))] == [[str(first / "bare")]]


def test_heic_is_read_with_the_extra_and_without_it_the_extra_is_named(tmp_path, monkeypatch) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(Image.new("RGB", (16, 16), "white")).save(tmp_path / "photo.heic")
    assert decode_picture(tmp_path / "photo.heic", (1, 8, 8)).min() > 250
    monkeypatch.setattr("zoolearn.zoo.inputs.pictures._formats", lambda suffix="": ("PNG",))
    with pytest.raises(Undecodable, match=r"takes pillow-heif; install it with: pip install 'zoolearn\[heic\]'"):
        decode_picture(tmp_path / "photo.heic", (1, 8, 8))


def test_a_split_of_a_saved_data_set_that_is_not_used_is_told(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    part = datasets.Dataset.from_dict({"a": [1.0, 2.0], "target": [3, 4]})
    datasets.DatasetDict({"train": part, "validation": part, "test": part}).save_to_disk(str(tmp_path / "saved"))
    train, _ = open_pair(tmp_path / "saved", None)
    assert [(Path(thing.name).name, thing.reason) for thing in train.left_out] == [
        ("saved[validation]", "a split of 2 rows, neither trained on nor held out")
    ]


def table(tmp_path, header: str, row, rows: int = 60) -> Path:
    """A text table with a line for each number."""
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *(row(number) for number in range(rows))]))
    return path


def test_columns_of_words_and_dates_are_told_together_by_what_they_hold(tmp_path) -> None:
    path = table(
        tmp_path,
        "a,colour,when,size,label",
        lambda n: f"{n},{'red' if n % 2 else 'blue'},2024-01-0{1 + n % 9},{'big' if n == 5 else n},{n % 2}",
    )
    with pytest.raises(DataError) as told:
        open_source(path)
    assert str(told.value).removeprefix(str(path)).splitlines() == [
        ": 3 columns hold more than numbers; make numbers of them, or leave them out with --ignore 'colour' 'when' 'size':",
        "  column 'colour': categories, 2 different (blue, red), as 'blue' in row 2",
        "  column 'when': dates, as '2024-01-01' in row 2",
        "  column 'size': 1 of 60 cells are no numbers, as 'big' in row 7",
    ]


def test_however_many_columns_are_wrong_ten_lines_tell_of_them(tmp_path) -> None:
    names = ",".join(f"c{place}" for place in range(30))
    with pytest.raises(DataError, match="and 21 more") as told:
        open_source(table(tmp_path, f"{names},label", lambda n: ",".join(["x"] * 30) + f",{n % 2}"))
    assert len(str(told.value).splitlines()) == 11


def test_missing_cells_are_told_by_column_and_count(tmp_path) -> None:
    path = table(tmp_path, "a,b,label", lambda n: f"{n},{'' if n % 3 == 0 else n},{n % 2}")
    zoo = zoolearn.new(tmp_path / "zoo", recipe=TINY)
    with pytest.raises(
        DataError,
        match=r"20 of 60 rows cannot be read.*\n  column 'b': 20 of 60 missing.*\(rows 2, 5, 8, 11, 14, \.\.\.\)$",
    ):
        zoo.learn_from("task", path)


def test_a_quantity_is_known_for_no_class(tmp_path) -> None:
    path = table(tmp_path, "a,price", lambda n: f"{n},{n * 1.25}")
    with pytest.raises(
        DataError, match=r"column 'price' holds 60 different numbers in 60 rows, from 0 to 73.75: a quantity"
    ):
        open_source(path, Columns("price"))
    with pytest.raises(DataError, match="214 different numbers in 442 rows, from 25 to 346: a quantity"):
        labels_of("diabetes", "target", load_diabetes().target, range(442))
    counted = table(tmp_path, "a,price", lambda n: f"{n},{n % 30}")
    assert len(set(open_source(counted, Columns("price")).labels)) == 30, "whole numbers that come again may be classes"


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_a_column_without_a_name_that_counts_the_rows_is_no_feature(tmp_path, name) -> None:
    data = open_source(table(tmp_path, f"{name},a,label", lambda n: f"{n},{n / 3},{n % 2}"))
    assert data.columns == ("a",)
    assert [thing.reason for thing in data.left_out] == ["it counts the rows, so it is no feature"]


def test_links_to_folders_are_not_followed(tmp_path) -> None:
    folder = image_folder(tmp_path / "data")
    (folder / "loop").symlink_to(folder)
    assert len(list(iter_images(folder))) == 10


def test_what_is_not_there_or_not_known_is_told(tmp_path) -> None:
    with pytest.raises(MissingData, match="does not exist; give a folder"):
        open_source(tmp_path / "nothing")
    (tmp_path / "song.mp3").touch()
    with pytest.raises(DataError, match="of no kind that is known"):
        open_source(tmp_path / "song.mp3")


def test_a_value_that_is_missing_breaks_its_row_and_not_the_table(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("age,height,class\n1,,a\n2,3,b\nNA,1,a\n\n4,5,b\n")
    source = open_source(tmp_path / "rows.csv")
    x, broken = everything(source, (2,))
    assert x.tolist() == [[2, 3], [4, 5]]
    assert [row for block in source.blocks(range(4), (2,)) for row in block.rows] == [1, 3], "each with its own label"
    assert [row.name.rpartition(", ")[2] for row in broken] == ["row 2", "row 4"]
    assert [row.reason for row in broken] == [
        "column 'height' is missing or not finite",
        "column 'age' is missing or not finite",
    ]


def test_a_line_is_counted_as_an_editor_counts_it(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text('age,class\n\n1,"two\nlines"\n\n3\n')
    with pytest.raises(DataError, match="line 6: 1 values for 2 columns"):
        open_source(tmp_path / "rows.csv")


@pytest.mark.parametrize("line", ["1,words,{}", "1,{},words"], ids=["label", "note"])
def test_a_long_cell_takes_no_more_memory_than_its_file(tmp_path, line) -> None:
    long = "x" * 10_000
    (tmp_path / "t.csv").write_text("\n".join(["a,note,label", *["1,words,words"] * 999, line.format(long)]))
    tracemalloc.start()
    try:
        source = open_source(tmp_path / "t.csv", Columns(ignore=("note",)))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # with as much room in every cell: 40 MB
    finally:
        tracemalloc.stop()
    assert source.labels == ["words"] * 999 + [long if line.endswith("{}") else "words"]
    assert source.columns == ("a",)


def test_a_zoo_of_images_says_that_a_table_of_numbers_is_none(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("kind,height\nk0,2\n")
    with pytest.raises(DataError, match=r"rows.csv has no column of paths of images.*the zoo takes images"):
        list(iter_blocks([tmp_path / "rows.csv"], (3, 8, 8)))
