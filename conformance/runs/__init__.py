"""Whole runs: the official code of a method and ours, on the same noisy partition.

Both get the same images, given labels, first weights and participants of each round. What each
draws for itself (batches, mixup) is its own, so that they differ by chance, and by nothing else if
the method is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LAST, FEWER = 10, 6
"""Rounds at the end that are tested; fewer where a round's test takes seconds."""

FEWEST_SEEDS = 3
"""Seeds from which on an interval is a verdict."""

RECORDED = "recorded"
"""The folder beside this file with a file a method."""

SETTING: dict[str, Any] = {
    "dataset": "digits",
    "partition": "iid_subset(clients=10, per_client=100)",
    "label_noise": "symmetric",
    "noise_level": "client_linear(low=0, high=0.8)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 30,
        "participation": 0.5,
        "local_epochs": 3,
        "batch_size": 20,
        "learning_rate": 0.1,
        "momentum": 0.5,
        "evaluate_every": 30 - LAST,
        "evaluate_last": LAST,
    },
}
"""Of all runs but their seeds. Levels are 0, 8, ..., 72 %, and a label changes to another one."""

CLIENTS = 10
"""Of all runs."""

FEW_NOISY = {
    **SETTING,
    "label_noise": "symmetric(include_true=True)",
    "noise_level": "bernoulli_uniform(rho=0.6, tau=0.5)",
}
"""FedCorr's: some clients have no noise."""


@dataclass(frozen=True)
class Pair:
    """A method in its official code and in ours.

    Attributes:
        repository: whose code.
        arguments: of its command line, beside those that every method of it gets.
        ours: the method in a spec.
        setting: of both.
        changes: more runs of the official code, each changed from outside in one or two points to
            do as ours does: the points, by the name of the run.
    """

    repository: str
    arguments: str
    ours: str
    setting: dict[str, Any]
    changes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """Its name."""
        return self.ours.partition("(")[0]

    @property
    def sides(self) -> tuple[str, ...]:
        """Which runs it has."""
        return ("ours", "official", *self.changes)


LARGER_BATCHES: dict[str, Any] = {**SETTING["schedule"], "batch_size": 50}
"""Of the repositories that were run after FedRN's and FedCorr's, in less time."""


def _with(setting: dict[str, Any], **schedule: Any) -> dict[str, Any]:
    return {**setting, "schedule": {**LARGER_BATCHES, **schedule}}


FEDRN, FEDCORR, FEDDYN = "ElvinKim/FedRN", "Xu-Jingyi/FedCorr", "alpemreacar/FedDyn"
FEDELC, MASKED, FNBENCH, FEDLSR = (
    f"Sprinter1999/{name}" for name in ("FedELC", "MaskedOptim", "FNBench", "FedLSR")
)
FEDNORO, FEDPROTO, FEDTORCH = "wnn2000/FedNoRo", "yuetan031/FedProto", "MLOPTPSU/FedTorch"
CLUSTERED = "felisat/clustered-federated-learning"
ATTACK_RESISTANT = "fushuhao6/Attack-Resistant-Federated-Learning"

CODES = {
    FEDRN: "fedrn",
    FEDCORR: "fedcorr",
    FEDDYN: "feddyn",
    FEDELC: "fnbench",
    MASKED: "fnbench",
    FNBENCH: "fnbench",
    FEDLSR: "fedlsr",
    FEDNORO: "fednoro",
    FEDPROTO: "fedproto",
    FEDTORCH: "apfl",
    CLUSTERED: "cfl",
    ATTACK_RESISTANT: "arfl",
}
"""By repository, the module here that runs its code."""

