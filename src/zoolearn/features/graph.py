"""Checks the bytes of an ONNX file before anything runs it.

Only the bytes are read: no path in them is followed. Nodes are checked, not the imported operator sets, since exporters
import sets that they do not use. Every size inside must follow from the number of pictures alone: then a trial shows
the memory and time of any pictures.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from zoolearn.errors import DataError, MissingData

MOST_BYTES = 1 << 30
MOST_NODES = 10_000
MOST_FEATURES = 1 << 16
SIDES = range(8, 1025)

OPERATORS = frozenset({
    "Abs", "Add", "And", "ArgMax", "ArgMin", "Attention", "AveragePool", "BatchNormalization", "Cast", "CastLike",
    "Ceil", "Celu", "Clip", "Concat", "Constant", "ConstantOfShape", "Conv", "ConvInteger", "ConvTranspose", "Cos",
    "CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten",
    "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater",
    "GreaterOrEqual", "GroupNormalization", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization", "LRN",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "LpNormalization", "LpPool",
    "MatMul", "MatMulInteger", "Max", "MaxPool", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu",
    "Pad", "Pow", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RMSNormalization", "Range", "Reciprocal",
    "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Resize", "Round", "Selu", "Shape", "Sigmoid", "Sign", "Sin", "Size", "Slice",
    "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tanh",
    "ThresholdedRelu", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
})  # each gives the same for the same inputs, and holds no other graph  # fmt: skip

SIZED_BY = {
    "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "Unsqueeze": (1,),
    **{name: (1,) for name in OPERATORS if name.startswith("Reduce")},
}  # the inputs of an operator that decide how large its outputs are  # fmt: skip
SIZES = ("Shape", "Size")  # their outputs depend on the number of pictures, not on the pictures


@dataclass(frozen=True)
class Signature:
    """The declared inputs and outputs of a file."""

    size: int
    num_features: int


def check_graph(content: bytes) -> Signature:
    """Raises if a file is not a plain net from pictures to vectors; the error says what is wrong and what is needed."""
    if len(content) > MOST_BYTES:
        raise DataError(f"the extractor has more than {MOST_BYTES:,} bytes, which are allowed; take a smaller net")
    model = _read(content)
    _check_parts(model)
    inner = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in inner]
    if len(inputs) != 1 or len(model.graph.output) != 1:
        counted = f"{len(inputs)} inputs and {len(model.graph.output)} outputs"
        raise DataError(f"the extractor has {counted}; it takes one input, pictures, and one output, features")
    _check_sizes(model.graph, inputs[0].name)
    return _signature(inputs[0], model.graph.output[0])


def _read(content: bytes) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingData(f"features need {error.name}; install it with: pip install 'zoolearn[features]'") from error
    try:
        model = onnx.load_model_from_string(content)  # follows no path
    except Exception as error:  # the parser of another project, on any bytes
        raise DataError(
            "the extractor is no ONNX file, or it is damaged; `zoolearn.features.export` makes one"
        ) from error
    if not model.graph.node:
        raise DataError("the extractor is no ONNX file, or one without a net; `zoolearn.features.export` makes one")
    return model


def _check_parts(model: Any) -> None:
    from onnx import AttributeProto, TensorProto

    if len(model.graph.node) > MOST_NODES:
        raise DataError(f"the extractor has {len(model.graph.node):,} nodes; {MOST_NODES:,} are allowed")
    if model.functions or model.training_info or model.graph.sparse_initializer:
        raise DataError(
            "the extractor holds functions, training or sparse weights; export it as a plain graph for inference"
        )
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
            named = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            raise DataError(
                f"the extractor uses the operator {named}, which is not on the list of plain ones; export it without"
            )
        for attribute in node.attribute:
            if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) or attribute.ref_attr_name:
                raise DataError(
                    f"the extractor has a graph inside a node ({node.op_type}); export it as one plain graph"
                )
    for tensor in _tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise DataError(
                f"the extractor keeps weights ({tensor.name!r}) in another file; export it with all weights inside "
                "(torch.onnx.export(..., external_data=False))"
            )
        if prod(tensor.dims) < 0 or any(extent < 0 for extent in tensor.dims):
            raise DataError(f"the extractor has weights ({tensor.name!r}) of a negative size; it is damaged")


def _tensors(model: Any) -> Iterator[Any]:
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


def _check_sizes(graph: Any, pictures: str) -> None:
    """Raises if sizes are computed from pixels: no trial could bound them."""
    by_pixels, known = {pictures}, {"", pictures, *(tensor.name for tensor in graph.initializer)}
    for node in graph.node:
        unknown = [name for name in node.input if name not in known]
        if unknown:
            raise DataError(
                f"the extractor uses {unknown[0]!r} before anything gives it; it is damaged, or goes in a circle"
            )
        known.update(node.output)
        deciding = [node.input[place] for place in SIZED_BY.get(node.op_type, ()) if place < len(node.input)]
        if by_pixels.intersection(deciding):
            raise DataError(
                f"the extractor computes a size from pixels (at {node.op_type}); sizes may depend on the number of pictures only"
            )
        if node.op_type not in SIZES and by_pixels.intersection(node.input):
            by_pixels.update(node.output)


def _signature(pictures: Any, features: Any) -> Signature:
    from onnx import TensorProto

    wanted = "pictures as uint8 (any, 3, side, side)"
    given = pictures.type.tensor_type
    extents = [_extent(dimension) for dimension in given.shape.dim]
    named = f"{TensorProto.DataType.Name(given.elem_type).lower()} ({', '.join(map(str, extents))})"
    if given.elem_type != TensorProto.UINT8 or len(extents) != 4 or isinstance(extents[0], int):
        raise DataError(f"the extractor takes {named}; it must take {wanted}, and scale them itself")
    size = extents[2]
    if extents[1] != 3 or extents[3] != size or not isinstance(size, int) or size not in SIDES:
        raise DataError(
            f"the extractor takes {named}; it must take {wanted}, with a fixed side of {SIDES[0]} to {SIDES[-1]}"
        )
    made = features.type.tensor_type
    extents = [_extent(dimension) for dimension in made.shape.dim]
    named = f"{TensorProto.DataType.Name(made.elem_type).lower()} ({', '.join(map(str, extents))})"
    if made.elem_type != TensorProto.FLOAT or len(extents) != 2 or isinstance(extents[0], int):
        raise DataError(f"the extractor gives {named}; it must give features as float (any, number)")
    if not isinstance(extents[1], int) or not 1 <= extents[1] <= MOST_FEATURES:
        raise DataError(f"the extractor gives {named}; the number of features must be fixed, 1 to {MOST_FEATURES:,}")
    return Signature(size, extents[1])


def _extent(dimension: Any) -> int | str:
    return int(dimension.dim_value) if dimension.HasField("dim_value") else dimension.dim_param or "any"
