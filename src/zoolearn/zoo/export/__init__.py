"""One task as one file for other programs: raw inputs in, the zoo's probabilities out.

`export` writes ONNX or torch.export programs of trained members, `features` puts a head behind a pre-trained extractor,
and `int8` quantises that. A file is compared with the zoo before it gets its name.
"""
