"""A small experiment file and a small scale, and what they expand to."""

import copy

import yaml

from checked_plan import checked_plan
from noisyfl.experiments.config import check_config

CONFIG = {"scale": "tiny", "experiments": ["paper"]}
PAPER = {
    "title": "A paper",
    "settings": {
        "base": {
            "dataset": "cifar10",
            "clients": 10,
            "partition": "iid",
            "label_noise": "symmetric",
            "noise_level": "none",
            "model": "resnet18",
            "augmentation": "crop_flip",
            "normalization": "imagenet",
            "schedule": {
                "rounds": 100,
                "participation": 0.2,
                "local_epochs": 5,
                "batch_size": 10,
                "learning_rate": 0.1,
            },
        }
    },
    "tables": {
        "one": {
            "title": "Table 1",
            "setting": "base",
            "trials": 2,
            "statistic": "best",
            "columns": [
                {"name": "clean"},
                {"name": "noisy", "with": {"noise_level": "constant(level=0.4)"}},
            ],
            "rows": [
                {"name": "FedAvg", "method": "fedavg"},
                {"name": "FedProx", "method": "fedprox(mu=0.1)"},
            ],
        }
    },
}
DIGITS = {"dataset": "digits", "model": "cnn", "augmentation": "none", "normalization": "dataset"}


def plan(tmp_path, paper=PAPER, config=CONFIG):
    (tmp_path / "paper.yaml").write_text(yaml.safe_dump(paper))
    return checked_plan(check_config(config, "my.yaml"), "my.yaml", tmp_path)


def edited(content, path, value):
    """A copy of ``content`` with one value changed; None deletes the key."""
    content = copy.deepcopy(content)
    place = content
    for part in path[:-1]:
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return content
