"""Toy extractors, and ONNX files that are wrong or hostile, each in one way."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, FEATURES = 8, 6
PIXELS = ("pictures", TensorProto.UINT8, ["n", 3, SIZE, SIZE])
VECTORS = ("features", TensorProto.FLOAT, ["n", FEATURES])


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    takes: Sequence[Any] = (PIXELS,),
    gives: Sequence[Any] = (VECTORS,),
    **more: Any,
) -> onnx.ModelProto:
    """A file of these nodes, for the runtimes of the last years."""
    values = [[helper.make_tensor_value_info(*value) for value in values] for values in (takes, gives)]
    graph = helper.make_graph(list(nodes), "net", *values, initializer=list(weights))
    opsets = more.pop("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def layers(seed: int = 0, features: int = FEATURES) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Scaling, a convolution of random filters, a ReLU, and the mean over places."""
    filters = np.random.default_rng(seed).normal(size=(features, 3, 3, 3))
    nodes = [
        node("Cast", "pictures", "pixels", to=TensorProto.FLOAT),
        node("Mul", "pixels scale", "scaled"),
        node("Conv", "scaled filters", "maps"),
        node("Relu", "maps", "active"),
        node("GlobalAveragePool", "active", "mean"),
        node("Flatten", "mean", "features"),
    ]
    return nodes, [constant("scale", 1 / 255), constant("filters", filters)]


def toy_file(seed: int = 0, size: int = SIZE, features: int = FEATURES) -> bytes:
    """The bytes of an extractor for pictures of `size` pixels; another seed is another net."""
    nodes, weights = layers(seed, features)
    takes, gives = (
        ("pictures", TensorProto.UINT8, ["n", 3, size, size]),
        ("features", TensorProto.FLOAT, ["n", features]),
    )
    return model(nodes, weights, [takes], [gives]).SerializeToString()


def ending(*nodes: onnx.NodeProto, weights: Sequence[onnx.TensorProto] = (), **more: Any) -> onnx.ModelProto:
    """The toy net, with these nodes from its `mean` to its `features`."""
    first, own = layers()
    return model([*first[:-1], *nodes], [*own, *weights], **more)


def outside(path: str) -> onnx.ModelProto:
    """Weights that lie in another file."""
    made = ending(node("Flatten", "mean", "features"))
    tensor = made.graph.initializer[1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=path)
    return made


def outside_in_a_node() -> onnx.ModelProto:
    tensor = TensorProto(name="hidden", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    return ending(node("Constant", "", "one", value=tensor), node("Flatten", "mean", "features"))


def with_a_branch() -> onnx.ModelProto:
    branch = helper.make_graph(
        [node("Identity", "mean", "out")], "branch", [], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]
    )
    choice = node("If", "yes", "chosen", then_branch=branch, else_branch=branch)
    return ending(choice, node("Flatten", "chosen", "features"), weights=[constant("yes", True, np.bool_)])


def without_end() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Identity", "state", "next")],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    loop = helper.make_node("Loop", ["", "yes", "mean"], ["looped"], body=body)
    return ending(loop, node("Flatten", "looped", "features"), weights=[constant("yes", True, np.bool_)])


def calling_itself() -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function(
        "own", "Turn", ["a"], ["b"], [helper.make_node("Turn", ["a"], ["b"], domain="own")], opsets
    )
    call = helper.make_node("Turn", ["mean"], ["turned"], domain="own")
    return ending(call, node("Flatten", "turned", "features"), functions=[function], opset_imports=opsets)


def of_domain(domain: str, operator: str) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    foreign = helper.make_node(operator, ["mean"], ["other"], domain=domain)
    return ending(foreign, node("Flatten", "other", "features"), opset_imports=opsets)


def sized_by_pixels() -> onnx.ModelProto:
    return ending(
        node("ReduceMax", "pixels", "brightest", keepdims=0),
        node("Cast", "brightest", "whole", to=TensorProto.INT64),
        node("Reshape", "whole one", "count"),
        node("ConstantOfShape", "count", "zeros"),
        node("ReduceSum", "zeros", "sum", keepdims=0),
        node("Add", "mean sum", "more"),
        node("Flatten", "more", "features"),
        weights=[constant("one", [1], np.int64)],
    )


def in_a_circle() -> onnx.ModelProto:
    return ending(node("Add", "mean back", "on"), node("Identity", "on", "back"), node("Flatten", "on", "features"))


def many_nodes() -> onnx.ModelProto:
    names = ["mean", *(f"n{place}" for place in range(20_000))]
    chain = [node("Identity", before, after) for before, after in pairwise(names)]
    return ending(*chain, node("Flatten", names[-1], "features"))


def one_more(**changed: Any) -> onnx.ModelProto:
    return ending(node("Flatten", "mean", "features"), **changed)


