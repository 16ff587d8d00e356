"""The public names, nothing else; `zoolearn` gives them, and imports them (and torch) when the first is asked for.

`zoolearn.open` is not among them: `from zoolearn import *` must not hide Python's own `open`.
"""

from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.augment import augment
from zoolearn.data.benchmarks import BENCHMARKS, benchmark
from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Examples, Task
from zoolearn.errors import (
    DataError,
    Diverged,
    MissingData,
    SettingsError,
    StoreError,
    UnknownTask,
    ZooError,
)
from zoolearn.lab.frames import frame
from zoolearn.methods.bases.single_net import FineTune, SingleNet
from zoolearn.methods.ensemble import Ensemble, Member, Vote
from zoolearn.methods.isolated import Isolated
from zoolearn.methods.learner import Episode, Learner, accuracy
from zoolearn.methods.model_zoo import ModelZoo, boosted, from_scratch
from zoolearn.methods.multi_head import MultiHead
from zoolearn.methods.parts.reservoir import Reservoir
from zoolearn.methods.parts.weighing import released, uniform
from zoolearn.methods.registry import METHODS
from zoolearn.methods.state import derived, saved
from zoolearn.nets.backbones import BACKBONES, small_conv
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp
from zoolearn.nets.published import resnet18_s, wrn_16_4
from zoolearn.runs.metrics import average_accuracy, backward_transfer, forgetting, forward_transfer
from zoolearn.runs.results import Results
from zoolearn.runs.run import episodes, progress, run
from zoolearn.runs.store import load
from zoolearn.settings import setting
from zoolearn.training.adam import Adam
from zoolearn.training.at_once import fit
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Progress, cross_entropy, iter_fit
from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd
from zoolearn.zoo import Zoo, new

__all__ = [
    "BACKBONES",
    "BENCHMARKS",
    "METHODS",
    "Adam",
    "Batch",
    "Benchmark",
    "DataError",
    "Diverged",
    "Ensemble",
    "Episode",
    "Examples",
    "FineTune",
    "Isolated",
    "Learner",
    "Member",
    "MissingData",
    "ModelZoo",
    "MultiHead",
    "Net",
    "Progress",
    "Recipe",
    "Reservoir",
    "Results",
    "SettingsError",
    "Sgd",
    "SingleNet",
    "StoreError",
    "Task",
    "UnknownTask",
    "Vote",
    "WarmStart",
    "Zoo",
    "ZooError",
    "accuracy",
    "augment",
    "average_accuracy",
    "backward_transfer",
    "benchmark",
    "boosted",
    "cross_entropy",
    "derived",
    "episodes",
    "fit",
    "forgetting",
    "forward_transfer",
    "frame",
    "from_scratch",
    "iter_fit",
    "load",
    "mlp",
    "new",
    "progress",
    "released",
    "resnet18_s",
    "run",
    "saved",
    "setting",
    "small_conv",
    "uniform",
    "wrn_16_4",
]
