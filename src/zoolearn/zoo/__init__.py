"""A zoo that people own: it lives in a folder, learns from their data, answers, is served, undone and forgets.

`zoolearn.new` and `zoolearn.open` give a `Zoo`. `folder` and `index` are what is on the disk, `recall` reads it back,
`inputs` are people's own files, `intake` and `learning` add an episode, `forgetting` and `pruning` take away, `exporting`
hands a task to other programs, `serve` answers over HTTP, `estimator` is the zoo for scikit-learn.
"""

from zoolearn.zoo.zoo import Zoo, new, open

__all__ = ["Zoo", "new", "open"]
