"""Configuration: what it expands to, and what is refused before any job starts."""

import pytest

from checked_plan import checked_plan
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import load_config
from noisyfl.experiments.scale_file import scale_file
from noisyfl.experiments.setting import merge
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import canonical_method, without_revisions
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run, check_run
from small_paper import CONFIG, DIGITS, PAPER, edited, plan


def test_a_table_is_rows_by_columns_by_trials(tmp_path):
    made = plan(tmp_path)
    table = made.tables["paper/one"]
    assert [[len(cell) for cell in row] for row in table.runs] == [[2, 2], [2, 2]]
    assert len(made.runs) == 8
    assert len(made.partitions) == 4  # two noises by two seeds, whatever the method
    spec = made.runs[table.runs[1][1][0]]
    assert spec["method"] == {"name": "fedprox", "mu": 0.1, "prox_form": "squared", "revision": 1}
    assert spec["noisy_partition"]["noise_level"]["level"] == 0.4
    assert spec["noisy_partition"]["partition"]["clients"] == 10
    assert [[c.as_published for c in row] for row in table.cells] == [[True] * 2] * 2


def test_the_overlay_has_the_last_word(tmp_path):
    overlay = {
        "datasets": {"cifar10": DIGITS},
        "setting": {"clients": 5, "schedule": {"rounds": 3}},
        "methods": {"fedprox": {"mu": 0.7}},
        "columns": {"paper/one": ["noisy"]},
    }
    own = plan(tmp_path, config={**CONFIG, "overlay": {"trials": {"paper/one": 1}}})
    assert [[len(cell) for cell in row] for row in own.tables["paper/one"].runs] == [[1, 1]] * 2
    made = plan(tmp_path, config={**CONFIG, "trials": 3, "overlay": overlay})
    table = made.tables["paper/one"]
    assert [[len(cell) for cell in row] for row in table.runs] == [[3], [3]]
    spec = made.runs[table.runs[1][0][0]]
    assert spec["noisy_partition"]["dataset"] == "digits"
    assert spec["noisy_partition"]["partition"]["clients"] == 5
    assert spec["noisy_partition"]["noise_level"]["level"] == 0.4
    assert spec["schedule"]["rounds"] == 3
    assert spec["schedule"]["local_epochs"] == 5
    assert spec["method"]["mu"] == 0.7
    assert [[c.as_published for c in row] for row in table.cells] == [[False]] * 2


def test_an_overlay_of_one_table_leaves_the_others_alone(tmp_path):
    paper = edited(PAPER, ("tables", "two"), PAPER["tables"]["one"])
    experiments = {"paper": {"schedule": {"rounds": 4}}, "paper/two": {"schedule": {"rounds": 3}}}
    made = plan(tmp_path, paper, {**CONFIG, "overlay": {"experiments": experiments}})
    rounds = {
        name: {made.runs[run]["schedule"]["rounds"] for run in table.run_ids()}
        for name, table in made.tables.items()
    }
    assert rounds == {"paper/one": {4}, "paper/two": {3}}


CURVES = {"kind": "by_round", "title": "t", "caption": "c", "table": "one"}


def test_a_figure_marks_the_round_that_an_option_of_its_runs_has(tmp_path):
    stage = [{"at": "warm_up_rounds", "label": "selects"}, {"at": 7, "label": "seven"}]
    paper = edited(PAPER, ("figures",), {"curves": {**CURVES, "marks": stage}})
    assert [mark.at for mark in plan(tmp_path, paper).figures["paper/curves"].marks] == [7]
    paper = edited(paper, ("tables", "one", "rows", 1, "method"), "fedrn(warm_up_rounds=30)")
    assert [mark.at for mark in plan(tmp_path, paper).figures["paper/curves"].marks] == [30, 7]
    stage[0]["at"] = "warm_up_round"
    paper = edited(PAPER, ("figures",), {"curves": {**CURVES, "marks": stage}})
    with pytest.raises(BadInput, match=r"curves\.marks: no option .*'warm_up_round'; did you mean"):
        plan(tmp_path, paper)


def test_a_setting_that_no_table_has_may_lack_what_others_lay_over_it(tmp_path):
    spare = {"dataset": "mnist", "partition": "dirichlet", "schedule": {"rounds": 3}}
    made = plan(tmp_path, edited(PAPER, ("settings", "spare"), spare))
    assert made.runs == plan(tmp_path).runs


def test_tables_that_share_runs_name_them_alike(tmp_path):
    again = {"rows": [{"name": "Again", "method": {"name": "fedavg"}}]}
    paper = edited(PAPER, ("tables", "two"), {**PAPER["tables"]["one"], **again})
    made = plan(tmp_path, paper)
    assert made.tables["paper/two"].runs == made.tables["paper/one"].runs[:1]
    assert len(made.runs) == 8


