"""A table's rows and columns, and the figures drawn from them."""

import copy

import pytest

from noisyfl.core.options import BadInput
from noisyfl.experiments.config import Overlay
from noisyfl.specs.identity import identity
from small_paper import CONFIG, PAPER, edited, plan


def test_columns_can_be_a_product(tmp_path):
    columns = [
        [
            {"name": "CIFAR-10", "published": {"dataset": "cifar10"}},
            {"name": "CIFAR-100", "with": {"dataset": "cifar100"}, "metric": "label_recall"},
        ],
        [
            {"name": "IID", "x": 0, "published": {"partition": "iid"}},
            {"name": "shards", "with": {"partition": "shard(shards=2)"}, "x": 2.5},
        ],
    ]
    made = plan(tmp_path, edited(PAPER, ("tables", "one", "columns"), columns))
    table = made.tables["paper/one"]
    faces = table.columns
    assert [face.name for face in faces] == [
        "CIFAR-10, IID",
        "CIFAR-10, shards",
        "CIFAR-100, IID",
        "CIFAR-100, shards",
    ]
    assert [(face.group, face.label) for face in faces][1:3] == [
        ("CIFAR-10", "shards"),
        ("CIFAR-100", "IID"),
    ]
    assert faces[0].published == {"dataset": "cifar10", "partition": "iid"}
    assert [face.x for face in faces] == [0, 2.5, 0, 2.5]
    assert [face.metric for face in faces] == [None, None, "label_recall", "label_recall"]
    found = [made.runs[cell[0]]["noisy_partition"] for cell in table.runs[0]]
    assert [(part["dataset"], part["partition"]["name"]) for part in found] == [
        ("cifar10", "iid"),
        ("cifar10", "shard"),
        ("cifar100", "iid"),
        ("cifar100", "shard"),
    ]


def test_options_of_a_method_from_the_least_to_the_most_particular(tmp_path):
    paper = edited(
        PAPER, ("methods",), {"fedrn": {"alpha": 0.1, "neighbours": 4, "finetune": False}}
    )
    paper["tables"]["one"]["columns"] = [
        {"name": "a", "method": {"alpha": 0.2, "neighbours": 3}},
        {"name": "b"},
    ]
    paper["tables"]["one"]["rows"] = [{"name": "FedRN", "method": "fedrn(alpha=0.3)"}]
    overlay = {"methods": {"fedrn": {"warm_up_rounds": 7}}}
    made = plan(tmp_path, paper, {**CONFIG, "overlay": overlay})
    first, second = (made.runs[cell[0]]["method"] for cell in made.tables["paper/one"].runs[0])
    assert (first["alpha"], first["neighbours"], first["finetune"]) == (0.3, 3, False)
    assert (second["alpha"], second["neighbours"], second["warm_up_rounds"]) == (0.3, 4, 7)


def test_a_row_and_a_column_may_be_in_another_setting(tmp_path):
    paper = copy.deepcopy(PAPER)
    paper["settings"]["other"] = {**PAPER["settings"]["base"], "clients": 5}
    paper["settings"]["third"] = {**PAPER["settings"]["base"], "clients": 4}
    paper["tables"]["one"]["columns"][0]["setting"] = "other"
    paper["tables"]["one"]["rows"][1]["setting"] = "third"
    made = plan(tmp_path, paper)
    clients = [
        [made.runs[cell[0]]["noisy_partition"]["partition"]["clients"] for cell in row]
        for row in made.tables["paper/one"].runs
    ]
    assert clients == [[5, 10], [4, 4]]


