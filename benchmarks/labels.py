"""Which labels are wrong: an audit of federated runs compared with cleanlab on pooled data.

``specs FOLDER`` writes the spec of every run, for ``noisyfl train FOLDER/*.json --keep-labels``.
``train`` trains those that are missing, one after the other. ``score`` compares those that there
are with cleanlab, writes ``labels.csv``, in which the scores of earlier runs stay, and prints a
table.

Cleanlab has out-of-sample probabilities of the same network: five folds, each predicted by a
network that was trained on the other four, with early stopping: after the epoch in which it fits
the given labels of its fold best. They are kept, so that every step goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

from noisyfl.core.artifacts import Results, replacing, write_json
from noisyfl.core.places import ROOT
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation.augment import View
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.config import load_config
from noisyfl.experiments.places import Places
from noisyfl.experiments.run_specs import RunSpecs
from noisyfl.models import build_model
from noisyfl.pages.markdown import head, row
from noisyfl.runs.inputs import make_inputs
from noisyfl.runs.kept_labels import read_labels
from noisyfl.runs.train import choose_device
from noisyfl.simulation.executor import NO_DRAWS
from noisyfl.simulation.ledger import class_skew
from noisyfl.specs.catalogue import methods
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run

COMMON = {
    "clients": 20,
    "noise_level": "none",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {"participation": 0.25},
}

SETTINGS: dict[str, dict[str, Any]] = {
    "Fashion-MNIST, symmetric": {
        "dataset": "fashion_mnist",
        "partition": "dirichlet(alpha=0.5)",
        "label_noise": "symmetric",
        "noise_level": "constant(level=0.4)",
    },
    "Fashion-MNIST, pair": {
        "dataset": "fashion_mnist",
        "partition": "dirichlet(alpha=0.5)",
        "label_noise": "pair",
        "noise_level": "constant(level=0.4)",
    },
    "CIFAR-10N, IID": {
        "dataset": "cifar10",
        "partition": "iid",
        "label_noise": 'human(key="random_label1")',
    },
    "CIFAR-10N, Dirichlet(0.5)": {
        "dataset": "cifar10",
        "partition": "dirichlet(alpha=0.5)",
        "label_noise": 'human(key="random_label1")',
    },
}
"""All at the `reduced` scale."""

METHODS = (
    *("fedavg", "coteaching", "fedcorr", "fedrn", "feddiv", "josrc", "fednoil", "rofl", "fedcni"),
    *("dividemix", "selfie", "jointopt", "deep_self_learning", "fedelc", "fedfixer", "fedgr"),
    *("fedrg", "fedsir", "coteaching_plus", "coteaching(forget_rate=0.3)"),
)
"""FedAvg, and the methods that select or relabel; the last has a guess that is too low for some
settings, and too high for the others.
"""

STAGES = {
    "coteaching_plus": "coteaching_plus(ramp_rounds=4, warm_up_rounds=5)",
    "feddiv": "feddiv(warm_up_rounds=5)",
    "fedfixer": "fedfixer(selection_round=5)",
}
"""Those that `reduced` does not have, with stages as at the `desk` scale."""

TOGETHER = ("fedrn + fedcorr", "fedrn + fedcorr + josrc")
"""Methods whose runs are audited together; none of them knows how many labels are wrong."""

SEEDS = (1, 2, 3)

FOLDS, EPOCHS = 5, 15

CLEANLAB = "cleanlab, pooled data"

VARIANTS = {
    "": ("self_confidence", False),
    ", normalized margin": ("normalized_margin", False),
    ", class frequencies of clients": ("self_confidence", True),
}
"""Of cleanlab: what is added to its name, its score (the first is its default), and whether the
probabilities are given the class frequencies of the sample's client, as an audit's are.
"""

RUN = ["setting", "method", "seed"]
"""The columns that say what was scored."""


def specs(data: Path, results: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The setting, the method and the spec of each run, in the order of their worth: all methods
    with the first seed come first.
    """
    config = load_config([ROOT / "config" / "reduced.yaml"])
    own = OwnFiles(data, results)
    make = RunSpecs(config.overlay, own, "reduced", "labels", {})
    for seed in SEEDS:
        for method in METHODS:
            for name, setting in SETTINGS.items():
                wanted, full = STAGES.get(method, method), {**COMMON, **setting}
                (spec,) = make.of(f"labels/{name}", full, wanted, [seed], name)
                yield name, method, spec


