"""The commands of the command line and their options."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import noisyfl
from noisyfl.commands.arguments import (
    Command,
    IntoSetting,
    WithDefaults,
    number_or_text,
    one_or_more,
)
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import EXECUTORS, TRACKERS

CONFIG = ROOT / "config" / "config.yaml"
"""The scale that commands and Snakemake use if none is named."""


WHOLE, REAL, TEXT = one_or_more(int), one_or_more(float), one_or_more(str)
"""Types of options; several values are a sweep."""

SETTING: tuple[tuple[str, str, Any, str, str], ...] = (
    (
        *("--data", "dataset", TEXT, "DATASET"),
        "digits, cifar10, 'images(path=\"mine\", test_share=0.1)', "
        "'vectors(path=\"mine.csv\", test_share=0.1)', ...",
    ),
    ("--clients", "clients", WHOLE, "N", "number of clients"),
    ("--partition", "partition", TEXT, "PARTITION", "iid, 'dirichlet(alpha=0.5)', ..."),
    ("--noise", "label_noise", TEXT, "NOISE", "symmetric, pair, human, none, ..."),
    ("--level", "noise_level", one_or_more(number_or_text), "LEVEL", "share of wrong labels; "
     "'[0.2, 0.4]' is a sweep; or a level such as 'bernoulli_uniform(rho=0.6, tau=0.5)'"),
    ("--model", "model", TEXT, "MODEL", "cnn, resnet18, ..."),
    ("--augmentation", "augmentation", TEXT, "NAME", "none, crop_flip, ..."),
    ("--normalization", "normalization", TEXT, "NAME", "dataset, imagenet, ..."),
    ("--rounds", "rounds", WHOLE, "N", "number of rounds"),
    ("--participation", "participation", REAL, "SHARE", "share of the clients in each round"),
    ("--local-epochs", "local_epochs", WHOLE, "N", "local epochs per round"),
    ("--batch-size", "batch_size", WHOLE, "N", "samples per local step"),
    ("--optimizer", "optimizer", TEXT, "NAME", "sgd, adam or adamw"),
    ("--learning-rate", "learning_rate", REAL, "RATE", "learning rate; '[0.01, 0.1]' is a sweep"),
    ("--momentum", "momentum", REAL, "SHARE", "momentum of SGD"),
    ("--weight-decay", "weight_decay", REAL, "SHARE", "weight decay"),
    ("--decay", "decay", TEXT, "NAME", "how the learning rate falls: steps or cosine"),
    ("--decay-every", "decay_every", WHOLE, "N", "rounds after which it is multiplied by "
     "--decay-factor"),
    ("--decay-factor", "decay_factor", REAL, "FACTOR", "factor of --decay-every (0.1 if none is "
     "given)"),
    ("--clip-norm", "clip_norm", REAL, "NORM", "maximum norm of the gradient of a step"),
    ("--evaluate-every", "evaluate_every", WHOLE, "N", "rounds between two evaluations"),
)  # fmt: skip
"""The flags of a run's setting: each with the key, type, metavar and help."""

FLAGS = {
    **{key: flag for flag, key, *_ in SETTING},
    **{"methods": "METHOD", "like": "--like", "seeds": "--seeds"},
}
"""The command line's names for the keys of a setting."""