def takes(dtype: int, *extents: Any) -> onnx.ModelProto:
    return one_more(takes=[("pictures", dtype, list(extents))])


def gives(dtype: int, *extents: Any) -> onnx.ModelProto:
    return one_more(gives=[("features", dtype, list(extents))])


def with_sparse_weights() -> onnx.ModelProto:
    made = one_more()
    sparse = helper.make_sparse_tensor(constant("few", [1.0]), constant("at", [0], np.int64), [4])
    made.graph.sparse_initializer.append(sparse)
    return made


WRONG = {  # refused by their bytes: the file, and a word of what is said about it
    "weights in a neighbour file": (lambda: outside("weights.bin"), "in another file"),
    "weights up the tree": (lambda: outside("../secret"), "in another file"),
    "weights at an absolute path": (lambda: outside("/etc/passwd"), "in another file"),
    "weights outside, in a node": (outside_in_a_node, "in another file"),
    "too many nodes": (many_nodes, "nodes"),
    "an operator of the runtime's own": (lambda: of_domain("com.microsoft", "Gelu"), "com.microsoft::Gelu"),
    "an operator of an unknown domain": (lambda: of_domain("evil", "Run"), "evil::Run"),
    "an operator that draws at random": (
        lambda: ending(
            node("RandomNormalLike", "mean", "noise"), node("Add", "mean noise", "sum"), node("Flatten", "sum", "features")
        ),
        "RandomNormalLike",
    ),
    "a branch": (with_a_branch, "operator If"),
    "a loop without end": (without_end, "operator Loop"),
    "a function that calls itself": (calling_itself, "functions"),
    "a size computed from pixels": (sized_by_pixels, "a size from pixels"),
    "a net that goes in a circle": (in_a_circle, "in a circle"),
    "a free size": (lambda: takes(TensorProto.UINT8, "n", 3, "side", "side"), "a fixed side"),
    "pixels of real numbers": (lambda: takes(TensorProto.FLOAT, "n", 3, SIZE, SIZE), "float"),
    "one picture only": (lambda: takes(TensorProto.UINT8, 1, 3, SIZE, SIZE), r"\(any, 3, side, side\)"),
    "channels last": (lambda: takes(TensorProto.UINT8, "n", SIZE, SIZE, 3), r"\(any, 3, side, side\)"),
    "a side of a million": (lambda: takes(TensorProto.UINT8, "n", 3, 10**6, 10**6), "8 to 1024"),
    "maps in place of vectors": (lambda: gives(TensorProto.FLOAT, "n", FEATURES, 1, 1), "it must give features"),
    "whole numbers come out": (lambda: gives(TensorProto.INT64, "n", FEATURES), "it must give features"),
    "a free number of features": (lambda: gives(TensorProto.FLOAT, "n", "d"), "must be fixed"),
    "two inputs": (lambda: one_more(takes=[PIXELS, ("more", TensorProto.FLOAT, ["n"])]), "2 inputs"),
    "two outputs": (lambda: one_more(gives=[VECTORS, ("mean", TensorProto.FLOAT, ["n", FEATURES, 1, 1])]), "2 outputs"),
    "sparse weights": (with_sparse_weights, "sparse"),
    "no net at all": (onnx.ModelProto, "without a net"),
}  # fmt: skip


def not_finite() -> onnx.ModelProto:
    return ending(
        node("Neg", "mean", "below"),
        node("Sub", "below one", "lower"),
        node("Sqrt", "lower", "root"),
        node("Flatten", "root", "features"),
        weights=[constant("one", 1.0)],
    )


def mixing_the_batch() -> onnx.ModelProto:
    return ending(
        node("ReduceMean", "mean", "all", axes=[0], keepdims=1),
        node("Sub", "mean all", "centred"),
        node("Flatten", "centred", "features"),
    )


def large(extent: int) -> onnx.ModelProto:
    """A net that asks for memory: floats, as many as `extent` says."""
    return ending(
        node("ConstantOfShape", "shape", "zeros"),
        node("ReduceMax", "zeros", "none", keepdims=0),
        node("Add", "mean none", "sum"),
        node("Flatten", "sum", "features"),
        weights=[constant("shape", [extent], np.int64)],
    )


def slow(times: int, side: int = 2000) -> onnx.ModelProto:
    """A net that multiplies large matrices again and again."""
    names = ["square", *(f"p{place}" for place in range(times))]
    products = [node("MatMul", f"{before} {before}", after) for before, after in pairwise(names)]
    return ending(
        node("ReduceSum", "mean", "drop", keepdims=0),
        node("Mul", "drop zero", "nothing"),
        node("Expand", "nothing shape", "square"),
        *products,
        node("ReduceSum", names[-1], "none", keepdims=0),
        node("Add", "mean none", "sum"),
        node("Flatten", "sum", "features"),
        weights=[constant("shape", [side, side], np.int64), constant("zero", 0.0)],
    )
