"""Owned zoos: a zoo in a folder that learns from files, predicts, is served over HTTP, undone and made to forget.

`zoolearn.new` and `zoolearn.open` give a `Zoo`. Eight rooms, each importing only those before it: `inputs` reads
people's files, `disk` is the folder, `intake` stores rows in it, `learning` runs an episode on them and measures it,
`answers` predicts, `export` writes a task as one file for other programs, `changes` undoes, forgets, prunes, corrects
and renames, and `serve` is the HTTP server. `estimator` is Model Zoo for scikit-learn.
"""

from zoolearn.zoo.zoo import Zoo, new, open

__all__ = ["Zoo", "new", "open"]