PAIRS = {
    "fedavg": Pair(FEDRN, "--method default", "fedavg", SETTING),
    "fedrn": Pair(
        FEDRN,
        "--method fedrn --warmup_epochs 10 --w_alpha 0.6 --num_neighbors 2",
        "fedrn(warm_up_rounds=10)",
        SETTING,
    ),
    "coteaching": Pair(
        FEDRN,
        "--method coteaching --warmup_epochs 10 --forget_rate 0.4",
        'coteaching(variant="fedrn", ramp_rounds=10, forget_rate=0.4)',
        SETTING,
    ),
    "fedcorr": Pair(
        FEDCORR,
        "--iteration1 2 --rounds1 10 --rounds2 16 --beta 5 --mixup",
        "fedcorr(preprocessing_iterations=2, finetuning_rounds=10, usual_rounds=16)",
        FEW_NOISY,
    ),
    "jointopt": Pair(
        FEDRN,
        "--method jointoptim --warmup_epochs 10",
        'jointopt(variant="fedrn", start_round=10)',
        SETTING,
    ),
    "selfie": Pair(
        FEDRN,
        "--method selfie --warmup_epochs 10 --forget_rate 0.4",
        'selfie(variant="fedrn", warm_up_rounds=10, forget_rate=0.4)',
        SETTING,
    ),
    # Its warm-up has a round more than its option says.
    "dividemix": Pair(
        FEDRN,
        "--method dividemix --warmup_epochs 9",
        'dividemix(variant="fedrn", warm_up_rounds=10)',
        SETTING,
    ),
    "feddyn": Pair(
        FEDDYN,
        "train_FedDyn alpha_coef=0.1",
        "feddyn(alpha=0.1)",
        _with(SETTING, momentum=0.0, clip_norm=10.0),
    ),
    "scaffold": Pair(
        FEDDYN,
        "train_SCAFFOLD",
        'scaffold(momentum="off")',
        _with(SETTING, momentum=0.0, clip_norm=10.0),
    ),
    "fedprox": Pair(
        FEDDYN,
        "train_FedProx mu=0.1",
        "fedprox(mu=0.1)",
        _with(SETTING, momentum=0.0, clip_norm=10.0),
    ),
    "fedelc": Pair(
        FEDELC,
        "--method fedELC --epoch_of_stage1 10",
        "fedelc(warm_up_rounds=10, label_batch=None)",
        _with(FEW_NOISY),
    ),
    "masked_optim": Pair(
        MASKED,
        "--method maskedOptim --epoch_of_stage1 10",
        "masked_optim(warm_up_rounds=10, label_batch=None)",
        _with(FEW_NOISY),
    ),
    "rofl": Pair(
        FNBENCH,
        "--method robustfl --forget_rate 0.4 --T_pl 10 --lambda_e 0.8",
        'rofl(variant="fedrn", forget_rate=0.4, forget_ramp_rounds=5, pseudo_label_round=11)',
        _with(SETTING),
    ),
    "fedlsr": Pair(
        FEDLSR,
        "gamma=0.4 lambda_e=0.6 global_t_w=6",
        'fedlsr(ramp_rounds=6, second_view="strong")',
        SETTING,
    ),
    "fednoro": Pair(
        FEDNORO,
        "--s1 10 --begin 10 --end 25",
        "fednoro(warm_up_rounds=10, ramp_end=25)",
        _with(FEW_NOISY, participation=1.0),
    ),
    "fedproto": Pair(
        FEDPROTO,
        "--ld 1",
        'fedproto(variant="faithful", weight=1)',
        _with(SETTING, participation=1.0),
    ),
    "arfl": Pair(ATTACK_RESISTANT, "--agg irls", "arfl", _with(SETTING)),
    "median": Pair(ATTACK_RESISTANT, "--agg median", "median", _with(SETTING)),
    "trimmed_mean": Pair(
        ATTACK_RESISTANT, "--agg trimmed_mean --alpha 0.2", "trimmed_mean", _with(SETTING)
    ),
    "cfl": Pair(
        CLUSTERED,
        "0.6 0.9",
        "cfl(eps1=0.6, eps2=0.9)",
        _with(SETTING, participation=1.0, momentum=0.0),
    ),
    "apfl": Pair(FEDTORCH, "", "apfl(adaptive=True, shrinkage=0.02)", _with(SETTING, momentum=0.0)),
}
"""What is run, by the name of the method."""

CIFAR10: dict[str, Any] = {
    **SETTING,
    "dataset": "cifar10",
    "partition": "shard(clients=20, shards=5, samples=3000)",
    "model": "cnn4conv",
    "schedule": {
        **SETTING["schedule"],
        "rounds": 12,
        "participation": 0.2,
        "evaluate_every": 12 - FEWER,
        "evaluate_last": FEWER,
        "pass_batch_size": SETTING["schedule"]["batch_size"],
    },
}
"""Real images, few of them. The code's passes have a local step's batches."""

UNVISITED, SEQUENTIAL = "unvisited", "sequential"
"""Two points of FedRN's code: a client that has not taken part yet can be a neighbour, and a
participant of a round uses the models that earlier ones have left in it."""

CAUSES = {
    "fedrn_cifar10": Pair(
        FEDRN,
        "--method fedrn --warmup_epochs 6 --w_alpha 0.6 --num_neighbors 2",
        "fedrn(warm_up_rounds=6)",
        CIFAR10,
        {UNVISITED: (UNVISITED,), SEQUENTIAL: (SEQUENTIAL,), "both": (UNVISITED, SEQUENTIAL)},
    ),
}
"""Runs that say what a difference comes from."""
