"""The methods by name: one line each."""

from zoolearn.learner import Learner
from zoolearn.methods.isolated import Isolated, IsolatedEnsemble
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.multi_head import MultiHead
from zoolearn.methods.single_net import FineTune

METHODS: dict[str, type[Learner]] = {
    "model-zoo": ModelZoo,
    "isolated": Isolated,
    "multi-head": MultiHead,
    "isolated-ensemble": IsolatedEnsemble,
    "fine-tune": FineTune,
}
