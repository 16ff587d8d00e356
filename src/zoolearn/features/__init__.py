"""Pre-trained features: one ONNX file, or a function by its name, that turns pictures or texts into vectors.

`extractor.Extractor` is such a file opened, and `embed_inputs` gives what is stored of an input: its features at length 1, in
16 bits. A file that is met for the first time is judged by its bytes (`graph`) and tried in a process of its own with
limits (`trial`); later the features of one built-in picture (`probe`) must come out as they were recorded.
"""

from zoolearn.features.exporting import export
from zoolearn.features.extractor import Extractor, embed_inputs

__all__ = ["Extractor", "embed_inputs", "export"]
