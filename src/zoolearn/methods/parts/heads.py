"""What is done with the heads of a trained net: nothing, or fitting them once more to the finished features."""

from collections.abc import Callable, Mapping
from typing import Any

from zoolearn.data.task import Examples
from zoolearn.names import Named
from zoolearn.nets.net import Net
from zoolearn.training.recipe import Recipe

Heads = Callable[[Net, Mapping[str, Examples], Recipe], None]  # (net, rows at hand by task, recipe)


def as_trained(net: Net, rows: Mapping[str, Examples], recipe: Recipe) -> None:
    """Leaves the heads as training left them."""


HEADS: Named[Any] = Named({"as-trained": "methods.parts.heads.as_trained", "refit": "beyond.linear_head.refit_heads"})
