"""The commands of ``python -m noisyfl``, which do not need Snakemake."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import (
    DamagedArtifact,
    Results,
    RunFiles,
    read_json,
    read_table,
    write_json,
)
from noisyfl.core.options import BadInput
from noisyfl.core.places import IN_A_CLONE, ROOT
from noisyfl.core.provenance import is_checked, read_provenance
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import Roots
from noisyfl.experiments.config import DEFAULTS, load_config
from noisyfl.experiments.demand import cheapest_cells, plan_text, runs_by_claim
from noisyfl.experiments.editor_schemas import write_schemas
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.progress import progress_text
from noisyfl.experiments.targets import runs_by_target, runs_of
from noisyfl.methods import METHODS
from noisyfl.models import MODELS
from noisyfl.runs.archive import archive
from noisyfl.runs.artifact import read_spec, verify
from noisyfl.runs.edited import edited_runs, is_edited
from noisyfl.runs.edited import lines as edited_lines
from noisyfl.runs.evaluate import evaluate_model
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.catalogue import method_source, methods
from noisyfl.specs.new_method import write_new_method, write_package
from noisyfl.specs.sources import source_digest
from noisyfl.specs.spec import check_run, describe_run, identity
from noisyfl.specs.speeds import measured_speed

REPRODUCED = Results(ROOT / "reproduced")


def train_specs(
    specs: list[Path],
    results: Path,
    data: Sequence[Path],
    download: bool,
    device: str,
    executor: str,
    keep_models: bool = False,
    trackers: Sequence[str] = (),
    plugins: Sequence[str] = (),
) -> None:
    """Train each spec that is not trained yet, on data and partitions made where missing."""
    for path in specs:
        alone = ["train", str(path), "--results", str(results), "--device", device]
        alone += [word for root in data for word in ("--data", str(root))]
        alone += ["--executor", executor, *(["--download"] if download else [])]
        alone += [*(["--keep-models"] if keep_models else [])]
        alone += [*(["--trackers", *trackers] if trackers else [])]
        alone += [word for plugin in plugins for word in ("--plugin", plugin)]
        spec = _read_spec(path)
        job = TrainingJob(
            spec=spec,
            results=str(results),
            log=str(Results(results).log(identity(spec))),
            data=[str(root) for root in data],
            download=download,
            device=device,
            executor=executor,
            checkpoint_seconds=DEFAULTS["checkpoint_seconds"],
            alone=shlex.join(["python", "-m", "noisyfl", *alone]),
            keep_models=keep_models,
            trackers=tuple(trackers),
        )
        train_job(job, data)


def train_job(job: TrainingJob, data: Sequence[Path]) -> None:
    """Train one run unless it is trained already; make its data and partition if they are missing.

    Args:
        job: the run's training job.
        data: the folders of official data files.
    """
    identifier, run = identity(job.spec), job.run_files
    if run.whole():
        verify(identifier, run)
        print(f"{identifier} is trained already: {run.folder}")
        return
    make_inputs(job, OwnFiles(data, Path(job.results)))
    outcome = job.run(echo=True)
    if outcome.interrupted:
        sys.exit(f"{outcome.error}; run the same command to go on")
    if outcome.error is not None:
        sys.exit(job.failure(outcome.error))


def make_inputs(job: TrainingJob, own: OwnFiles) -> None:
    """Make the data and the partition that a run is trained on, if they are missing.

    Args:
        job: the run's training job.
        own: the data folders, and the results folder of the job.
    """
    if own.results.stored(identity(job.spec)).whole():
        return
    partition = job.spec["noisy_partition"]
    train, _ = prepared(partition["dataset"], own, job.download)
    path = own.results.partition(identity(partition))
    if not path.exists():
        part = read_part(train)
        noisy_partition.write(path, partition, part.labels, own, part.images)


def partition_file(partition: str, results: Path) -> Path:
    """The file of a noisy partition, in results or tracked; :class:`BadInput` if there is none."""
    places = [layout.partition(partition) for layout in (Results(results), REPRODUCED)]
    for path in places:
        if path.is_file():
            return path
    raise BadInput(f"{partition}: there is no noisy partition {' or '.join(map(str, places))}")


def export_partition(
    partition: str, to: Path, results: Path, data: Sequence[Path], download: bool
) -> None:
    """Write a noisy partition with its images as datasets.load_dataset reads them: Parquet, a data
    card and Croissant metadata.
    """
    from noisyfl.data.export import export

    found = noisy_partition.read(partition_file(partition, results))
    train, test = prepared(found.spec["dataset"], OwnFiles(data, results), download)
    for written in export(partition, found, read_part(train), read_part(test), to):
        print(written)


def evaluate_runs(runs: list[str], results: Path, data: Roots, download: bool, device: str) -> None:
    """Test the models that runs have kept, and print what they reached beside what is recorded."""
    for run in runs:
        files = Results(results).run(run)
        if not files.whole():
            raise BadInput(f"{files.folder}: expected a run's artifact, and there is none")
        if not files.model.exists():
            raise BadInput(
                f"{files.model}: there is none; models are kept of runs that are trained with "
                "--keep-models, or keep_models: true in a scale"
            )
        spec = read_json(files.spec)
        own = OwnFiles(data, results)
        _, test = prepared(spec["noisy_partition"]["dataset"], own, download)
        found = evaluate_model(files, read_part(test), device)
        recorded = last_evaluation(files)
        print(f"{run}  {describe_run(spec)}")
        for name, value in recorded.items():
            print(f"  {name}: {found[name]!r}, as recorded: {value!r}")


def last_evaluation(files: RunFiles) -> dict[str, float]:
    """The test results that a run recorded in its last round."""
    table = read_table(files.rounds)[0]
    names = [name for name in table.column_names if name.startswith("test_")]
    last = {name: table[name][-1].as_py() for name in names}
    return {name: value for name, value in last.items() if value is not None}


def preview_data(datasets: list[str], results: Path, data: Roots, download: bool) -> None:
    """Draw what datasets look like and what augmentation does to an image, beside their parts."""
    try:  # here, since matplotlib takes a second to import, and is not part of a bare installation
        from noisyfl.figures.data_sheets import draw_data_sheets
    except ModuleNotFoundError as error:
        raise BadInput(
            f"preview-data: Python cannot import {error.name}, expected noisyfl[snakemake]"
        ) from error

    for path in draw_data_sheets(datasets, results, data, download):
        print(path)


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: not a spec ({error})") from error
    check_run(spec, str(path))
    return spec


def write_specs(target: str, folder: Path, config: Path, plugins: Sequence[str] = ()) -> None:
    """Write the canonical spec of every run that a target needs as <id>.json."""
    plan = read_plan(config, plugins=plugins)
    runs = runs_of(plan, target)
    for run in runs:
        write_json(folder / f"{run}.json", plan.runs[run])
    print(f"{len(runs)} specs in {folder}")


def list_runs(results: Path) -> None:
    """List the runs of a results folder: how each ended, and what has changed since.

    A run that cannot be read is named at the end, and the exit status says that there is one.
    """
    damaged = []
    for path in sorted((results / "runs").glob("*/provenance.json")):
        run = path.parent.name
        try:
            provenance, spec = read_provenance(path, run), read_spec(run, Results(results).run(run))
            made = f"{provenance['status']:8}  {_made_by(spec, provenance)}"
            print(f"{run}  {made}  {describe_run(spec)}")
        except (DamagedArtifact, FileNotFoundError) as error:
            damaged.append(f"cannot be read: {error}")
    if damaged:
        sys.exit("\n".join(damaged))


def _made_by(spec: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    """Whether a run was made by the code at hand, in words."""
    method = method_source(spec["method"])
    if is_edited(method.digest if method else None, provenance):
        return "method edited since"
    same = provenance["source_digest"] == source_digest()
    source = "this source" if same else f"other source {provenance['source_digest'][:12]}"
    return source if is_checked(provenance) else f"{source}, unchecked"


def list_methods() -> None:
    """List every method: sides, reference, what it keeps and costs, variants, options, defaults."""
    for name, declaration in methods().items():
        sides = ["server"] * declaration.is_server + ["client"] * declaration.is_client
        print(f"{name} ({' and '.join(sides)} side, revision {declaration.revision})")
        print(f"  {declaration.reference}")
        models, effort = declaration.cost.models_kept, declaration.cost.effort
        kept = f", {models} kept for each client" if models else ""
        networks = "1 network" if declaration.networks == 1 else f"{declaration.networks} networks"
        print(f"  {networks}{kept}; about {effort:g} times FedAvg's seconds for each")
        if declaration.partner:
            print(f"  {name}+... takes a {declaration.partner} side behind it")
        if declaration.variants:
            print(f"  variants: {', '.join(declaration.variants)}")
        shares = declaration.extras("share_of")
        for option, field in declaration.model_fields.items():
            default = "required" if field.is_required() else f"default {field.default!r}"
            if option in shares:
                measure, whole = shares[option]
                default += f" of {whole:g} {measure.replace('_', ' ')}, in proportion"
            print(f"    {option}: {field.description} ({default})")


def write_editor_schemas() -> None:
    """Write the JSON schemas of scales and experiments, with which editors complete and check."""
    for path in write_schemas():
        print(os.path.relpath(path))


def print_where() -> None:
    """Print the folder with the Snakefile, config/, profiles/ and slurm/.

    Outside a clone tables are made by: snakemake --snakefile "$(noisyfl where)/Snakefile"
    """
    print(ROOT)


def new_method(name: str, outside: Path | None = None) -> None:
    """Write a method's file that trains as FedAvg, with the hooks named that methods mostly use.

    With --outside write a package of its own: the method, how to install it, and a test that trains
    it on digits in seconds.
    """
    if outside is None:
        if not IN_A_CLONE:
            raise BadInput(f"new-method: {ROOT} is an installed copy; give --outside FOLDER")
        print(write_new_method(name))
        return
    for path in write_package(name, outside):
        print(path)


def check_method(method: str) -> None:
    """Check what has to hold for every method: what it declares, that it trains, that it ends the
    same when it is interrupted, and that the fast executor computes what the plain loop does.

    Needs no data. Give options with which all that the method does happens within eight rounds.
    """
    from noisyfl.checks.method import check

    if not check(method):
        sys.exit(1)


def run_selftest(
    device: str,
    results: Path,
    methods: list[str] | None = None,
    models: list[str] | None = None,
    minutes: float = math.inf,
) -> None:
    """Check that the fast path computes what it should on a device, and measure what suits it.

    Needs no data. What is found out about a GPU goes to gpu.json in the results folder, by which
    runs choose their stream slots and layout, and plans their estimates.
    """
    from noisyfl.runs.selftest import selftest  # scikit-learn takes two seconds to import

    for name in methods or ():
        METHODS.get(name, "--methods")
    for name in models or ():
        MODELS.get(name, "--models")
    facts = Results(results).gpu_facts
    if not selftest(device, facts, names=methods, models=models, minutes=minutes):
        sys.exit(1)


def read_plan(config: Path, results: Path | None = None, plugins: Sequence[str] = ()) -> Plan:
    """The plan of a scale, the same that Snakemake reads; say what is left out of it.

    Args:
        config: the scale's file.
        results: the folder of all artifacts; None: as the scale's file says.
        plugins: files of plugins, beside those of the scale.
    """

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    given = load_config(config)
    given["results"] = str(results or given["results"])
    given["plugins"] = [*dict.fromkeys([*given["plugins"], *plugins])]
    plan = PlanFile(given, str(config)).plan(say)
    for why in plan.left_out.values():
        say(f"left out: {why}")
    return plan


def print_plan(
    config: Path,
    results: Path,
    device: str,
    target: str | None = None,
    claims: bool = False,
    cheapest: float | None = None,
    gpu: Path | None = None,
    plugins: Sequence[str] = (),
) -> None:
    """Print what each table needs: runs, those shared, those done, and what the others cost.

    With --claims print what each claim of the papers needs to be judged by our numbers.

    With --gpu tell the hours of a device whose factors were measured.

    With --cheapest print files to ask Snakemake for instead: the missing cells with a published
    number that cost least, as many as the device should train in so many hours.
    """
    plan, layout = read_plan(config, results, plugins), Results(results)
    done = done_in(layout, REPRODUCED)
    if cheapest is None:
        speeds = None if gpu is None else dict([measured_speed(gpu)])
        out_of_reach: list[str] = []
        if claims:
            parts, out_of_reach = runs_by_claim(plan, target)
        else:
            parts = runs_by_target(plan, target)
        print(plan_text(plan, parts, done, device, speeds, out_of_reach))
        edited = edited_runs(plan.runs, plan.methods, layout)
        for line in edited_lines(edited, plan.runs, plan.methods, layout):
            print(f"\n{line}")
        return
    for cell in cheapest_cells(plan, done, device, cheapest):
        for run in cell:
            print(layout.run(run).provenance)


def print_progress(
    config: Path,
    target: str | None,
    results: Path,
    device: str,
    follow: float | None,
    plugins: Sequence[str] = (),
) -> None:
    """Print how far each table is while runs are trained, and when all should be done."""
    plan = read_plan(config, results, plugins)
    wanted = runs_of(plan, target)
    # A figure of noisy partitions has no runs, but may be the target.
    counted = runs_by_target(plan, target) or {target or plan.scale: wanted}
    layouts = [Results(results), REPRODUCED]
    print(progress_text(plan, layouts, device, counted))
    done = done_in(*layouts)
    while follow is not None and not all(map(done, wanted)):
        time.sleep(follow)
        # A terminal is cleared, so that the same lines change; a file gets one text after another.
        print("\033[2J\033[H" if sys.stdout.isatty() else "")
        print(progress_text(plan, layouts, device, counted), flush=True)


def done_in(*layouts: Results) -> Callable[[str], bool]:
    """Return a function that says whether a run is whole in one of several results folders."""
    return lambda run: any(layout.run(run).provenance.exists() for layout in layouts)


def archive_runs(
    config: Path, results: Path, commit: str | None, plugins: Sequence[str] = ()
) -> None:
    """Move the finished runs of a scale to reproduced/, with the commit that made them.

    A run that is made by other sources than these is refused unless its commit is given.
    """
    if not IN_A_CLONE:
        raise BadInput(f"archive: {REPRODUCED.root} is an installed copy, expected a clone")
    plan = read_plan(config, results, plugins)
    moved = 0
    for run, spec in plan.runs.items():
        if archive(run, Results(results), REPRODUCED, commit):
            print(f"{REPRODUCED.run(run).folder}  {describe_run(spec)}")
            moved += 1
    print(f"{moved} runs moved to {REPRODUCED.root}")
