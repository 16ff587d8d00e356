"""One task as one ONNX file for other programs: raw inputs in, the zoo's probabilities out."""
