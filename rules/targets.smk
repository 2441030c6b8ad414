# Targets with names: an experiment (fedcorr), one of its tables or figures (fedcorr_table2).
def explorer_of(experiment):
    """The explorer, if the scale's tables are all of this experiment: others would be trained."""
    alone = TABLES and all(part.experiment == experiment for part in TABLES)
    return [SCALE / "explorer.html"] if alone else []


for experiment in CONFIG["experiments"]:
    if experiment in PLAN.left_out:
        continue

    rule:
        name:
            experiment
        input:
            files_of(parts_of_target(experiment)),
            explorer_of(experiment),


for part in PLAN.tables.values():

    rule:
        name:
            f"{part.experiment}_{part.name}"
        input:
            table_files(part),


for part in PLAN.figures.values():

    rule:
        name:
            f"{part.experiment}_{part.name}"
        input:
            figure_files(part),