def test_a_column_of_means_has_no_runs(tmp_path):
    paper = copy.deepcopy(PAPER)
    paper["tables"]["one"]["columns"].insert(1, {"name": "Mean", "mean_of": ["clean", "noisy"]})
    paper["tables"]["one"]["columns"].insert(2, {"name": "rank", "average_rank": True})
    made = plan(tmp_path, with_figure(paper, **OF_ONE))
    assert [len(cell) for cell in made.tables["paper/one"].runs[0]] == [2, 0, 0, 2]
    drawn = made.figures["paper/f"].table
    assert [column.name for column in drawn.columns] == ["clean", "noisy"]
    assert [len(cell) for cell in drawn.runs[0]] == [2, 2]
    paper["tables"]["one"]["columns"][1]["mean_of"] = ["clear", "noisy"]
    with pytest.raises(
        BadInput, match="'Mean': mean_of: no column is called 'clear'; did you mean"
    ):
        plan(tmp_path, paper)


def test_a_mean_has_the_statistic_of_its_columns_which_must_agree(tmp_path):
    paper = copy.deepcopy(PAPER)
    columns = paper["tables"]["one"]["columns"]
    for column in columns:
        column["statistic"] = "last"
    columns.append({"name": "Mean", "mean_of": ["clean", "noisy"]})
    assert plan(tmp_path, paper).tables["paper/one"].columns[2].statistic == "last"
    columns[2]["statistic"] = "best"
    message = (
        r"columns\[2\]\.mean_of: got columns whose statistic is last, expected the same for all"
    )
    with pytest.raises(BadInput, match=message):
        plan(tmp_path, paper)
    columns[2].pop("statistic")
    columns[0]["metric"] = "label_recall"
    message = r"mean_of: got columns whose metric is label_recall, the table's, expected the same"
    with pytest.raises(BadInput, match=message):
        plan(tmp_path, paper)


def test_a_later_number_of_clients_replaces_a_partitions_own(tmp_path):
    def clients(paper, overlay=None):
        made = plan(tmp_path, paper, {**CONFIG, "overlay": overlay or {}})
        rows = made.tables["paper/one"].runs
        return [made.runs[cell[0]]["noisy_partition"]["partition"]["clients"] for cell in rows[0]]

    paper = edited(PAPER, ("settings", "base", "partition"), "iid(clients=4)")
    assert clients(paper) == [4, 4]  # beside it, the partition's own counts
    paper["tables"]["one"]["columns"][1]["with"] = {"clients": 8}
    assert clients(paper) == [4, 8]
    assert clients(paper, {"setting": {"clients": 3}}) == [3, 3]
    assert clients(paper, {"setting": {"partition": {"clients": 3}}}) == [3, 3]
    paper["tables"]["one"]["columns"][1]["with"] = {"clients": 8, "partition": "iid(clients=5)"}
    assert clients(paper) == [4, 5]
    paper["tables"]["one"]["columns"][1]["with"] = {"clients": 8, "partition": {"stratified": True}}
    assert clients(paper) == [4, 8]  # where the partition only has another option


@pytest.mark.parametrize(
    ("dataset", "clients"),
    [
        ("digits", 3),
        ("digits()", 3),
        ({"name": "digits"}, 3),
        ("images(path='P')", 5),
        ({"name": "images", "path": "P"}, 5),
        ("images(path='Q')", 4),
        ("mnist", None),
        (None, None),
    ],
)
def test_an_overlay_finds_a_dataset_however_it_is_written(dataset, clients):
    datasets = {"digits": 3, "images": 4, 'images(path="P")': 5}
    overlay = Overlay.read({"datasets": {name: {"clients": n} for name, n in datasets.items()}})
    *found, _ = overlay.settings_for(dataset, "a", "a/b")
    assert [setting.clients for setting in found] == ([clients] if clients else [])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"mean_of": ["clean"], "average_rank": True}, "average_rank: got true beside mean_of"),
        ({"method": {"name": "gce"}}, "method: got 'name', expected options that are added"),
    ],
)
def test_keys_that_would_have_no_effect_are_refused(tmp_path, column, message):
    paper = copy.deepcopy(PAPER)
    paper["tables"]["one"]["columns"].append({"name": "Whole", **column})
    with pytest.raises(BadInput, match=rf"tables\.one\.columns\[2\]\.{message}"):
        plan(tmp_path, paper)