def test_an_id_names_everything_that_decides_the_result(tmp_path):
    run = next(iter(plan(tmp_path).runs.values()))
    for path, value in [
        (("schedule", "learning_rate"), 0.2),
        (("method", "revision"), 2),
        (("noisy_partition", "revision"), 0),
        (("simulation_revision",), 0),
        (("seed",), 9),
    ]:
        assert identity(edited(run, path, value)) != identity(run)
    assert identity(dict(reversed(run.items()))) == identity(run)


def test_a_default_given_is_a_default_left_out(tmp_path):
    rows = ("tables", "one", "rows", 1, "method")
    assert plan(tmp_path, edited(PAPER, rows, "fedprox(mu=0.01)")).runs == (
        plan(tmp_path, edited(PAPER, rows, "fedprox")).runs
    )


COLUMN = ("tables", "one", "columns", 1, "with")
ROW = ("tables", "one", "rows", 1, "method")
SCHEDULE = ("settings", "base", "schedule")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (ROW, "fedprx", "rows[1], column 'clean'.method: no method is called 'fedprx'"),
        (ROW, "fedprox(mue=1)", "method.fedprox: unknown option 'mue'; did you mean 'mu'?"),
        (ROW, "fedprox(mu=-1)", "column 'clean'.method.fedprox.mu: Input should be greater"),
        (ROW, "fedcorr(variant='x')", "method.fedcorr.variant: got 'x'"),
        (("settings", "base", "dataset"), "images", "dataset.images: expected the option path"),
        (("settings", "base", "model"), "resnet", "settings.base.model: no model is called 'resn"),
        (("settings", "base", "augmentation"), "flip", "no augmentation is called 'flip'"),
        (("settings", "base", "clients"), 60_000, "clients=60000 needs 60000 training samples"),
        ((*COLUMN, "dataset"), "MNIST", "no dataset is called 'MNIST'; did you mean 'mnist'"),
        (
            (*COLUMN, "noise_level"),
            "constant(level=1.2)",
            "columns[1].with.noise_level.constant.level: Input should be less than or equal to 1",
        ),
        ((*COLUMN, "partition"), {"client": 5}, "rows[0], column 'noisy'.partition.iid: unknown "
         "option 'client'; did you mean 'clients'? (known: clients, samples, long_tail, strat"),
        ((*COLUMN, "nois"), "x", "unknown key 'nois'"),
        ((*SCHEDULE, "round"), 5, "unknown option 'round'; did you mean 'rounds'?"),
        ((*SCHEDULE, "batch_size"), None, "schedule.batch_size: Field required"),
        (("tables", "one", "statistic"), "worst", "one.statistic: no statistic is called 'worst'"),
        (("tables", "one", "setting"), "bse", "no setting is called 'bse'; did you mean 'base'?"),
        (("tables", "one", "rows"), [], "tables.one.rows: List should have at least 1 item"),
        (("tables", "one", "rows", 1, "name"), "FedAvg", "one.rows: two are called 'FedAvg'"),
        (("tables", "one", "rows", 1, "wiht"), {}, "unknown key 'wiht'; did you mean 'with'?"),
        (("tables", "one", "rows", 1, "method_in"), {"bsae": "fedavg"},
         "tables.one.rows[1].method_in: no setting is called 'bsae'; did you mean 'base'?"),
        (("methods",), {"fedprox": {"muu": 1}},
         "yaml: methods.fedprox: unknown option 'muu'; did you mean 'mu'?"),
        (("methods",), {"krum+fedprox": {"mu": -1}}, "methods.krum+fedprox.mu: Input"),
        (("settings", "spare"), {"dataset": "nope"},
         "yaml: settings.spare.dataset: no dataset is called 'nope'"),
        (("settings", "spare"), {"partition": "dirichlet(alpha=0)"},
         "yaml: settings.spare.partition.dirichlet.alpha: Input should be greater than 0 (got 0)"),
        (("figures",), {"one": {"title": "t"}}, "figures.one: key 'kind' is missing"),
        (("figures",), {"one": {**CURVES, "rows": ["a", "b", "a"]}},
         "figures.one.rows: got ['a', 'b', 'a'], expected each once"),
        (("figures",), {"one": {"kind": "local_epochs", "title": "t", "caption": "c", "rounds": 3,
                                "methods": [{"name": "a", "method": "fednoil"}] * 2}},
         "figures.one.methods: got ['a', 'a'], expected each once"),
        (("figures",), {"one": {"knid": "features"}}, "unknown key 'knid'; did you mean 'kind'"),
        (("figures",), {"one": {"kind": "feature"}}, "one.kind: Input should be 'by_round'"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_experiment_names_file_key_value_and_expectation(
    tmp_path, path, value, words
):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, edited(PAPER, path, value))
    assert "paper.yaml" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"experiments": ["paper"]}, "my.yaml: scale: Field required"),
        ({**CONFIG, "experiments": ["papr"]}, "no experiment is called 'papr'; did you mean"),
        ({**CONFIG, "experiments": ["papers/mine.yaml"]},
         "experiments[0]: got 'papers/mine.yaml', expected the name of a file without its folder"),
        ({**CONFIG, "device": "gpu"}, "my.yaml: device: got 'gpu', expected auto, cpu, cuda or"),
        ({**CONFIG, "results": str(ROOT / "Makefile")}, "my.yaml: results: got"),
        ({**CONFIG, "results": ""}, "my.yaml: results: got '', expected the path of a folder"),
        ({**CONFIG, "data": {"downlod": True}}, "my.yaml: data: unknown key 'downlod'; did you"),
        ({**CONFIG, "overlay": {"columns": {"paper/one": ["nosy"]}}},
         "overlay.columns.paper/one: no column is called 'nosy'; did you mean 'noisy'?"),
        ({**CONFIG, "overlay": {"columns": {"paper/on": ["noisy"]}}},
         "overlay.columns: no table is called 'paper/on'; did you mean 'paper/one'?"),
        ({**CONFIG, "overlay": {"datasets": {"cifar1": {}}}}, "no dataset is called 'cifar1'"),
        ({**CONFIG, "overlay": {"methods": {"fedpro": {}}}},
         "overlay.methods: no method is called 'fedpro'; did you mean 'fedprox'?"),
        ({**CONFIG, "overlay": {"methods": {"fedavg+fedprox+krum": {}}}},
         "overlay.methods: got 'fedavg+fedprox+krum', expected one method or two"),
        ({**CONFIG, "overlay": {"datasets": {"cifar10": {"dataset": "digits"}}}},
         "imagenet is for 3 channels"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_scale_names_file_key_value_and_expectation(tmp_path, config, words):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, config=config)
    assert words in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match=r"nothing\.yaml: there is no such file"):
        load_config([tmp_path / "nothing.yaml"])
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(BadInput, match="got list, expected keys and values"):
        load_config([tmp_path / "list.yaml"])


