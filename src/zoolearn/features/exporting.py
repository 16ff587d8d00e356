"""Writes a torch module as an extractor's file, with the pixel scaling inside, and compares the result."""

import logging
import warnings
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoolearn.errors import DataError, MissingData, SettingsError
from zoolearn.features.extractor import Extractor
from zoolearn.features.probe import trial_pictures

if TYPE_CHECKING:
    from torch import nn

Scaling = tuple[float | Sequence[float], float | Sequence[float]]
NEAR = 1e-3  # of the largest feature


def export(module: "nn.Module", size: int, scaling: Scaling, path: Path | str) -> Extractor:
    """Writes a module that maps scaled pictures (any, 3, size, size) to vectors (any, d) as an extractor's file.

    `scaling` is (mean, deviation) of pixels from 0 to 255, one number or one for each of red, green and blue: the module
    gets (pixels - mean) / deviation, and the file takes the pixels themselves. A wrong scaling is silent and costs
    accuracy; ask whoever trained the module. The file gets its name once its answers are those of the module.
    """
    from zoolearn.files import replace_file

    whole = _scale_inside(module, scaling)
    content = _onnx(whole, size)
    extractor = Extractor.of_bytes(content, Path(path).name)
    difference = _difference(extractor, whole, size)
    if not difference <= NEAR:
        raise DataError(
            f"the exported file answers otherwise than the module, by {difference:.2g} of the largest feature; not written"
        )
    with replace_file(Path(path)) as part:
        part.write_bytes(content)
    return extractor


def _scale_inside(module: "nn.Module", scaling: Scaling) -> "nn.Module":
    import torch
    from torch import nn

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = deepcopy(module)
            mean, deviation = (torch.as_tensor(part, dtype=torch.float32).reshape(-1, 1, 1) for part in scaling)
            if {len(mean), len(deviation)} - {1, 3} or not (deviation > 0).all():
                raise SettingsError(
                    f"scaling is {scaling!r}; give (mean, deviation) of pixels from 0 to 255, each one number or three"
                )
            self.register_buffer("mean", mean, persistent=False)
            self.register_buffer("deviation", deviation, persistent=False)

        def forward(self, pictures: Any) -> Any:
            return self.module((pictures.to(torch.float32) - self.mean) / self.deviation)

    return Scaled().cpu().eval()


def _onnx(module: "nn.Module", size: int) -> bytes:
    import torch

    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401 (torch needs it)
    except ImportError as error:
        raise MissingData(f"to export needs {error.name}; install it with: pip install 'zoolearn[onnx]'") from error
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells that torchvision is not there, nor needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about its own insides
        try:
            program: Any = torch.onnx.export(
                module,
                (torch.zeros(2, 3, size, size, dtype=torch.uint8),),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("pictures")},),
                input_names=["pictures"],
                output_names=["features"],
                verbose=False,
            )
        except Exception as error:  # of a library with many kinds
            reason = " ".join(str(error.__cause__ or error).split())[:300]
            raise DataError(
                f"torch cannot export the module ({reason}); export its parts, or another module"
            ) from error
    content: bytes = program.model_proto.SerializeToString()
    return content


def _difference(extractor: Extractor, module: "nn.Module", size: int) -> float:
    import torch

    pictures = trial_pictures(size)
    with torch.inference_mode():
        wanted = module(torch.from_numpy(pictures)).numpy()
    return float(np.abs(extractor.extract(pictures) - wanted).max() / np.abs(wanted).max())