@pytest.mark.parametrize(
    ("computed", "key", "value"),
    [
        ({"mean_of": ["clean"]}, "with", {"clients": 5}),
        ({"mean_of": ["clean"]}, "setting", "base"),
        ({"average_rank": True}, "method", {"mu": 1}),
    ],
)
def test_a_column_without_runs_does_not_say_what_they_are(tmp_path, computed, key, value):
    paper = copy.deepcopy(PAPER)
    paper["tables"]["one"]["columns"].append({"name": "Whole", **computed, key: value})
    message = rf"tables\.one\.columns\[2\]\.{key}: got .*, expected none in a column with "
    with pytest.raises(BadInput, match=message + next(iter(computed))):
        plan(tmp_path, paper)


def test_a_product_of_columns_has_none_without_runs(tmp_path):
    columns = [[{"name": "a"}], [{"name": "b"}, {"name": "Mean", "mean_of": ["a, b"]}]]
    message = r"tables\.one\.columns\[1\]\[1\]\.mean_of: got it in a product of columns, expected"
    with pytest.raises(BadInput, match=message):
        plan(tmp_path, edited(PAPER, ("tables", "one", "columns"), columns))


def test_a_scale_keeps_some_rows_and_what_figures_have_of_them(tmp_path):
    paper = with_figure(**OF_ONE, rows=["FedProx"], columns=["noisy", "clean"])
    whole = plan(tmp_path, paper)
    figure, table = whole.figures["paper/f"], whole.tables["paper/one"]
    assert figure.table.runs == ((table.runs[1][1], table.runs[1][0]),)
    assert [column.name for column in figure.table.columns] == ["noisy", "clean"]
    assert [row.method for row in figure.table.rows] == ["fedprox(mu=0.1)"]
    assert set(figure.runs) == set(table.runs[1][0] + table.runs[1][1])

    overlay = {"rows": {"paper/one": ["FedAvg"]}, "columns": {"paper/one": ["noisy"]}}
    part = plan(tmp_path, paper, {**CONFIG, "overlay": overlay})
    assert part.tables["paper/one"].runs == ((table.runs[0][1],),)
    # None of the figure's rows is left, so it shows those that are.
    assert part.figures["paper/f"].table.runs == ((table.runs[0][1],),)
    bad = {**CONFIG, "overlay": {"rows": {"paper/one": ["FedAv"]}}}
    with pytest.raises(BadInput, match=r"rows\.paper/one: no row is called 'FedAv'; did you"):
        plan(tmp_path, paper, bad)


def test_a_figure_of_runs_of_its_own_asks_for_probes(tmp_path):
    shards = {"partition": "shard(shards=2)"}
    lines = [
        {"name": "FedAvg", "method": "fedavg"},
        {"name": "shards", "method": "fedavg", "with": shards},
    ]
    panel = {"name": "noisy", "with": {"noise_level": "constant(level=0.4)"}, "lines": lines}
    figure = {"kind": "local_models", "setting": "base", "y": "test_accuracy", "panels": [panel]}
    made = plan(tmp_path, with_figure(**figure))
    drawn = made.figures["paper/f"]
    (panel,) = drawn.panels
    assert [line.run for line in panel.lines] == list(drawn.runs)
    for line, partition in zip(panel.lines, ("iid", "shard"), strict=True):
        spec = made.runs[line.run]
        assert spec["probes"] == ["local_models"]
        assert spec["noisy_partition"]["noise_level"]["level"] == 0.4
        assert spec["noisy_partition"]["partition"]["name"] == partition
        assert identity(spec["noisy_partition"]) == line.partition
    assert set(drawn.runs).isdisjoint(made.tables["paper/one"].run_ids())


def with_figure(paper=PAPER, **given):
    return edited(paper, ("figures", "f"), {"title": "t", "caption": "c", **given})


