"""A zoo that lives in a folder: `zoolearn.new`, `zoolearn.open`, and the `Zoo` they give.

`folder` and `index` are what is on the disk, `recall` reads it back, `intake` and `learning` add an episode, `forgetting`
and `pruning` take away, `exporting` hands a task to other programs.
"""

from zoolearn.zoo.zoo import Zoo, new, open

__all__ = ["Zoo", "new", "open"]
