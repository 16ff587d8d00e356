"""Runs on pre-trained features: every method can, pictures pass through the net once, and reports keep them apart."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import toys
from extractors import toy_file
from zoolearn.cli import form
from zoolearn.data.benchmarks import benchmark, reload_benchmark
from zoolearn.data.task import Examples
from zoolearn.errors import DataError, SettingsError
from zoolearn.features import Extractor, embed_inputs
from zoolearn.features import benchmarks as on
from zoolearn.features.cache import FeatureCache
from zoolearn.features.resize import resize
from zoolearn.lab.report import report
from zoolearn.methods.learner import Episode
from zoolearn.methods.registry import METHODS
from zoolearn.nets.perceptrons import identity
from zoolearn.runs.results import Results
from zoolearn.runs.run import run
from zoolearn.runs.spec import RunSpec
from zoolearn.training.recipe import Recipe

SIZE = 12


def bright(pictures):
    """The mean of each row and column of a picture."""
    return np.concatenate([pictures.mean((1, 2)), pictures.mean((1, 3))], axis=1) + 1


@pytest.fixture
def counted():
    """An extractor that counts the pictures that pass through it."""

    def passing(pictures):
        passing.count += len(pictures)
        return bright(pictures)

    passing.count = 0
    return passing, Extractor.of_function(passing, size=SIZE)


def pixels(count, seed=0, shape=(3, 8, 8)):
    drawn = np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)
    return torch.from_numpy(drawn)


def test_no_picture_passes_twice_and_what_is_kept_is_what_is_computed(counted, tmp_path) -> None:
    function, extractor = counted
    x = pixels(5)
    wanted = embed_inputs(extractor, resize(x.numpy(), SIZE))
    function.count = 0
    np.testing.assert_array_equal(FeatureCache(extractor, tmp_path).rows(x[:3]), wanted[:3])
    assert function.count == 3 * 2, "both views"
    np.testing.assert_array_equal(FeatureCache(extractor, tmp_path).rows(x.flip(0)), wanted[::-1])
    assert function.count == 5 * 2
    assert FeatureCache(extractor, tmp_path / "other").known == {}


def test_rows_are_kept_while_they_are_computed(counted, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zoolearn.features.cache.ROWS", 2)
    _, extractor = counted
    calls = iter(range(100))

    def stopping(self, inputs):
        if next(calls) >= 6:
            raise KeyboardInterrupt
        return bright(inputs)

    monkeypatch.setattr(Extractor, "extract", stopping)
    with pytest.raises(KeyboardInterrupt):
        FeatureCache(extractor, tmp_path).rows(pixels(5))
    assert len(FeatureCache(extractor, tmp_path).known) == 2


def test_a_damaged_file_of_features_is_computed_again(counted, tmp_path) -> None:
    function, extractor = counted
    wanted = FeatureCache(extractor, tmp_path).rows(pixels(3))
    (file,) = tmp_path.rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    function.count = 0
    np.testing.assert_array_equal(FeatureCache(extractor, tmp_path).rows(pixels(3)), wanted)
    assert function.count == 6


def test_another_extractor_or_version_of_its_library_shares_no_rows(counted, tmp_path, monkeypatch) -> None:
    _, extractor = counted
    FeatureCache(extractor, tmp_path).rows(pixels(3))
    assert len(FeatureCache(extractor, tmp_path).known) == 3
    assert not FeatureCache(replace(extractor, sha256="0" * 64), tmp_path).known
    monkeypatch.setattr("zoolearn.features.extractor._versions", lambda: {"onnxruntime": "99"})
    assert not FeatureCache(extractor, tmp_path).known


def test_features_of_a_task_have_mean_square_one_and_the_labels_of_its_pictures(counted, tmp_path) -> None:
    _, extractor = counted
    examples = Examples(pixels(4), torch.tensor([0, 1, 1, 0]))
    made = FeatureCache(extractor, tmp_path).examples(examples)
    assert made.x.shape == (4, 2 * SIZE)
    torch.testing.assert_close(made.x.square().mean(1), torch.ones(4), rtol=1e-3, atol=0)
    assert torch.equal(made.y, examples.y)
    vectors = Examples(torch.rand(4, 3), torch.tensor([0, 1, 1, 0]))
    with pytest.raises(DataError, match="no pictures in uint8"):
        FeatureCache(extractor, tmp_path).examples(vectors)
    with pytest.raises(DataError, match="takes texts"):
        FeatureCache(Extractor.of_function(lambda texts: [[1.0] for _ in texts]), tmp_path)


def test_no_pictures_have_no_features(counted, tmp_path) -> None:
    _, extractor = counted
    cache = FeatureCache(extractor, tmp_path)
    nothing = Examples(pixels(0), torch.empty(0, dtype=torch.int64))
    for steps, dtype in ((True, torch.int16), (False, torch.float32)):
        made = cache.examples(nothing, steps=steps)
        assert made.x.shape == (0, 2 * SIZE)
        assert made.x.dtype == dtype


def test_a_run_of_heads_from_statistics_learns_the_rows_that_a_zoo_on_features_keeps(tmp_path) -> None:
    path = tmp_path / "toy.onnx"
    path.write_bytes(toy_file(size=SIZE, features=30))
    extractor = on.open_extractor_file(path)
    options = {"samples_per_class": 12, "first_tasks": 2, on.FEATURES: on.extractor_id(extractor)}
    spec = RunSpec("model-zoo", "split-digits", {"grow": "statistics", "tasks_per_episode": 1}, options, extractor=path)
    tasks, plain = spec.tasks(tmp_path), benchmark("split-digits", samples_per_class=12, first_tasks=2)
    for made, task in zip(tasks, plain, strict=True):
        wanted = embed_inputs(extractor, resize(task.train.x.numpy(), SIZE))
        np.testing.assert_array_equal(made.train.x.numpy(), wanted)
    results = run(spec.learner(), tasks)
    assert results.untold.inferred is not None
    told = results.summary()["average_accuracy"]
    assert np.mean([*results.untold.inferred.values()]) > 0.8 * told, "one head tells tasks apart"


def test_resizing_cuts_the_centred_square_and_gives_grey_pictures_three_channels() -> None:
    wide = np.zeros((1, 1, 8, 24), np.uint8)
    wide[..., 8:16] = 200
    assert (resize(wide, 8) == 200).all()
    assert resize(wide, 16).shape == (1, 3, 16, 16)
    with pytest.raises(DataError, match="1 or 3"):
        resize(np.zeros((1, 4, 8, 8), np.uint8), 8)


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    extractor = Extractor.of_function(bright, size=SIZE)
    return on.extract_benchmark(
        benchmark("split-digits", samples_per_class=8, first_tasks=2), extractor, tmp_path_factory.mktemp("data")
    )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_from_features(name, stream) -> None:
    results = run(toys.learner_of(METHODS[name], Recipe(epochs=1)), stream)
    assert results.finished
    assert results.settings["benchmark"]["features"] == stream.options["features"]


@pytest.mark.parametrize("names", [["isolated"], ["isolated", "hat"]])
def test_nets_on_features_are_mlps_unless_another_is_named(names, monkeypatch) -> None:
    monkeypatch.setattr(form, "open_extractor_file", lambda _: Extractor.of_function(bright, size=SIZE))
    for flags, backbone in (([], "mlp"), (["--backbone", "mlp-100"], "mlp-100")):
        filled = form.read_form(names, ["split-digits", "--features", "any.onnx", *flags], "zoo run", form.RunOptions)
        for name in names:
            (spec,) = form.make_specs(name, filled).values()
            assert spec.record()["backbone"] == backbone


@pytest.mark.parametrize("name", ["ewc", "si", "ogd", "tag", "hat", "frcl"])
def test_methods_that_work_on_shared_weights_say_so_where_there_are_none(name, stream) -> None:
    with pytest.raises(SettingsError, match=r"'identity'.*mlp"):
        run(METHODS[name](backbone=identity, recipe=Recipe(epochs=1)), stream)


@pytest.mark.slow
def test_a_run_on_features_is_known_by_its_extractor(tmp_path) -> None:
    file = tmp_path / "toy.onnx"
    file.write_bytes(toy_file(size=SIZE))
    options = {"first_tasks": 2, "samples_per_class": 5, "features": on.extractor_id(Extractor.of_file(file))}
    spec = RunSpec("isolated", "split-digits", {"backbone": "identity"}, options, extractor=file)
    tasks = spec.tasks(tmp_path)
    assert tasks[0].shape == (6,)
    results = run(spec.learner(), tasks, tmp_path / "run")
    assert results.spec.identity == spec.identity
    assert replace(spec, options={**options, "features": "other"}).identity != spec.identity
    assert f"--features {file}" in spec.command
    file.write_bytes(toy_file(seed=1, size=SIZE))
    with pytest.raises(SettingsError, match="name that file"):
        spec.tasks(tmp_path)
    with pytest.raises(SettingsError, match="--features FILE"):
        results.spec.tasks(tmp_path)


def test_a_run_on_features_cannot_go_on_without_its_pictures(stream, tmp_path) -> None:
    with pytest.raises(DataError, match="made on pre-trained features"):
        reload_benchmark({"settings": {"benchmark": dict(stream.options)}}, None, tmp_path)


def test_reports_keep_runs_on_pretrained_features_apart() -> None:
    made = [
        Results(
            method=method,
            benchmark="split-digits",
            tasks=["a"],
            settings={"seed": 0, "benchmark": options},
            accuracy=[[accuracy]],
            episodes=[Episode(("a",), None, 0.0, {"train": 1.0, "evaluate": 1.0})],
        )
        for method, options, accuracy in [
            ("isolated", {"features": "f" * 16}, 0.9),
            ("er", {"features": "f" * 16}, 0.8),
            ("isolated", {}, 0.5),
            ("er", {}, 0.6),
        ]
    ]
    table = report(made)
    accuracy = table.header.index("average accuracy")
    assert [row[1] for row in table.rows] == 2 * ["split-digits"] + 2 * ["split-digits on pre-trained features"]
    assert [(table.rows[row][0], row) for row, column in sorted(table.best) if column == accuracy] == [
        ("er", 1),
        ("isolated", 2),
    ]