def score(suspicion: np.ndarray, wrong: np.ndarray, called: np.ndarray | None) -> dict[str, float]:
    """How well an order of samples, and a decision on each, finds the wrong labels.

    Args:
        suspicion: the larger, the more suspicious.
        wrong: whether the label is wrong.
        called: whether the method itself calls it wrong; None if it does not decide.

    Returns:
        ``average_precision``; ``at_k``, precision and, equally, recall of as many samples as there
        are wrong labels; and ``precision`` and ``recall`` of what the method itself decided.
    """
    first = np.argsort(-suspicion, kind="stable")[: wrong.sum()]
    found = {
        "average_precision": average_precision_score(wrong, suspicion),
        "at_k": wrong[first].mean(),
    }
    if called is not None:
        found["precision"] = wrong[called].mean() if called.any() else np.nan
        found["recall"] = called[wrong].mean()
    return {name: round(100 * float(value), 3) for name, value in found.items()}


def out_of_sample(spec: Mapping[str, Any], rows: np.ndarray, given: np.ndarray, part: Any) -> Any:
    """Probabilities [samples, classes] of networks that were trained on other samples, after the
    epoch with the smallest loss of the samples that are predicted.

    Args:
        spec: of a federated run, whose network, schedule and seed are taken.
        rows: of the samples in the training part.
        given: their labels.
        part: the training part.
    """
    facts, schedule = dataset(spec["noisy_partition"]["dataset"]), spec["schedule"]
    classes, device = len(facts.classes), choose_device("cpu")
    pixels = torch.from_numpy(part.images[rows]).permute(0, 3, 1, 2).contiguous()
    images = View(facts, "none", spec["normalization"], device).show("plain", pixels, NO_DRAWS)
    labels = torch.from_numpy(given)
    found = np.zeros((len(rows), classes), dtype=np.float32)
    generator = torch.Generator().manual_seed(spec["seed"])
    split = StratifiedKFold(FOLDS, shuffle=True, random_state=spec["seed"])
    for inside, outside in split.split(rows, given):
        network = build_model(spec["model"], facts.shape, classes, spec["seed"], 0)
        optimizer = torch.optim.SGD(
            network.parameters(),
            lr=schedule["learning_rate"],
            momentum=schedule["momentum"],
            weight_decay=schedule["weight_decay"],
        )
        least = np.inf
        for _ in range(EPOCHS):
            network.train()
            order = torch.from_numpy(inside)[torch.randperm(len(inside), generator=generator)]
            for batch in order.split(schedule["batch_size"]):
                if len(batch) < 2:
                    continue
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
                optimizer.step()
            network.eval()
            with torch.no_grad():
                logits = torch.cat([network(some) for some in images[outside].split(500)])
            loss = float(torch.nn.functional.cross_entropy(logits, labels[outside]))
            if loss < least:
                least, found[outside] = loss, logits.softmax(1).numpy()
    return found


def cleanlab_scores(
    spec: Mapping[str, Any], data: Path, results: Path
) -> dict[str, dict[str, float]]:
    """What cleanlab finds in a noisy partition whose data are pooled.

    Its probabilities are kept in ``results/benchmarks/labels``.
    """
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    partition = noisy_partition.read(Results(results).partition(identity(spec["noisy_partition"])))
    clients = partition.clients
    given = np.concatenate([client.given_label for client in clients])
    wrong = np.concatenate([client.true_label for client in clients]) != given
    rows = np.concatenate([client.samples for client in clients])
    owner = np.repeat(np.arange(len(clients)), [len(client.samples) for client in clients])
    of = {**spec, "method": None}
    kept = results / "benchmarks" / "labels" / f"{identity(of)}.npy"
    if not kept.exists():
        own = OwnFiles(data, results)
        part = read_part(prepared(spec["noisy_partition"]["dataset"], own, False)[0])
        with replacing(kept) as draft, draft.open("wb") as file:
            np.save(file, out_of_sample(spec, rows, given, part))
    found = np.load(kept)
    labels = [torch.from_numpy(client.given_label) for client in clients]
    classes = len(dataset(spec["noisy_partition"]["dataset"]).classes)
    skew = class_skew(labels, classes).numpy()[owner]
    scores = {}
    for more, (method, skewed) in VARIANTS.items():
        probability = found * skew if skewed else found
        probability = probability / probability.sum(1, keepdims=True)
        scores[CLEANLAB + more] = score(
            -get_label_quality_scores(given, probability, method=method),
            wrong,
            find_label_issues(given, probability, n_jobs=1),
        )
    return scores


