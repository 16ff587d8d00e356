"""One task of a zoo on features as one ONNX file: both views of a picture through the extractor, unit length, the head.

The extractor's graph is used as it is and runs once, on the pictures and their mirror images together; features are
normalised and rounded to steps of 2**-15, as stored rows are. So the file answers as the zoo does.
"""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoolearn.data.task import STEP
from zoolearn.errors import SettingsError, StoreError
from zoolearn.features import Extractor
from zoolearn.features.probe import probe_picture
from zoolearn.files import Json, replace_file
from zoolearn.nets.net import Net
from zoolearn.seeds import generator
from zoolearn.training.predict import probabilities
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.export.export import (
    INPUT,
    OUTPUT,
    TOLERANCE,
    Exported,
    ask_onnx,
    check_target,
    import_onnx,
    note_task,
)
from zoolearn.zoo.intake.extracting import extractor_file, to_rows

OLDEST = 12  # operator set that has all that is added
STEPS = 2  # by which features are rounded otherwise, at most as measured
EXACT = Recipe(device="cpu")


def file_to_export(folder: ZooFolder, record: Mapping[str, Json], to: str) -> bytes:
    """The bytes of the extractor that goes into an exported file; refused where they cannot."""
    if not record["file"]:
        raise SettingsError(
            f"a zoo on features of {record['name']!r} cannot be exported, since that is a function and no ONNX file; serve it"
        )
    if to != "onnx":
        raise SettingsError(
            f"export to {to!r} of a zoo on features of {record['name']!r}; its file is one of ONNX: --to onnx"
        )
    return extractor_file(folder, record)


def export_on_features(
    content: bytes, extractor: Extractor, net: Net, task: TaskEntry, path: Path, *, overwrite: bool
) -> Exported:
    """Writes the file and compares its answers on generated pictures; one that differs is not written."""
    check_target(path, overwrite=overwrite)
    model = import_onnx().load_model_from_string(content)
    size = _surround(model, net.head(task.name))
    note_task(model, task)
    made = model.SerializeToString()
    probe = probe_picture(size)
    pictures = np.concatenate([np.roll(probe, shift, axis=(2, 3)) for shift in range(0, size, max(1, size // 16))])
    found = ask_onnx(made, pictures)
    rows = to_rows(extractor, torch.from_numpy(pictures))
    difference = float((found - probabilities(net, rows, task.name, EXACT)).abs().max())
    if not difference <= max(TOLERANCE, _play(net, rows, task.name)):
        raise StoreError(f"the exported file answers differently from the zoo, by up to {difference:.2g}; not written")
    with replace_file(path) as part:
        part.write_bytes(made)
    return Exported(path, len(made), len(pictures), difference, 1)


def scale_head(net: Net, task: str, temperature: float) -> Net:
    """A copy of a net with the temperature of a task's answers in its head."""
    made, factor = deepcopy(net), 1.0 / temperature
    with torch.no_grad():
        made.head(task).weight.mul_(factor)
        made.head(task).bias.mul_(factor)
    return made


def _play(net: Net, rows: Tensor, task: str) -> float:
    """How far answers change if features are rounded differently, as in a batch or on another processor."""
    rng, plain = generator(0), probabilities(net, rows, task, EXACT)
    moved = [(rows + torch.randint(-STEPS, STEPS + 1, rows.shape, generator=rng)).to(torch.int16) for _ in range(8)]
    return max(float((probabilities(net, each, task, EXACT) - plain).abs().max()) for each in moved)


def _surround(model: Any, head: torch.nn.Linear) -> int:
    """Adds the zoo's pre- and post-processing to an extractor's graph; returns the size of its pictures."""
    from onnx import TensorProto, helper, numpy_helper

    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if version < OLDEST:
        raise SettingsError(
            f"the extractor is of operator set {version}, export takes {OLDEST} or newer; write it again with a newer torch"
        )
    graph = model.graph
    inner = {tensor.name for tensor in graph.initializer}
    (entry,) = [value for value in graph.input if value.name not in inner]
    (exit_,) = graph.output
    size = entry.type.tensor_type.shape.dim[2].dim_value
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | inner
    prefix = "zoo"
    while any(name.startswith(f"{prefix}.") for name in taken):
        prefix += "_"

    def made(operator: str, inputs: str, output: str, **attributes: Any) -> Any:
        names = [name if name in (entry.name, exit_.name, INPUT) else f"{prefix}.{name}" for name in inputs.split()]
        return helper.make_node(operator, names, [output], **attributes)

    def inside(name: str) -> str:
        return f"{prefix}.{name}"

    constants = {
        "last": np.array([-1]), "first": np.array([0]), "before": np.array([-(2**31)]), "width": np.array([3]),
        "rows": np.array([0]), "end": np.array([2**31 - 1]), "unit": np.float64(1 / STEP), "step": np.float64(STEP),
        "low": np.float64(1 - 1 / STEP), "high": np.float64(1 / STEP - 1),
        "weight": head.weight.detach().numpy().T, "bias": head.bias.detach().numpy(),
    }  # fmt: skip
    graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(value), inside(name)) for name, value in constants.items()
    )
    first = [
        made("Slice", f"{INPUT} last before width last", inside("mirrored")),
        made("Concat", f"{INPUT} mirrored", entry.name, axis=0),
    ]
    last = [
        made("Shape", INPUT, inside("shape")),
        made("Gather", "shape rows", inside("count")),
        made("Slice", f"{exit_.name} first count first", inside("plain")),
        made("Slice", f"{exit_.name} count end first", inside("other")),
        made("Cast", "plain", inside("plain64"), to=TensorProto.DOUBLE),
        made("Cast", "other", inside("other64"), to=TensorProto.DOUBLE),
        made("Add", "plain64 other64", inside("sum")),
        made("LpNormalization", "sum", inside("one"), axis=1, p=2),
        made("Mul", "one unit", inside("long")),
        made("Round", "long", inside("whole")),
        made("Clip", "whole low high", inside("steps")),
        made("Mul", "steps step", inside("row64")),
        made("Cast", "row64", inside("row"), to=TensorProto.FLOAT),
        made("MatMul", "row weight", inside("product")),
        made("Add", "product bias", inside("logits")),
        made("Softmax", "logits", OUTPUT, axis=1),
    ]
    nodes = [*first, *graph.node, *last]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    shapes = {
        INPUT: (TensorProto.UINT8, ["rows", 3, size, size]),
        OUTPUT: (TensorProto.FLOAT, ["rows", len(head.bias)]),
    }
    values = {name: helper.make_tensor_value_info(name, *shape) for name, shape in shapes.items()}
    graph.input.append(values[INPUT])
    graph.output.append(values[OUTPUT])
    return int(size)
