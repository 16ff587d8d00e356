"""A zoo that people own: it lives in a folder, learns from their data, answers, is served, undone and forgets.

`zoolearn.new` and `zoolearn.open` give a `Zoo`. Eight rooms, each importing only those before it: `inputs` are people's own
files, `disk` is the folder, `intake` brings rows into it, `learning` makes an episode of them and measures it, `answers`
are what a zoo is asked, `export` hands a task to other programs, `changes` undo, forget, prune, correct and rename, and
`serve` answers over HTTP. `estimator` is the zoo for scikit-learn.
"""

from zoolearn.zoo.zoo import Zoo, new, open

__all__ = ["Zoo", "new", "open"]
