"""An extractor is one ONNX file or a function: wrong and hostile ones are refused, and stored features are what is promised."""

import subprocess

import numpy as np
import pytest

from zoolearn.errors import DataError, MissingData, StoreError
from zoolearn.features import Extractor, embed_inputs, trial
from zoolearn.features.extractor import NEAR
from zoolearn.features.probe import probe_picture, trial_pictures
from zoolearn.features.trial import check_by_trial

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import extractors
from extractors import FEATURES, SIZE, WRONG, toy_file

PICTURES = trial_pictures(SIZE)


@pytest.fixture(scope="module")
def recorded():
    """The record of the toy file, without the process that would try it."""
    extractor = Extractor("toy.onnx", "", SIZE, FEATURES, extractors_session(toy_file()), at_once=1)
    return {**extractor.record(), "sha256": sha256(toy_file())}


def extractors_session(content):
    from zoolearn.features.session import open_session

    return open_session(content)


def sha256(content):
    from hashlib import sha256 as digest

    return digest(content).hexdigest()


@pytest.fixture(scope="module")
def toy(recorded):
    return Extractor.of_bytes(toy_file(), record=recorded)


@pytest.fixture
def no_process(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a process was started for a file that its bytes condemn")

    monkeypatch.setattr(subprocess, "run", refuse)


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_no_plain_net_of_pictures_is_refused_by_its_bytes(
    name, no_process, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a path in a file would lead
    make, word = WRONG[name]
    with pytest.raises(DataError, match=word):
        Extractor.of_bytes(make().SerializeToString())


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a torch file", toy_file()[:100]])
def test_bytes_that_are_no_onnx_file_are_refused(content, no_process) -> None:
    with pytest.raises(DataError, match="ONNX"):
        Extractor.of_bytes(content)


def test_a_file_beyond_the_limit_of_bytes_is_refused(no_process, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.features.graph.MOST_BYTES", 100)
    with pytest.raises(DataError, match="more than 100 bytes"):
        Extractor.of_bytes(toy_file())


def test_a_path_that_cannot_be_read_is_told(tmp_path) -> None:
    with pytest.raises(DataError, match=r"absent\.onnx cannot be read"):
        Extractor.of_file(tmp_path / "absent.onnx")


def test_a_missing_library_is_one_error_with_the_way_to_install_it(monkeypatch, recorded) -> None:
    for library in ("onnx", "onnxruntime"):
        monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(MissingData, match=r"onnx; install it with: pip install 'zoolearn\[features\]'"):
        Extractor.of_bytes(toy_file())
    with pytest.raises(MissingData, match="need onnxruntime"):
        Extractor.of_bytes(toy_file(), record=recorded)


@pytest.mark.slow
def test_a_plain_net_passes_its_trial_and_says_what_it_takes(tmp_path) -> None:
    (tmp_path / "toy.onnx").write_bytes(toy_file())
    extractor = Extractor.of_file(tmp_path / "toy.onnx")
    assert (extractor.name, extractor.size, extractor.num_features) == ("toy.onnx", SIZE, FEATURES)
    assert extractor.sha256 == sha256(toy_file())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "word"),
    [
        (extractors.not_finite, "not finite"),
        (extractors.mixing_the_batch, "alone"),
        (lambda: extractors.large(1 << 31), "GB of memory"),
    ],
)
def test_a_net_that_misbehaves_is_refused_by_its_trial(make, word) -> None:
    with pytest.raises(DataError, match=word):
        Extractor.of_bytes(make().SerializeToString())


@pytest.mark.slow
def test_a_net_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(DataError, match="1 s of a core"):
        check_by_trial(extractors.slow(2000).SerializeToString(), SIZE, FEATURES, seconds=1)


def test_a_trial_notices_nets_that_are_no_functions_of_a_picture() -> None:
    rng = np.random.default_rng(0)
    flat = lambda x: x.reshape(len(x), -1)[:, 5:9].astype(np.float32)  # noqa: E731
    for run, word in [
        (lambda x: flat(x) + rng.normal(size=(len(x), 4)).astype(np.float32), "again"),
        (lambda x: flat(x) - flat(x).mean(0), "alone"),
        (lambda x: flat(x) / flat(x)[:, :1] * 0, "finite"),
        (lambda x: flat(x)[:, :3], "declares"),
        (lambda x: np.ones((len(x), 4), np.float32), "same features"),
        (flat, ""),
    ]:
        with np.errstate(all="ignore"):
            found = trial.what_is_wrong(run, SIZE, 4)
        assert word in found
        assert bool(word) == bool(found)


def test_stored_features_are_both_views_at_length_one_in_steps_of_16_bits(toy) -> None:
    both = toy.extract(PICTURES).astype(np.float64) + toy.extract(PICTURES[..., ::-1])
    shown = both.any(axis=1)
    unit = both[shown] / np.linalg.norm(both[shown], axis=1, keepdims=True)
    rows = embed_inputs(toy, PICTURES[shown])
    assert rows.dtype == np.int16
    assert np.abs(rows / 2**15 - unit).max() <= 2**-16
    np.testing.assert_array_equal(embed_inputs(toy, PICTURES[shown][..., ::-1]), rows)


def test_a_feature_of_exactly_one_is_stored_as_the_largest_number() -> None:
    def first(texts):
        return [[1.0, 0.0] for _ in texts]

    assert embed_inputs(Extractor.of_function(first), ["any"]).tolist() == [[32767, 0]]


def test_the_bits_of_a_picture_do_not_depend_on_its_neighbours(toy) -> None:
    alone = np.concatenate([toy.extract(picture[None]) for picture in PICTURES])
    np.testing.assert_array_equal(toy.extract(PICTURES), alone)
    assert toy.extract(PICTURES[:0]).shape == (0, FEATURES)


def test_pictures_without_features_are_refused() -> None:
    def brightness(pictures):
        return pictures.reshape(len(pictures), -1)[:, ::8]

    extractor = Extractor.of_function(brightness, size=SIZE)
    with pytest.raises(DataError, match="input 1 has no features"):
        embed_inputs(extractor, PICTURES[[0, 2]])  # the second is black


def test_inputs_of_the_wrong_kind_are_refused(toy) -> None:
    for inputs in (PICTURES.astype(np.float32), PICTURES[:, :, 1:], PICTURES[0], ["a text"]):
        with pytest.raises(DataError, match=r"takes pictures in uint8 \(count, 3, 8, 8\), not"):
            toy.extract(inputs)
    texts = Extractor.of_function(lambda texts: [[len(text)] for text in texts], name="length")
    for inputs in ("one text", [1, 2]):
        with pytest.raises(DataError, match="takes texts"):
            texts.extract(inputs)


def test_a_function_must_give_one_finite_vector_for_each_input() -> None:
    for function, word in [
        (lambda texts: [1.0 for _ in texts], "one vector for each"),
        (lambda texts: [["a"] for _ in texts], "no array of numbers"),
        (lambda texts: [[1.0]] * 2, "one vector for each"),
    ]:
        with pytest.raises(DataError, match=word):
            Extractor.of_function(function)
    growing = Extractor.of_function(lambda texts: [[float("nan") if text == "bad" else 1.0] for text in texts])
    with pytest.raises(DataError, match="not finite"):
        growing.extract(["good", "bad"])


def test_an_opening_compares_the_checksum_and_the_features_of_the_probe(recorded) -> None:
    with pytest.raises(StoreError, match="checksum differs"):
        Extractor.of_bytes(toy_file(seed=1), record=recorded)
    near = {**recorded, "probe": [value + NEAR for value in recorded["probe"]]}
    Extractor.of_bytes(toy_file(), record=near)
    far = {**recorded, "probe": [value + NEAR + 1 for value in recorded["probe"]]}
    with pytest.raises(StoreError, match="gives other features than when it was recorded"):
        Extractor.of_bytes(toy_file(), record=far)


def test_a_function_is_known_by_its_name_and_by_what_it_makes_of_the_probe() -> None:
    def lengths(texts):
        return [[len(text), 1.0] for text in texts]

    record = Extractor.of_function(lengths).record()
    assert Extractor.of_function(lengths, record=record).sha256 == record["sha256"]
    with pytest.raises(StoreError, match="gives other features"):
        Extractor.of_function(lambda texts: [[1.0, 1.0] for _ in texts], name="lengths", record=record)
    with pytest.raises(StoreError, match="'lengths' was recorded"):
        Extractor.of_function(lengths, name="other", record=record)


def test_the_probe_is_unlike_its_mirror_image_at_any_size() -> None:
    for size in (8, 96, 128, 224):
        probe = probe_picture(size)
        assert probe.shape == (1, 3, size, size)
        assert (probe != probe[..., ::-1]).mean() > 0.8
