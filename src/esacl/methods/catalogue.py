"""Parts and methods of this library by name. The only module that sees all axes."""

from esacl.methods.method import Method, combine
from esacl.objectives.co2l import Co2l
from esacl.objectives.derpp import Derpp
from esacl.objectives.er import Er
from esacl.objectives.ewc import Ewc
from esacl.objectives.finetune import Finetune
from esacl.objectives.icarl import Icarl
from esacl.objectives.lwf import Lwf
from esacl.objectives.mtl import Mtl
from esacl.objectives.still import Still
from esacl.optim.adam import AdamUpdate, BranchAdam
from esacl.optim.average import Average, Ema
from esacl.optim.constraint import StepConstraint
from esacl.optim.gpm import Gpm
from esacl.optim.gradient import GradientRule
from esacl.optim.la_maml import LearnedRates, Lookahead
from esacl.optim.polytope_update import PolytopeUpdate
from esacl.optim.sharpness import SharpnessAware
from esacl.optim.update import UpdateRule
from esacl.part import Part
from esacl.readouts.base import Readout
from esacl.readouts.bias import Bias
from esacl.readouts.lda import Lda
from esacl.readouts.nearest_mean import NearestMean
from esacl.readouts.probe import LinearProbe
from esacl.readouts.random_features import RandomFeatures
from esacl.readouts.refit import Refit
from esacl.readouts.two_step import TwoStep
from esacl.selection.base import KeepAll
from esacl.selection.ranked import Ranked
from esacl.selection.removal import LossRemoval, Removal
from esacl.sparsity.base import Dense
from esacl.sparsity.esacl import Esacl
from esacl.sparsity.grow import Grow
from esacl.sparsity.nispa import Nispa
from esacl.sparsity.packnet import Packnet
from esacl.sparsity.sparcl import Sparcl
from esacl.sparsity.wsn import Wsn

PARTS: dict[str, dict[str, type[Part]]] = {
    "objective": {
        "finetune": Finetune,
        "mtl": Mtl,
        "ewc": Ewc,
        "lwf": Lwf,
        "er": Er,
        "der++": Derpp,
        "co2l": Co2l,
        "icarl": Icarl,
        "still": Still,
    },
    "gradient": {"plain": GradientRule, "sharpness": SharpnessAware, "lookahead": Lookahead},
    "update": {"sgd": UpdateRule, "adam": AdamUpdate, "frank-wolfe": PolytopeUpdate, "learned-rates": LearnedRates},
    "constraint": {"none": StepConstraint, "gpm": Gpm},
    "sparsity": {
        "dense": Dense,
        "packnet": Packnet,
        "wsn": Wsn,
        "nispa": Nispa,
        "sparcl": Sparcl,
        "esacl": Esacl,
        "grow": Grow,
    },
    "selection": {"all": KeepAll, "ranked": Ranked, "removal": Removal, "loss-removal": LossRemoval},
    "average": {"last": Average, "ema": Ema},
    "readout": {
        "head": Readout,
        "refit": Refit,
        "bias": Bias,
        "nearest-mean": NearestMean,
        "lda": Lda,
        "two-step": TwoStep,
        "random-features": RandomFeatures,
        "probe": LinearProbe,
    },
}
"""Parts by slot and name."""

RENAMED = {"readout": {"linear-probe": "probe"}}
"""Parts by the names that they had."""

ER = Method("experience replay: rehearse stored examples (Chaudhry 2019)", {"objective": Er})
DERPP = Method("dark experience replay: rehearse labels and logits (Buzzega 2020)", {"objective": Derpp})
CO2L = Method(
    "contrastive features, relations distilled, linear probe (Cha 2021)", {"objective": Co2l, "readout": LinearProbe}
)
EWC = Method("elastic weight consolidation: hold weights that mattered (Kirkpatrick 2017)", {"objective": Ewc})
GPM = Method("gradient projection memory: step where old tasks read nothing (Saha 2021)", {"constraint": Gpm})
ESACL = Method(
    "one-shot pruning after each task (Ren & Honavar 2024); ascent and data selection off: --preset full",
    {"gradient": SharpnessAware, "update": PolytopeUpdate, "sparsity": Esacl, "selection": Ranked},
    {"sparsity.sharpness": "gradient", "sparsity.polytope": "update"},
)
SPARCL = Method(
    "few live weights that change places, few of which move, on ever fewer data (Wang 2022)",
    {"sparsity": Sparcl, "selection": Removal},
    {"sparsity.ddr": "selection"},
    {"selection": LossRemoval},
)
NISPA = Method("units that carry a task are fixed, others wired anew (Gurbuz 2022)", {"sparsity": Nispa})
GROW = Method(
    "a network that grows: a trunk from the first task, a branch of channels for each",
    {"sparsity": Grow, "update": BranchAdam},
    with_memory=TwoStep,
)
ICARL = Method("exemplars by herding, nearest class mean (Rebuffi 2017)", {"objective": Icarl, "readout": NearestMean})
METHODS: dict[str, Method] = {
    "finetune": Method("cross-entropy on whatever arrives; the lower bound"),
    "mtl": Method("all tasks at once; the upper bound", {"objective": Mtl}),
    "ewc": EWC,
    "lwf": Method("learning without forgetting: distil the old answers (Li & Hoiem 2017)", {"objective": Lwf}),
    "gpm": GPM,
    "er": ER,
    "der++": DERPP,
    "co2l": CO2L,
    "icarl": ICARL,
    "la-maml": Method(
        "look-ahead meta-learning with learned rates (Gupta 2020)",
        {"objective": Er, "gradient": Lookahead, "update": LearnedRates},
    ),
    "packnet": Method("weights of each task's own: prune, retrain, own (Mallya 2018)", {"sparsity": Packnet}),
    "wsn": Method(
        "winning subnetworks: a learned mask for each task (Kang 2022)", {"sparsity": Wsn, "update": AdamUpdate}
    ),
    "nispa": NISPA,
    "sparcl": SPARCL,
    "sparcl-ewc": combine("SparCL on top of ewc", SPARCL, EWC),
    "sparcl-er": combine("SparCL on top of er", SPARCL, ER),
    "sparcl-der++": combine("SparCL on top of der++", SPARCL, DERPP),
    "sparcl-co2l": combine("SparCL on top of co2l", SPARCL, CO2L),
    "esacl": ESACL,
    "esacl-ewc": combine("EsaCL on top of ewc", ESACL, EWC),
    "esacl-er": combine("EsaCL on top of er", ESACL, ER),
    "esacl-der++": combine("EsaCL on top of der++", ESACL, DERPP),
    "esacl-co2l": combine("EsaCL on top of co2l", ESACL, CO2L),
    "esacl-icarl": combine("EsaCL on top of icarl, its head fitted anew", ESACL, ICARL).replaced({"readout": Refit}),
    "grow": GROW,
    "ncm": Method("frozen features, nearest class mean", {"objective": Still, "readout": NearestMean}),
    "slda": Method(
        "frozen features, streaming linear discriminant analysis (Hayes & Kanan 2020)",
        {"objective": Still, "readout": Lda},
    ),
    "random-features": Method(
        "frozen features, ridge regression on a random projection of them (McDonnell 2023)",
        {"objective": Still, "readout": RandomFeatures},
    ),
}
"""The rows of the comparison. Any other sparsity before any other base is a method too (see `names.py`)."""