OF_ONE = {"kind": "by_round", "table": "one"}
COLUMNS = ("tables", "one", "columns")
DRAWN = edited(PAPER, COLUMNS, [{"name": "a", "x": 1}, {"name": "b", "x": 2}])
UNKNOWN = {"dataset": "clothing1m", "label_noise": "none", "noise_level": "none"}


@pytest.mark.parametrize(
    ("paper", "figure", "words"),
    [
        (PAPER, {"kind": "by_setting", "table": "one", "xlabel": "x"},
         "f: column 'clean' of the table 'one' has no x, expected a number: where it is drawn"),
        (edited(DRAWN, (*COLUMNS, 1, "metric"), "noise_ratio"),
         {"kind": "by_setting", "table": "one", "xlabel": "x"},
         "f: got a panel ('') of best of noise_ratio, best of test_accuracy, expected one of"),
        (edited(PAPER, COLUMNS, [{"name": "rank", "average_rank": True}]),
         OF_ONE, "f: rows, and columns with runs: got 2 and 0, expected at least one of each"),
        (PAPER, {"kind": "by_round", "table": "one", "x": "batches",
                 "marks": [{"at": 3, "label": "x"}]},
         "f.x: got 'batches', expected 'ordinary_rounds', since there are marks"),
        (PAPER, {"kind": "lid_scores", "setting": "base", "method": "fedprox"},
         "f.method: got 'fedprox', expected fedcorr, which scores clients"),
        (PAPER, {"kind": "lid_scores", "setting": "base", "method": "fedcorr", "with": UNKNOWN},
         "f: got the dataset clothing1m, whose true labels are not known, and lid_scores"),
        (PAPER, {"kind": "detection", "setting": "base",
                 "panels": [{"name": "p", "method": "fedavg", "with": UNKNOWN}]},
         "f: got the dataset clothing1m, whose true labels are not known, and detection"),
        (PAPER, {"kind": "local_epochs", "rounds": 3,
                 "methods": [{"name": "a", "method": "fedavg"}]},
         "f.methods[0].method: fedavg has the run's local epochs, and none of its own"),
        (PAPER, {"kind": "among_clients", "table": "one", "row": "FedAvgg", "column": "clean",
                 "metrics": ["label_recall"]},
         "f.row: no row is called 'FedAvgg'; did you mean 'FedAvg'?"),
        (PAPER, {"kind": "by_client", "table": "one", "row": "FedAvg", "column": "claen",
                 "x": ["samples"], "y": ["label_recall"]},
         "f.column: no column is called 'claen'; did you mean 'clean'?"),
    ],
)  # fmt: skip
def test_a_figure_that_no_run_could_give_is_refused_when_planned(tmp_path, paper, figure, words):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, with_figure(paper, **figure))
    assert f"paper.yaml: figures.{words}" in str(caught.value)


def test_scores_of_clients_are_those_of_fedcorr_and_of_what_follows_it(tmp_path):
    figure = {"kind": "lid_scores", "setting": "base"}
    for method in ("fedcorr", "fedcorr+median"):
        assert plan(tmp_path, with_figure(**figure, method=method)).figures["paper/f"].runs


def test_a_figure_of_which_a_scale_keeps_too_little_is_left_out(tmp_path):
    columns = [*PAPER["tables"]["one"]["columns"], {"name": "rank", "average_rank": True}]
    paper = with_figure(edited(PAPER, COLUMNS, columns), **OF_ONE)
    assert list(plan(tmp_path, paper).figures) == ["paper/f"]
    made = plan(tmp_path, paper, {**CONFIG, "overlay": {"columns": {"paper/one": ["rank"]}}})
    assert not made.figures
    assert made.tables


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("columns", 1, "metric"), "accuracy", "no metric is called 'accuracy'; did you mean"),
        (("columns", 1, "method"), {"mu": 3}, "unknown option 'mu'"),
        (("rows", 0, "setting"), "bass", "no setting is called 'bass'; did you mean"),
        (("rows", 0, "method"), "krum+coteaching", "got options {'alpha': 1}"),
    ],
)
def test_a_mistake_in_a_layout_names_what_was_expected(tmp_path, path, value, words):
    paper = edited(PAPER, ("tables", "one", *path), value)
    if "+" in str(value):
        paper["tables"]["one"]["columns"][0]["method"] = {"alpha": 1}
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, paper)
    assert words in str(caught.value)
    assert "paper.yaml: tables.one" in str(caught.value)


