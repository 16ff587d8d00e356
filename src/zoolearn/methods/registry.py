"""The methods by name: one line each."""

from zoolearn.methods.a_gem import AGem
from zoolearn.methods.apd import Apd
from zoolearn.methods.bases.single_net import FineTune
from zoolearn.methods.er import Er
from zoolearn.methods.ewc import Ewc
from zoolearn.methods.fedweit import FedWeit
from zoolearn.methods.frcl import Frcl
from zoolearn.methods.fromp import Fromp
from zoolearn.methods.gem import Gem
from zoolearn.methods.hat import Hat
from zoolearn.methods.isolated import Isolated, IsolatedEnsemble
from zoolearn.methods.learner import Learner
from zoolearn.methods.mc_sgd import McSgd
from zoolearn.methods.mega_ii import MegaII
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.multi_head import MultiHead
from zoolearn.methods.ogd import Ogd
from zoolearn.methods.progressive import Progressive
from zoolearn.methods.rmn import Rmn
from zoolearn.methods.si import Si
from zoolearn.methods.stable_sgd import StableSgd
from zoolearn.methods.tag import Tag
from zoolearn.methods.vcl import Vcl

METHODS: dict[str, type[Learner]] = {
    "model-zoo": ModelZoo,
    "isolated": Isolated,
    "multi-head": MultiHead,
    "isolated-ensemble": IsolatedEnsemble,
    "fine-tune": FineTune,
    "stable-sgd": StableSgd,
    "er": Er,
    "ewc": Ewc,
    "si": Si,
    "ogd": Ogd,
    "gem": Gem,
    "a-gem": AGem,
    "mega-ii": MegaII,
    "tag": Tag,
    "mc-sgd": McSgd,
    "hat": Hat,
    "progressive": Progressive,
    "rmn": Rmn,
    "apd": Apd,
    "fedweit": FedWeit,
    "vcl": Vcl,
    "frcl": Frcl,
    "fromp": Fromp,
}
