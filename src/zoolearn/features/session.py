"""An ONNX file in onnxruntime: one thread, on the CPU, without logging."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError, MissingData
from zoolearn.features.probe import Pictures


def open_session(content: bytes) -> Callable[[Pictures], NDArray[np.float32]]:
    """The net of a file, as a function of any number of pictures."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingData(f"features need {error.name}; install it with: pip install 'zoolearn[features]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # sums round the same on any number of cores
    options.log_severity_level = 4
    try:
        session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a family of errors without a name in common
        raise DataError(f"onnxruntime cannot open the extractor ({' '.join(str(error).split())[:300]})") from error
    entry, exit_ = session.get_inputs()[0].name, session.get_outputs()[0].name

    def run(pictures: Pictures) -> NDArray[np.float32]:
        features: NDArray[np.float32] = session.run([exit_], {entry: np.ascontiguousarray(pictures)})[0]
        return features

    return run
