# What the rules ask for by wildcards: specs, inputs, params and resources.
def partition_spec(wildcards):
    """The spec of a noisy partition."""
    return PLAN.partitions[wildcards.partition]


def partition_dataset(wildcards):
    """The training part that a noisy partition is made from.

    Nothing if the part is lost and the partition is there: otherwise Snakemake would make both
    again, although the part is marked as ancient.
    """
    file = RESULTS.data(partition_spec(wildcards)["dataset"], "train")
    made = RESULTS.partition(wildcards.partition)
    return [] if made.exists() and not file.exists() else file


def forced_runs():
    """The runs that are trained in any case, as `--forcerun train`, `--force FILE` and such ask for:
    their ids, or `all`.
    """
    settings = workflow.dag_settings
    if settings.forceall or "train" in settings.forcerun:
        return ["all"]
    files = {*settings.forcerun, *(settings.targets if settings.forcetargets else ())}
    return sorted(Path(file).parent.name for file in files)


def run_spec(wildcards):
    """The spec of a run."""
    return PLAN.runs[wildcards.run]


def run_order(wildcards):
    """The priority of a run: random if users share runs, else 0.

    Each user then trains the runs in another order, so that two who start together find in the
    cache what the other one has trained.
    """
    order = environ.get("SNAKEMAKE_OUTPUT_CACHE") and random.Random(
        f"{ORDER} {wildcards.run}"
    )
    return order.random() if order else 0


@cache
def run_cost(run):
    """What a run should take; cached, since it is asked for several times per job."""
    return estimate(PLAN.runs[run], CONFIG["device"])


def run_memory(wildcards, attempt):
    """Megabytes that a run asks for: 1.5 times what it should take, and more with each attempt."""
    return int(1.5 * run_cost(wildcards.run).memory_mb * attempt)


def run_gpu_memory(wildcards):
    """Megabytes that a run should take of a GPU, and claims."""
    return math.ceil(run_cost(wildcards.run).gpu_memory_mb)


def run_minutes(wildcards, attempt):
    """Minutes that a run asks for: over twice what it should take, and more with each attempt."""
    return int(run_cost(wildcards.run).asked_seconds / 60 * attempt)


@cache
def prepared_files(dataset, partition):
    """The files that runs on a noisy partition are made from, and those of them that are there."""
    files = [RESULTS.data(dataset, part) for part in ("train", "test")]
    files.append(RESULTS.partition(partition))
    return files, [file for file in files if file.exists()]


def train_inputs(wildcards):
    """The files that a run is trained and tested on; for a whole run, only those that exist.

    Otherwise Snakemake would make the lost ones again for it, although they are marked as ancient.
    The run's id covers what these files hold, so equal files made anew retrain nothing. One
    function gives all inputs, since Snakemake takes long to call thousands.
    """
    partition = run_spec(wildcards)["noisy_partition"]
    files, there = prepared_files(partition["dataset"], identity(partition))
    whole = RESULTS.run(wildcards.run).provenance.exists()
    return [ancient(file) for file in (there if whole else files)]


def partition_spec_text(wildcards):
    """The spec of a noisy partition as canonical JSON: one text, so that params compare well."""
    return canonical_json(partition_spec(wildcards))


def run_spec_text(wildcards):
    """The spec of a run as canonical JSON."""
    return canonical_json(run_spec(wildcards))


def table_of(wildcards):
    """The table that a file belongs to."""
    return PLAN.tables[f"{wildcards.experiment}/{wildcards.name}"]


def figure_of(wildcards):
    """The figure that a file belongs to."""
    return PLAN.figures[f"{wildcards.experiment}/{wildcards.name}"]


def table_inputs(wildcards):
    """The runs of a table."""
    return artifacts_of(table_of(wildcards).run_ids())


def table_description(wildcards):
    """What a table's page says, as canonical JSON."""
    return description_text(table_of(wildcards))


def table_title(wildcards):
    """What a table is called, for the report."""
    return in_restructured_text(table_of(wildcards).title)


def table_compared(wildcards):
    """Whether a table has a paper's numbers beside ours."""
    return table_of(wildcards).published is not None


def table_folders(wildcards):
    """The folder of each run of a table."""
    return {run: str(run_files(run).folder) for run in table_of(wildcards).run_ids()}


def figure_runs(wildcards):
    """The runs that a figure is drawn from."""
    return artifacts_of(figure_of(wildcards).runs)


def figure_partitions(wildcards):
    """The noisy partitions that a figure is drawn from."""
    return list(map(partition_file, figure_of(wildcards).partitions))


def figure_description(wildcards):
    """What a figure shows, as canonical JSON."""
    return description_text(figure_of(wildcards))


def figure_title(wildcards):
    """What a figure is called, for the report."""
    return in_restructured_text(figure_of(wildcards).title)


def figure_caption(wildcards):
    """What a figure shows, in words, for the report."""
    return in_restructured_text(figure_of(wildcards).caption)


def figure_folders(wildcards):
    """The folder of each run of a figure."""
    return {run: str(run_files(run).folder) for run in figure_of(wildcards).runs}


# These are functions, so that they are not called when only one table is planned.
def claims_runs(wildcards):
    """The runs that claims are held against."""
    return artifacts_of(runs_of_parts(CLAIMED.values()))


def claims_partitions(wildcards):
    """The noisy partitions that claims are held against."""
    return partitions_of(runs_of_parts(CLAIMED.values()))


def claims_descriptions(wildcards):
    """What the pages say of the tables and figures that claims are held against."""
    return {name: description_text(part) for name, part in CLAIMED.items()}


def claims_folders(wildcards):
    """The folder of each run that claims are held against."""
    runs = runs_of_parts(CLAIMED.values())
    return {run: str(run_files(run).folder) for run in runs}


def evidence_runs(wildcards):
    """The runs of the table of every method."""
    return artifacts_of(EVIDENCE.run_ids())


def evidence_folders(wildcards):
    """The folder of each run of the table of every method."""
    return {run: str(run_files(run).folder) for run in EVIDENCE.run_ids()}


def explorer_folders(wildcards):
    """The folder of each run of the wanted tables."""
    return {run: str(run_files(run).folder) for run in runs_of_parts(TABLES)}


def explorer_layouts(wildcards):
    """The results folders in which noisy partitions may lie."""
    layouts = [RESULTS, *([REPRODUCED] if CONFIG["reproduced"] else [])]
    return [str(layout.root) for layout in layouts]


def scale_options():
    """The command-line options with which Snakemake takes this scale; empty for the default one."""
    files = [os.path.relpath(file, workflow.basedir) for file in workflow.configfiles]
    if files == ["config/config.yaml"]:
        return ""
    one = len(files) == 1
    return f"--configfile={files[0]}" if one else f"--configfile {' '.join(files)} --"
