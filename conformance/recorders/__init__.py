"""The steps of each official repository, a module each."""

import importlib

from conformance.steps import Step

MODULES = {
    "Xu-Jingyi/FedCorr": ("fedcorr", "fedcorr_data"),
    "ElvinKim/FedRN": ("fedrn", "fedrn_baselines", "fedrn_data"),
    "LiJunnan1992/DivideMix": ("dividemix",),
    "bhanML/Co-teaching": ("coteaching",),
    "NUST-Machine-Intelligence-Laboratory/Jo-SRC": ("josrc",),
    "DaikiTanaka-UT/JointOptimization": ("jointopt",),
    "alpemreacar/FedDyn": ("feddyn",),
    "litian96/FedProx": ("fedprox",),
    "yuetan031/FedProto": ("fedproto",),
    "felisat/clustered-federated-learning": ("cfl",),
    "lishenghui/arfl": ("cfl_single", "krum"),
    "MLOPTPSU/FedTorch": ("apfl",),
    "AllenPu/FedELR_CTR": ("fedelr",),
    "linChen99/FedNed": ("fedned",),
    "sinagh72/FedSIR": ("fedsir",),
    "Tianjoker/FedRG": ("fedrg",),
    "fushuhao6/Attack-Resistant-Federated-Learning": ("arfl",),
    "Divyansh03/FedExP": ("fedexp",),
    "bytedance/FedDecorr": ("feddecorr",),
    "QinbinLi/MOON": ("moon",),
    "PaulAlbert31/LabelNoiseCorrection": ("dynamic_bootstrapping",),
}
"""By repository, the modules here."""


def steps(repository: str) -> list[Step]:
    """A repository's steps, in the order of the modules."""
    found: list[Step] = []
    for name in MODULES[repository]:
        module = importlib.import_module(f"{__name__}.{name}")
        found += [
            value()
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Step)
            and value.__module__ == module.__name__
            and hasattr(value, "what")
        ]
    return found
