"""One task as one file for other programs: raw inputs in, the zoo's probabilities out.

`onnx` is read by onnxruntime and many others; `torch` is a program of `torch.export`, loaded with `torch.export.load`: a
graph and plain tensors, no code of ours and no pickled objects. Both take any number of rows.
"""

import json
import logging
import os
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zoolearn.beyond.temperature import apply_temperature
from zoolearn.errors import MissingData, SettingsError, StoreError
from zoolearn.files import replace_file
from zoolearn.nets.net import Net
from zoolearn.training.predict import combine, iter_probabilities, join
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.disk.arrivals import TaskEntry

SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
ROWS_CHECKED = 64
TOLERANCE = 1e-4
INPUT, OUTPUT = "inputs", "probabilities"


@dataclass(frozen=True)
class Exported:
    """An exported file that was checked: its size, the rows compared, and the largest difference from the zoo.

    Of one in 8 bits, also the accuracy on held-out pictures: `before` of the zoo, and `after` of the file.
    """

    path: Path
    bytes: int
    rows: int
    difference: float
    members: int
    before: float | None = None
    after: float | None = None
    pictures: int = 0


class ExportedEnsemble(nn.Module):
    """The members that vote on one task, as a module of raw inputs."""

    def __init__(self, nets: Sequence[tuple[Net, float]], entry: TaskEntry, temperature: float) -> None:
        super().__init__()
        self.temperature, self.classes, task = temperature, entry.classes, entry.name
        self.backbones = nn.ModuleList(deepcopy(net.backbone) for net, _ in nets)
        self.heads = nn.ModuleList(deepcopy(net.head(task)) for net, _ in nets)
        columns = [net.columns[net.head_index[task]] if net.standardize else nn.Identity() for net, _ in nets]
        self.columns = nn.ModuleList(map(deepcopy, columns))
        self.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # as files hold them
        self.weights = [share for _, share in nets]
        self.flips = nets[0][0].flips
        self.scale, self.shift = (nn.Buffer(part.cpu()) for part in (nets[0][0].pixel_scale, nets[0][0].pixel_shift))

    def forward(self, x: Tensor) -> Tensor:
        """The weighted mean of the members' probabilities, at the task's temperature."""
        if x.dtype == torch.uint8:
            x = x.to(torch.float32) * self.scale - self.shift
        votes = [
            torch.softmax(head(self.features(backbone, columns(x))), dim=1)
            for backbone, head, columns in zip(self.backbones, self.heads, self.columns, strict=True)
        ]
        known = [self.classes[: vote.shape[1]] for vote in votes]
        return apply_temperature(combine(votes, self.weights, known, self.classes), self.temperature)

    def features(self, backbone: nn.Module, x: Tensor) -> Tensor:
        """The features of scaled inputs, averaged with those of mirror images if `flips`."""
        features: Tensor = backbone(x)
        return (features + backbone(x.flip(-1))) / 2 if self.flips else features


def export(
    nets: Sequence[tuple[Net, float]],
    task: TaskEntry,
    rows: Tensor,
    path: Path,
    to: Literal["onnx", "torch"],
    recipe: Recipe,
    *,
    temperature: float,
    overwrite: bool,
) -> Exported:
    """Writes the file, loads it as other programs will, and compares its answers; one that differs never gets its name.

    The comparison is on some of `rows`.
    """
    if to not in SUFFIXES:
        raise SettingsError(f"export to {to!r}; give onnx or torch")
    check_target(path, overwrite=overwrite)
    ensemble = ExportedEnsemble(nets, task, temperature).cpu().eval()
    rows = rows[:ROWS_CHECKED]
    sample = torch.zeros(
        2, *rows.shape[1:], dtype=rows.dtype
    )  # never a stored row: programs carry their example inputs
    with replace_file(path) as part:
        named = part.with_name(part.name + SUFFIXES[to])  # the writers look at the end of the name
        try:
            asked = _write_onnx if to == "onnx" else _write_torch
            found = asked(ensemble, sample, named, task, rows)
            wanted = apply_temperature(_answers(nets, rows, task, recipe), temperature)
            difference = float((found - wanted).abs().max())
            if not difference <= TOLERANCE:
                raise StoreError(
                    f"the exported file answers differently from the zoo, by up to {difference:.2g}; not written"
                )
            os.replace(named, part)
        finally:
            named.unlink(missing_ok=True)
    return Exported(path, path.stat().st_size, len(rows), difference, len(nets))


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raises if the folder does not exist, or a file exists and must not be overwritten."""
    if not path.parent.is_dir():
        raise SettingsError(f"there is no folder {path.parent} to write {path.name} to; make it first, or give another")
    if path.is_dir():
        raise SettingsError(f"{path} is a folder; give a file in it")
    if path.exists() and not overwrite:
        raise SettingsError(f"{path} exists already; give another file, or overwrite it (--overwrite)")


def _answers(nets: Sequence[tuple[Net, float]], rows: Tensor, task: TaskEntry, recipe: Recipe) -> Tensor:
    """The members' combined probabilities in the file's arithmetic: float32 on the CPU."""
    plain = replace(recipe, device="cpu", precision="float32")
    pieces = iter_probabilities([net for net, _ in nets], rows, task.name, plain)
    votes = [join(piece) for piece in zip(*pieces, strict=True)]
    known = [task.classes[: vote.shape[1]] for vote in votes]
    return combine(votes, [weight for _, weight in nets], known, task.classes)


def _write_torch(ensemble: ExportedEnsemble, sample: Tensor, path: Path, task: TaskEntry, rows: Tensor) -> Tensor:
    program = torch.export.export(ensemble, (sample,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    notes = {"task.json": json.dumps({"task": task.name, "classes": task.classes})}
    torch.export.save(program, path, extra_files=notes)
    with torch.inference_mode():
        answers: Tensor = torch.export.load(path).module()(rows)
    return answers.clone()


def _write_onnx(ensemble: ExportedEnsemble, sample: Tensor, path: Path, task: TaskEntry, rows: Tensor) -> Tensor:
    onnx = import_onnx("onnxscript")  # torch needs it, too
    logging.getLogger("torch.onnx").setLevel(
        logging.ERROR
    )  # it reports that torchvision, which is not needed, is missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter
        program: Any = torch.onnx.export(
            ensemble,
            (sample,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            input_names=[INPUT],
            output_names=[OUTPUT],
            verbose=False,
        )
    model = program.model_proto
    note_task(model, task)
    onnx.save(model, path)
    return ask_onnx(path, rows.numpy())


def import_onnx(*others: str) -> Any:
    """The onnx library, if everything that an export needs is installed."""
    try:
        for name in ("onnxruntime", *others):
            import_module(name)
        return import_module("onnx")
    except ImportError as error:
        raise MissingData(
            f"export to onnx needs {error.name}; install it with: pip install 'zoolearn[onnx]'"
        ) from error


def note_task(model: Any, task: TaskEntry) -> None:
    """Stores the name and the classes of a task in a model."""
    for key, value in {"task": task.name, "classes": json.dumps(task.classes)}.items():
        model.metadata_props.add(key=key, value=value)


def ask_onnx(model: Path | bytes, rows: NDArray[Any]) -> Tensor:
    """A model's answers in onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return torch.from_numpy(np.array(session.run([OUTPUT], {INPUT: rows})[0]))