def test_a_key_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "twice.yaml").write_text("a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: 1\na: 2\n")
    with pytest.raises(BadInput, match=r"twice\.yaml, line 4: the key 'a' is given twice"):
        read_yaml(tmp_path / "twice.yaml")
    (tmp_path / "once.yaml").write_text("a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: *x\n")
    assert read_yaml(tmp_path / "once.yaml") == {"a": {"b": 1}, "c": {"b": 2}, "d": {"b": 1}}


def test_merges_within_merges_take_no_more_than_their_keys(tmp_path):
    lines = ["m0: &m0 {" + ", ".join(f"k{number}: {number}" for number in range(10)) + "}"]
    for level in range(1, 30):
        lines.append(f"m{level}: &m{level} {{<<: [{', '.join([f'*m{level - 1}'] * 10)}], own: 1}}")
    (tmp_path / "nested.yaml").write_text("\n".join(lines))
    assert read_yaml(tmp_path / "nested.yaml")["m29"] == {
        **{f"k{number}": number for number in range(10)},
        "own": 1,
    }
    (tmp_path / "order.yaml").write_text(
        "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: [*b, {y: 3, z: 3}], z: 4}\n"
        "d: {<<: &e {<<: *a, x: 5}, w: 1}\ne: *e\n"
    )
    found = read_yaml(tmp_path / "order.yaml")
    assert found["c"] == {"x": 2, "y": 1, "z": 4}
    assert (found["d"], found["e"]) == ({"x": 5, "y": 1, "w": 1}, {"x": 5, "y": 1})
    (tmp_path / "twice.yaml").write_text("b: {<<: {x: 1, x: 2}}\n")
    with pytest.raises(BadInput, match=r"twice\.yaml, line 1: the key 'x' is given twice"):
        read_yaml(tmp_path / "twice.yaml")


def test_a_scale_is_found_by_its_name(tmp_path):
    folder = ROOT / "config"
    assert scale_file(None, folder) == scale_file("quick", folder) == folder / "config.yaml"
    assert scale_file("paper", folder) == folder / "paper.yaml"
    with pytest.raises(BadInput, match="no scale is called 'papre'; did you mean 'paper'"):
        scale_file("papre", folder)
    (tmp_path / "mine.yaml").write_text('scale: "mine"\n')
    assert scale_file("mine", tmp_path) == tmp_path / "mine.yaml"
    (tmp_path / "copy.yaml").write_text((tmp_path / "mine.yaml").read_text())
    with pytest.raises(BadInput, match=r"'mine' is the scale of .*copy\.yaml and of .*mine\.yaml"):
        scale_file("mine", tmp_path)


