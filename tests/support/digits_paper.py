"""An experiment file with two small tables and two figures of runs on digits."""

SETTING = {
    "dataset": "digits",
    "clients": 4,
    "partition": "iid",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.4)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 2,
        "participation": 0.75,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.05,
    },
}
ROWS = [{"name": "FedAvg", "method": "fedavg"}, {"name": "Krum", "method": "krum"}]
LONG = {"schedule": {"rounds": 50}}
PAPER = {
    "title": "A paper",
    "settings": {"base": SETTING},
    "tables": {
        "one": {
            "title": "Table 1",
            "setting": "base",
            "trials": 2,
            "statistic": "best",
            "published": {"paper": "fedcorr", "table": "table5", "setting_scope": "federated"},
            "columns": [{"name": "long", "with": LONG}, {"name": "short"}],
            "rows": ROWS,
        },
        "two": {
            "title": "Table 2",
            "setting": "base",
            "trials": 1,
            "statistic": "best",
            "columns": [{"name": "short"}, {"name": "m", "mean_of": ["short"]}],
            "rows": ROWS[:1],
        },
    },
    "figures": {
        "curves": {"kind": "by_round", "title": "t", "caption": "c", "table": "one"},
        "own": {
            "kind": "similarity",
            "title": "t",
            "caption": "c",
            "setting": "base",
            "panels": [{"name": "a", "method": "fedavg"}],
        },
    },
}