def run_labels(spec: Mapping[str, Any], results: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """What a run kept of each label, and whether it is wrong."""
    layout, run = Results(results), identity(spec)
    labels = read_labels(run, layout.run(run))
    partition = noisy_partition.read(layout.partition(identity(spec["noisy_partition"])))
    true = np.concatenate([client.true_label for client in partition.clients])
    return labels, true != labels["given_label"].to_numpy()


def audit_scores(*runs: tuple[pd.DataFrame, np.ndarray]) -> dict[str, float]:
    """What an audit of runs of one noisy partition finds: by confidence, and if it is a single one,
    by what its method itself decided last.
    """
    suspicion = np.mean([1 - labels["given_probability"] for labels, _ in runs], axis=0)
    labels, wrong = runs[0]
    left_out = (labels["judged"] > 0) & (labels["last_selected"] == 0)
    relabelled = labels["learnt_label"] != labels["given_label"]
    decides = bool((labels["judged"] > 0).any() or relabelled.any()) and len(runs) == 1
    called = (left_out | relabelled).to_numpy() if decides else None
    return score(suspicion, wrong, called)


def main() -> None:
    """Write specs, train, or score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("specs", "train", "score"))
    parser.add_argument("folder", type=Path, help="where specs go, or labels.csv")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--only", default="", help="settings and methods whose names have this")
    arguments = parser.parse_args()
    data, results, folder = arguments.data, arguments.results, arguments.folder
    wanted = [
        (name, method, spec)
        for name, method, spec in specs(data, results)
        if arguments.only in f"{name}: {method}"
    ]
    if arguments.step == "specs":
        for number, (_, _, spec) in enumerate(wanted):
            write_json(folder / f"{number:03d}-{identity(spec)}.json", spec)
        print(f"{len(wanted)} specs in {folder}")
        return
    places = Places(results, data, False, "cpu", 1)
    if arguments.step == "train":
        for number, (_, _, spec) in enumerate(wanted, 1):
            job = places.job(spec, keep_labels=True)
            if not job.done:
                make_inputs(job, places.own)
                outcome = job.run()
                print(f"{number}/{len(wanted)} {describe_run(spec)}: {outcome.error}", flush=True)
                if outcome.interrupted:
                    return
        return
    scores = []
    done: set[str] = set()
    kept: dict[tuple[str, int], dict[str, tuple[pd.DataFrame, np.ndarray]]] = {}
    for name, method, spec in wanted:
        if not results.joinpath("runs", identity(spec), "labels.parquet").exists():
            continue
        partition = identity(spec["noisy_partition"])
        if partition not in done:
            done.add(partition)
            for other, found in cleanlab_scores(spec, data, results).items():
                scores.append({"setting": name, "method": other, "seed": spec["seed"], **found})
        kept.setdefault((name, spec["seed"]), {})[method] = run_labels(spec, results)
    for (name, seed), runs in kept.items():
        for names in (*METHODS, *TOGETHER):
            if runs.keys() >= set(names.split(" + ")):
                found = audit_scores(*(runs[method] for method in names.split(" + ")))
                scores.append({"setting": name, "method": names, "seed": seed, **found})
    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(scores)
    if (path := folder / "labels.csv").exists():
        frame = pd.concat([pd.read_csv(path), frame]).drop_duplicates(RUN, keep="last")
    others = [CLEANLAB + more for more in VARIANTS]
    ranks = {name: number for number, name in enumerate([*SETTINGS, *others, *METHODS, *TOGETHER])}
    frame = frame.sort_values(
        RUN, key=lambda column: column.map(lambda name: ranks.get(name, name))
    )
    frame.to_csv(path, index=False)
    print(table(frame))


def table(scores: pd.DataFrame) -> str:
    """Average precision and precision at k in each setting, in percent, mean over the seeds that
    all methods have in all settings: a Markdown table, the best mean average precision first. A
    dagger marks methods that the true share of wrong labels is told.

    Args:
        scores: the rows of ``labels.csv``.
    """
    of_cells = scores.groupby(["method", "setting"])["seed"].agg(set)
    cells = scores[scores["seed"].isin(set.intersection(*of_cells))].groupby(["method", "setting"])
    precision, at_k = (
        cells[name].mean().unstack()[[*SETTINGS]] for name in ("average_precision", "at_k")
    )
    lines = head(["", *SETTINGS])
    for method in precision.mean(axis=1).sort_values(ascending=False).index:
        pairs = zip(precision.loc[method], at_k.loc[method], strict=True)
        numbers = [f"{ap:.1f}, {at:.1f}" for ap, at in pairs]
        names = method.split(" + ")
        if names[0] in METHODS:
            told = any(one in methods() and methods()[one].needs_level for one in names)
            name = f"audit of `{'`, `'.join(names)}`{'†' if told else ''}"
        else:
            name = method
        lines.append(row([name, *numbers]))
    spread = cells["average_precision"].var().groupby("setting").mean() ** 0.5
    if spread.notna().all():
        numbers = [f"{spread[name]:.1f}" for name in SETTINGS]
        lines.append(row(["*standard deviation between seeds, AP*", *numbers]))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