def _add_setting(command: argparse.ArgumentParser, seeds: str) -> None:
    """Add the options of a run's setting to a command; ``seeds`` describes the default."""
    command.set_defaults(setting={})
    for flag, key, kind, metavar, words in SETTING:
        command.add_argument(
            flag,
            dest="setting",
            action=IntoSetting,
            const=key,
            type=kind,
            metavar=metavar,
            default=argparse.SUPPRESS,
            help=words,
        )
    command.add_argument(
        "--like",
        metavar="EXPERIMENT/TABLE:COLUMN",
        help="take the setting of a table's column, such as 'fedcorr/table2:ρ=0.6 τ=0.5'",
    )
    command.add_argument("--scale", help="scale of that table (default: quick)")
    command.add_argument(
        "--seeds", type=int, metavar="N", help=f"train with the seeds 1 to N (default: {seeds})"
    )
    command.add_argument(
        "--jobs",
        dest="at_once",
        type=int,
        metavar="N",
        help="runs at a time (default: one per core, or as many as share the GPUs)",
    )


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m noisyfl",
        description="Commands that work without Snakemake. COMMAND --help shows an example.",
    )
    parser.add_argument("--version", action="version", version=f"noisyfl {noisyfl.__version__}")
    adding = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Command)

    def add(name: str, command: str, summary: str, example: str) -> argparse.ArgumentParser:
        added = adding.add_parser(
            name,
            help=summary,
            epilog=f"example: python -m noisyfl {example}",
            formatter_class=WithDefaults,
            allow_abbrev=False,  # --seed is not --seeds
        )
        added.set_defaults(command=command)
        return added

    paper = "--config config/paper.yaml"
    plan = add(
        "plan",
        "scales.print_plan",
        "show what each table of a scale needs and costs",
        f"plan {paper}",
    )
    plan.add_argument(
        "--cheapest",
        type=float,
        metavar="HOURS",
        help="instead, print files to request from Snakemake: the cheapest missing cells, as many "
        "as the device trains in HOURS",
    )
    plan.add_argument(
        "--claims", action="store_true", help="show what each claim needs, instead of each table"
    )
    progress = add(
        "progress",
        "scales.print_progress",
        "show the progress of each table, what failed, and the time left",
        f"progress --target fedcorr_table2 {paper}",
    )
    progress.add_argument(
        "--follow",
        type=float,
        nargs="?",
        const=10.0,
        metavar="SECONDS",
        help="print it again every SECONDS (10) until all is done",
    )
    for command in (plan, progress):
        command.add_argument(
            "--target",
            help="fedcorr_table2, fedcorr, ..., or all (default: what Snakemake builds if no "
            "target is given)",
        )

    specs = add(
        "specs",
        "scales.write_specs",
        "write the specs of the runs that a target needs",
        f"specs fedcorr_table2 specs/ {paper}",
    )
    specs.add_argument("target", metavar="TARGET", help="fedcorr_table2, fedcorr, all, ...")
    specs.add_argument("folder", type=Path, metavar="FOLDER", help="where to write <id>.json files")
    train = add(
        "train",
        "runs.train_specs",
        "train runs in this process, without Snakemake",
        "train specs/*.json --device cuda",
    )
    train.add_argument(
        "specs",
        nargs="+",
        type=Path,
        metavar="SPEC.json",
        help="a file that the command specs has written",
    )
    train.add_argument(
        "--executor", default="fast", choices=EXECUTORS, help="loop is the slower reference"
    )
    train.add_argument(
        "--prepare", action="store_true", help="only prepare missing data and partitions"
    )
    train.add_argument("--keep-models", action="store_true", help="also save the final models")
    train.add_argument(
        "--keep-labels",
        action="store_true",
        help="also save what the runs find about each sample's label, for audit",
    )
    train.add_argument(
        "--trackers",
        nargs="+",
        default=[],
        choices=TRACKERS,
        metavar="TRACKER",
        help=f"also send each round's metrics to: {', '.join(TRACKERS)}",
    )
    compare = add(
        "compare",
        "compare.print_comparison",
        "train methods and print a table",
        "compare fedavg fedcorr 'fedprox(mu=[0.01, 0.1])' --data digits --level 0.4",
    )
    compare.add_argument(
        "methods",
        nargs="*",
        metavar="METHOD",
        help="fedavg, 'fedprox(mu=[0.01, 0.1])', ... (default: FedAvg and the papers' methods)",
    )
    _add_setting(compare, "3, or as many as the table of --like has")
    compare.add_argument(
        "--choose-on",
        metavar="validation",
        help="choose the best of an option's values on the dataset's validation part, and report "
        "it on the test part",
    )
    compare.add_argument(
        "--keep-models",
        action="store_true",
        help="also save the final models; existing runs without one are trained once more",
    )
    compare.add_argument("--csv", type=Path, metavar="FILE", help="write one row per run")
    compare.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    compare.add_argument(
        "--figure",
        type=Path,
        metavar="FILE.png",
        help="draw accuracy by round, or against a number of which several are given (.png, .pdf)",
    )
    compare.add_argument(
        "--save",
        type=Path,
        metavar="FILE.yaml",
        help="write a scale and an experiment with which Snakemake builds the same table",
    )
    compare.add_argument(
        "--dry-run", action="store_true", help="list the runs, write --save's files, train nothing"
    )
    evaluate = add(
        "evaluate",
        "runs.evaluate_runs",
        "test the saved models of runs",
        "evaluate 0123456789abcdef --data ~/data",
    )
    evaluate.add_argument("runs", nargs="+", metavar="RUN", help="the id of a run")

    audit = add(
        "audit",
        "audit.audit_labels",
        "find labels that are probably wrong",
        "audit --data digits --method fedrn --to audit/",
    )
    audit.add_argument("runs", nargs="*", metavar="RUN", help="the id of a run")
    _add_setting(audit, "1")
    audit.add_argument(
        "--method",
        dest="methods",
        action="append",
        default=[],
        metavar="METHOD",
        help="train this method; may be repeated (default: fedrn and fedcorr)",
    )
    audit.add_argument(
        "--to",
        type=Path,
        default=Path("audit"),
        metavar="FOLDER",
        help="where to write tables and pages",
    )
    listing = add("runs", "runs.list_runs", "list the finished runs", "runs")
    archive = add(
        "archive",
        "scales.archive_runs",
        "move finished runs of a scale to reproduced/",
        f"archive {paper}",
    )
    archive.add_argument(
        "--commit", help="the commit that trained the runs, if it is not the present one"
    )
    listed = add(
        "methods", "methods.list_methods", "list the methods with their options", "methods | less"
    )
    schema = add(
        "schema",
        "methods.write_editor_schemas",
        "write the schemas with which editors check configurations",
        "schema",
    )
    new = add(
        "new-method",
        "methods.new_method",
        "write a template for a new method",
        "new-method fedexample --outside ~/fedexample",
    )
    new.add_argument("name", metavar="NAME", help="small letters, digits and underscores")
    new.add_argument(
        "--outside",
        type=Path,
        metavar="FOLDER",
        help="write a package with the method and a test there, instead of a file here",
    )
    check = add(
        "check-method",
        "methods.check_method",
        "check that a method trains and resumes correctly",
        "check-method fedexample --plugin my_method.py",
    )
    check.add_argument(
        "method", metavar="METHOD", help="fedexample, 'fedexample(strength=0.5)', ..."
    )
    selftest = add(
        "selftest",
        "methods.run_selftest",
        "check the results of a device, and measure its speed",
        "selftest --device cuda",
    )
    selftest.add_argument(
        "--methods", nargs="+", metavar="METHOD", help="methods to compare (default: all)"
    )
    selftest.add_argument(
        "--models", nargs="+", metavar="MODEL", help="models to capture (default: all)"
    )
    selftest.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="time limit of the checks (default: none)",
    )
    add(
        "where",
        "where.print_where",
        "print the folder with the Snakefile, config/ and the profiles",
        "where",
    )
    preview = add(
        "preview-data",
        "data.preview_data",
        "draw images of datasets and of their augmentation",
        "preview-data digits cifar10 --data ~/data",
    )
    preview.add_argument("datasets", nargs="+", metavar="DATASET", help="digits, cifar10, ...")

    export = add(
        "export",
        "data.export_partition",
        "export a noisy partition for datasets.load_dataset",
        "export 0123456789abcdef --to federation/",
    )
    export.add_argument("partition", metavar="PARTITION", help="the id of a noisy partition")
    export.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="a new folder")

    loading = (plan, progress, specs, archive, train, compare, audit, evaluate, selftest)
    for command in (*loading, listing, listed, check, schema, preview, export):
        command.add_argument(
            "--plugin",
            dest="plugins",
            action="append",
            default=[],
            metavar="FILE.py",
            help="a file with your own methods, models, ...; may be repeated",
        )
    for command in (plan, progress, specs, archive):
        command.add_argument(
            "--config",
            type=Path,
            nargs="+",
            default=[CONFIG],
            metavar="FILE",
            help="the scale's file; of several, later ones override earlier ones, as with "
            f"Snakemake's --configfile (default: {CONFIG})",
        )
    of_a_scale = (plan, progress, archive)
    for command in (train, compare, audit, plan, progress, evaluate, selftest):
        default = "as the scale's file says" if command in of_a_scale else "auto"
        command.add_argument("--device", help=f"auto, cpu, cuda, cuda:1, ... (default: {default})")
    for command in (train, compare, audit, evaluate, *of_a_scale, listing, preview, export):
        default = "as the scale's file says" if command in of_a_scale else "results"
        command.add_argument(
            "--results", type=Path, help=f"the folder of all artifacts (default: {default})"
        )
    for command in (train, compare, audit, evaluate, preview, export):
        command.add_argument(
            "--data-folder" if command in (compare, audit) else "--data",
            dest="data",
            type=Path,
            action="append",
            metavar="FOLDER",
            help="folder of official data files; may be repeated, your own last (default: data)",
        )
        command.add_argument("--download", action="store_true", help="download missing data files")
    return parser
