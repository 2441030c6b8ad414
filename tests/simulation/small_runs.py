"""Runs that are small enough to be repeated often: every method on a few digits."""

from noisyfl.catalogue import methods
from noisyfl.spec import canonical_run

SETTING = {
    "dataset": "digits",
    "partition": "dirichlet(alpha=5, clients=6)",
    "label_noise": "symmetric",
    "noise_level": "bernoulli_uniform(rho=0.6, tau=0.5)",
    "model": "cnn",
    "augmentation": "crop",
    "normalization": "dataset",
    "schedule": {
        "rounds": 8,
        "participation": 0.5,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.05,
        "momentum": 0.5,
        "weight_decay": 0.0001,
    },
    "seed": 3,
}
# Options without which a method would not fit into eight rounds.
SMALL = {"fedcorr": {"preprocessing_iterations": 2, "finetuning_rounds": 2}}
FEDCORR = {"name": "fedcorr", **SMALL["fedcorr"]}
METHODS = [
    *({"name": name, **SMALL.get(name, {})} for name in methods()),
    {**FEDCORR, "variant": "paper"},
]


def name_of(method):
    return "-".join(map(str, method.values()))


def spec_of(method, **changes):
    return canonical_run({**SETTING, "method": method, **changes}, "test")