def test_values_laid_over_a_figure_of_a_table_are_refused(tmp_path):
    paper = with_figure(**OF_ONE)
    overlay = {"experiments": {"paper/f": {"clients": 3}}}
    with pytest.raises(
        BadInput, match=r"experiments: .* setting is called 'paper/f'.* paper/one\)"
    ):
        plan(tmp_path, paper, {**CONFIG, "overlay": overlay})


def test_what_a_scale_lays_over_other_experiments_may_stay(tmp_path):
    """So that one of ours can be cut to some of its experiments."""
    (tmp_path / "fedcorr.yaml").touch()
    overlay = {
        "experiments": {"fedcorr": {"clients": 3}, "fedcorr/table2": {"clients": 4}},
        "rows": {"fedcorr/table2": ["FedAvg"]},
        "trials": {"fedcorr/table2": 1},
    }
    assert plan(tmp_path, config={**CONFIG, "overlay": overlay}).runs == plan(tmp_path).runs


def test_a_scale_may_lay_values_over_one_experiment(tmp_path):
    overlay = {"setting": {"clients": 5}, "experiments": {"paper": {"clients": 3}}}
    made = plan(tmp_path, config={**CONFIG, "overlay": overlay})
    assert {spec["partition"]["clients"] for spec in made.partitions.values()} == {3}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"targets": ["paper/on"]}, "targets: no target is called 'paper/on'; did you mean"),
        ({"overlay": {"experiments": {"papers": {}}}}, "no experiment is called 'papers'"),
    ],
)
def test_a_mistake_in_a_target_is_found_before_any_job(tmp_path, config, words):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, config={**CONFIG, **config})
    assert words in str(caught.value)
    plan(tmp_path, config={**CONFIG, "targets": ["paper", "paper/one"]})


@pytest.mark.parametrize("named", [["FedAvg"], ["FedAvg", "Mine"]])
def test_a_scale_may_add_rows_to_a_table(named, tmp_path):
    overlay = {
        "rows": {"paper/one": named},
        "add_rows": {"paper/one": [{"name": "Mine", "method": "gce(q=0.3)"}]},
    }
    made = plan(tmp_path, config={**CONFIG, "overlay": overlay})
    table = made.tables["paper/one"]
    assert [row.name for row in table.rows] == ["FedAvg", "Mine"]
    specs = [[made.runs[runs[0]] for runs in row] for row in table.runs]
    for theirs, mine in zip(*specs, strict=True):
        assert mine["method"]["q"] == 0.3
        assert {**mine, "method": None} == {**theirs, "method": None}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {"paper/one": [{"name": "FedAvg", "method": "gce"}]},
            r"^my\.yaml: overlay\.add_rows\.paper/one\[0\]: the table has a row 'FedAvg'",
        ),
        ({"paper/one": [{"name": "A", "method": "gce"}] * 2}, r"^my\.yaml: .*two are called 'A'"),
        ({"paper/one": [{"name": "A", "methd": "gce"}]}, r"add_rows\.paper/one\[0\]: .*'methd'"),
        ({"paper/one": [{"name": "A", "method": "gcee"}]}, r"no method is called 'gcee'"),
        ({"paper/ones": [{"name": "A", "method": "gce"}]}, "no table is called 'paper/ones'"),
    ],
)
def test_what_is_wrong_with_an_added_row_is_named(tmp_path, rows, message):
    with pytest.raises(BadInput, match=message):
        plan(tmp_path, config={**CONFIG, "overlay": {"add_rows": rows}})
