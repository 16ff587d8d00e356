"""The methods by name: one line each."""

from collections.abc import Mapping

from zoolearn.methods.learner import Learner
from zoolearn.names import Named

METHODS: Mapping[str, type[Learner]] = Named(
    {
        "model-zoo": "methods.model_zoo.ModelZoo",
        "isolated": "methods.isolated.Isolated",
        "multi-head": "methods.multi_head.MultiHead",
        "fine-tune": "methods.bases.single_net.FineTune",
        "stable-sgd": "methods.stable_sgd.StableSgd",
        "er": "methods.er.Er",
        "ewc": "methods.ewc.Ewc",
        "si": "methods.si.Si",
        "ogd": "methods.ogd.Ogd",
        "gem": "methods.gem.Gem",
        "a-gem": "methods.a_gem.AGem",
        "mega-ii": "methods.mega_ii.MegaII",
        "tag": "methods.tag.Tag",
        "mc-sgd": "methods.mc_sgd.McSgd",
        "hat": "methods.hat.Hat",
        "progressive": "methods.progressive.Progressive",
        "rmn": "methods.rmn.Rmn",
        "apd": "methods.apd.Apd",
        "fedweit": "methods.fedweit.FedWeit",
        "vcl": "methods.vcl.Vcl",
        "frcl": "methods.frcl.Frcl",
        "fromp": "methods.fromp.Fromp",
    }
)
