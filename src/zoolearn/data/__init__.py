"""What is learned: tasks of labelled examples, and the benchmarks that are streams of them.

A `Task` has a name, classes, training and test rows; a `Benchmark` is a sequence of tasks met one after another.
`datasets` reads publishers' own files; `benchmarks` cuts them into tasks; `augment` varies images in training.
Nothing here knows about networks or learning.
"""