def test_merge_changes_options_or_replaces_components():
    base = {"partition": "dirichlet(alpha=1, clients=5)", "schedule": {"rounds": 1, "a": 2}}
    changed = merge(base, {"partition": {"alpha": 3}, "schedule": {"rounds": 9}})
    assert changed["partition"] == {"name": "dirichlet", "alpha": 3, "clients": 5}
    assert changed["schedule"] == {"rounds": 9, "a": 2}
    assert merge(base, {"partition": "iid"})["partition"] == "iid"
    assert merge({"model": {"width": 1}}, {"model": {"depth": 2}}) == {
        "model": {"width": 1, "depth": 2}
    }


def test_quick_overview_and_table_2_share_runs():
    config = load_config([ROOT / "config" / "config.yaml"])
    config = config.model_copy(update={"experiments": ["fedcorr", "overview"], "targets": None})
    made = checked_plan(config, "config")
    shared = set(made.tables["fedcorr/table2"].run_ids()) & set(
        made.tables["overview/methods"].run_ids()
    )
    assert len(shared) == 3 * config.trials


def test_a_spec_of_another_version_is_refused(tmp_path):
    spec = next(iter(plan(tmp_path).runs.values()))
    check_run(spec, "a.json")
    for path, value in [(("method", "revision"), 7), (("schedule", "rounds"), None)]:
        with pytest.raises(BadInput, match=r"a\.json"):
            check_run(edited(spec, path, value), "a.json")
    with pytest.raises(BadInput, match=r"a\.json: not a run's spec"):
        check_run({"hello": 1}, "a.json")


def test_unknown_key_of_a_run():
    with pytest.raises(BadInput, match="here: unknown key 'modle'; did you mean 'model'"):
        canonical_run({"modle": 1}, "here")


def canonical(text):
    return canonical_method(text, "here")


def test_a_combination_is_a_server_side_and_a_client_side():
    method = canonical("median+fedprox(mu=0.5)")
    assert method["name"] == "median+fedprox"
    assert [part["name"] for part in method["parts"]] == ["median", "fedprox"]
    assert method["parts"][1]["mu"] == 0.5
    assert all(part["revision"] for part in method["parts"])
    server, client = build_method(method, "here")
    assert (server.name, client.name, client.mu) == ("median", "fedprox", 0.5)
    parts = [{"name": "median"}, {"name": "fedprox", "mu": 0.5}]
    assert canonical({"parts": parts}) == canonical(without_revisions(method)) == method


@pytest.mark.parametrize("alone", ["fedprox(mu=0.5)", "elr", "fedavg"])
def test_a_client_side_behind_fedavg_is_that_method_alone(alone):
    """So that a table's ``FedAvg + DivideMix`` and another's ``DivideMix`` are one run."""
    method = canonical(f"fedavg+{alone}")
    assert method == canonical(alone)
    server, client = build_method(method, "here")
    assert (server.name, client.name) == ("fedavg", method["name"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fedprox+oracle", "fedprox has no server side that another method could use"),
        ("krum+scaffold", "scaffold has a server side of its own, and krum has one, too"),
        ("fedcorr+coteaching", "a method added to fedcorr needs a server side, and coteaching"),
        ("scaffold+dividemix", "nothing can be added to it"),
        ("fedavg+fedprx", "no method is called 'fedprx'; did you mean"),
        ("fedavg+fedprox(mu=-1)", "fedprox.mu: Input should be greater than or equal to 0"),
        ("fedavg+fedprox+oracle", "expected one method or two"),
        ({"parts": ["fedavg"]}, r"parts: got \['fedavg'\], expected two methods"),
    ],
)
def test_combinations_that_are_refused(text, words):
    with pytest.raises(BadInput, match=words):
        canonical(text)


def test_a_scale_lays_options_over_each_part_of_a_combination_and_over_the_combination(tmp_path):
    paper = edited(PAPER, ("tables", "one", "rows", 1, "method"), "median+fedprox")
    of_each = {"fedprox": {"mu": 0.25}, "krum+fedprox": {"mu": 1.0}}
    for methods, mu in ((of_each, 0.25), ({**of_each, "median+fedprox": {"mu": 0.5}}, 0.5)):
        runs = plan(tmp_path, paper, {**CONFIG, "overlay": {"methods": methods}}).runs.values()
        mus = {part.get("mu") for run in runs for part in run["method"].get("parts", [])}
        assert mus == {None, mu}
