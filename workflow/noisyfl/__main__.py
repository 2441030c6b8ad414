"""The command line: ``python -m noisyfl``, for what Snakemake is not needed for."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from noisyfl.artifacts import DamagedArtifact, Results, write_json
from noisyfl.catalogue import methods, source_digest
from noisyfl.experiments import ROOT, Plan, load_config, make_plan
from noisyfl.options import BadInput, did_you_mean
from noisyfl.spec import check_run, describe_run, identity


def main() -> None:
    """Run a command; a mistake of the user's ends with one line, not a traceback."""
    parser = argparse.ArgumentParser(prog="python -m noisyfl", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train runs in this process, without Snakemake",
        description=train_specs.__doc__,
    )
    train.add_argument("specs", nargs="+", type=Path, metavar="SPEC.json")
    train.add_argument("--results", type=Path, default=Path("results"))
    train.add_argument("--data", type=Path, default=Path("data"), help="official data files")
    train.add_argument("--download", action="store_true", help="fetch missing data files")
    train.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ...")
    train.add_argument(
        "--executor", default="fast", choices=("fast", "loop"), help="loop is the plain reference"
    )
    train.set_defaults(command=train_specs)

    specs = commands.add_parser(
        "specs", help="write the specs that a target is made of", description=write_specs.__doc__
    )
    specs.add_argument("target", help="fedcorr_table2, fedcorr, all, ...")
    specs.add_argument("folder", type=Path, help="where <id>.json files go")
    specs.add_argument("--config", type=Path, default=ROOT / "config" / "config.yaml")
    specs.set_defaults(command=write_specs)

    listing = commands.add_parser(
        "runs", help="list the runs that are there", description=list_runs.__doc__
    )
    listing.add_argument("--results", type=Path, default=Path("results"))
    listing.set_defaults(command=list_runs)

    known = commands.add_parser(
        "methods", help="list the methods with their options", description=list_methods.__doc__
    )
    known.set_defaults(command=list_methods)

    arguments = vars(parser.parse_args())
    command = arguments.pop("command")
    try:
        command(**arguments)
    except (BadInput, DamagedArtifact) as error:
        sys.exit(f"error: {error}")


def train_specs(
    specs: list[Path], results: Path, data: Path, download: bool, device: str, executor: str
) -> None:
    """Train each spec that is not trained yet, on data and partitions made where missing."""
    from noisyfl.data import noisy_partition
    from noisyfl.data.datasets import prepare, read_part
    from noisyfl.simulation.checkpoint import Interrupted
    from noisyfl.train import train_run

    layout = Results(results)
    for spec in [_read_spec(path) for path in specs]:
        run = layout.run(identity(spec))
        if run.provenance.exists():
            print(f"{identity(spec)} is trained already: {run.folder}")
            continue
        partition = spec["noisy_partition"]
        train = layout.data(partition["dataset"], "train")
        test = layout.data(partition["dataset"], "test")
        if not (train.exists() and test.exists()):
            prepare(partition["dataset"], data, download, train, test)
        partition_path = layout.partition(identity(partition))
        if not partition_path.exists():
            noisy_partition.write(partition_path, partition, read_part(train).labels, data)
        try:
            train_run(
                spec,
                train,
                test,
                partition_path,
                run,
                checkpoint_path=layout.checkpoint(identity(spec)),
                device=device,
                executor=executor,
            )
        except Interrupted as interrupted:
            sys.exit(f"{interrupted}; run the same command to go on")


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: not a spec ({error})") from error
    check_run(spec, str(path))
    return spec


def write_specs(target: str, folder: Path, config: Path) -> None:
    """Write the canonical spec of every run that a target needs as <id>.json."""
    plan = make_plan(load_config(config), ROOT / "config" / "papers", str(config))
    runs = runs_of(plan, target)
    for run in runs:
        write_json(folder / f"{run}.json", plan.runs[run])
    print(f"{len(runs)} specs in {folder}")


def runs_of(plan: Plan, target: str) -> list[str]:
    """The ids of the runs behind a target: one table or figure, an experiment, or ``all``."""
    targets: dict[str, list[str]] = {"all": list(plan.runs)}
    for table in plan.tables.values():
        targets[f"{table.experiment}_{table.name}"] = table.run_ids()
        targets.setdefault(table.experiment, []).extend(table.run_ids())
    for figure in plan.figures.values():
        targets[f"{figure.experiment}_{figure.name}"] = list(figure.runs)
        targets.setdefault(figure.experiment, []).extend(figure.runs)
    if target not in targets:
        hint = did_you_mean(target, targets)
        raise BadInput(f"no target is called {target!r}{hint} (known: {', '.join(targets)})")
    return list(dict.fromkeys(targets[target]))


def list_runs(results: Path) -> None:
    """List the runs of a results folder: how each ended, and whether today's source made it."""
    for path in sorted((results / "runs").glob("*/provenance.json")):
        provenance = json.loads(path.read_text())
        spec = json.loads((path.parent / "spec.json").read_text())
        same = provenance["source_digest"] == source_digest()
        source = "this source" if same else f"other source {provenance['source_digest'][:12]}"
        print(f"{path.parent.name}  {provenance['status']:8}  {source}  {describe_run(spec)}")


def list_methods() -> None:
    """List every method: sides, reference, what it keeps and costs, variants, options, defaults."""
    for name, declaration in methods().items():
        facts = declaration.facts
        sides = [kind for kind in ("server", "client") if facts[f"is_{kind}"]]
        print(f"{name} ({' and '.join(sides)} side, revision {facts['revision']})")
        print(f"  {facts['reference']}")
        kept = f", {facts['models_kept']} kept for each client" if facts["models_kept"] else ""
        networks = "1 network" if facts["networks"] == 1 else f"{facts['networks']} networks"
        print(f"  {networks}{kept}; about {facts['effort']:g} times FedAvg's seconds for each")
        if facts["partner"]:
            print(f"  {name}+... takes a {facts['partner']} side behind it")
        if declaration.variants:
            print(f"  variants: {', '.join(declaration.variants)}")
        for option in declaration.options:
            default = "required" if option.required else f"default {option.default!r}"
            print(f"    {option.name}: {option.doc} ({default})")


if __name__ == "__main__":
    main()
