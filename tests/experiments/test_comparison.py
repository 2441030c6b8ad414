"""What a comparison consists of: rows, settings, and the files that Snakemake takes."""

import pytest

import own_sets
import own_vectors
from checked_plan import checked_plan
from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import BadInput
from noisyfl.core.tracked import REPRODUCED
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.comparison_files import check_target, write_scale
from noisyfl.experiments.comparison_input import DEFAULT_METHODS, read_comparison
from noisyfl.experiments.config import load_config
from noisyfl.experiments.places import Places
from outside import PARTS

RHO = "ρ=0.6 τ=0.5"


@pytest.fixture
def own(tmp_path):
    return OwnFiles([tmp_path / "data"], tmp_path / "results")


def test_everything_has_a_default(own):
    wanted = read_comparison((), {}, own)
    assert [row.name for row in wanted.rows] == list(DEFAULT_METHODS)
    assert wanted.seeds == 3
    assert len(wanted.runs) == 18
    for said in ("dataset digits", "clients 20", "rounds 20", "seeds 3", "learning_rate 0.05"):
        assert said in wanted.describe()


def test_real_images_have_the_sizes_of_the_desk_scale(own):
    wanted = read_comparison(["fedavg"], {"dataset": "fashion_mnist"}, own, seeds=1)
    (spec,) = wanted.runs.values()
    assert spec["noisy_partition"]["partition"]["per_client"] == 300
    assert spec["schedule"]["rounds"] == 30


@pytest.mark.parametrize(
    ("options", "setting", "noise", "model"),
    [
        ("", {}, "none", "mlp"),
        ("given='given', ", {}, "file", "mlp"),
        ("given='given', ", {"label_noise": "pair"}, "pair", "mlp"),
        ("", {"label_noise": "symmetric", "model": "mlp(hidden=[])"}, "symmetric", "mlp"),
    ],
)
def test_labels_of_ones_own_are_as_they_are(own, options, setting, noise, model):
    own.roots[0].mkdir()
    own_vectors.as_csv(own.roots[0])
    data = f"vectors({options}path='train.csv', test='test.csv', without=['given'])"
    data = data.replace(", without=['given']", "") if options else data
    setting = {"dataset": data, "partition": "iid(clients=2)", **setting}
    wanted = read_comparison(["fedavg", "rofl"], setting, own, seeds=1)
    for spec in wanted.runs.values():
        partition = spec["noisy_partition"]
        assert partition["label_noise"]["name"] == noise
        assert spec["model"]["name"] == model
        level = partition["noise_level"]
        assert level.get("level") == (0.4 if noise in ("pair", "symmetric") else None)


def test_a_list_is_a_row_for_each_value_unless_the_option_is_a_list(own):
    given = ["fedprox(mu=[0.01, 1])", "krum(byzantine=[0, 1])+gce(q=[0.5])"]
    wanted = read_comparison(given, {}, own, seeds=1)
    assert [row.name for row in wanted.rows] == [
        *("fedprox(mu=0.01)", "fedprox(mu=1)"),
        *("krum(byzantine=0)+gce(q=0.5)", "krum(byzantine=1)+gce(q=0.5)"),
    ]
    assert [row.sweep for row in wanted.rows] == [given[0]] * 2 + [given[1]] * 2
    methods = [spec["method"] for spec in wanted.runs.values()]
    assert [one["mu"] for one in methods[:2]] == [0.01, 1]
    assert methods[3]["parts"][0]["byzantine"] == 1


def test_a_list_in_the_schedule_is_a_row_for_each_value_of_every_method(own):
    given = {"learning_rate": [0.01, 0.1], "optimizer": "adamw"}
    wanted = read_comparison(["fedavg", "fedprox(mu=[1, 2])"], given, own, seeds=1)
    assert [row.name for row in wanted.rows] == [
        *("fedavg, learning_rate=0.01", "fedavg, learning_rate=0.1"),
        *("fedprox(mu=1), learning_rate=0.01", "fedprox(mu=1), learning_rate=0.1"),
        *("fedprox(mu=2), learning_rate=0.01", "fedprox(mu=2), learning_rate=0.1"),
    ]
    assert wanted.rows[0].swept == {"schedule.learning_rate": 0.01}
    assert wanted.rows[-1].swept == {"schedule.learning_rate": 0.1, "fedprox.mu": 2}
    schedules = [spec["schedule"] for spec in wanted.runs.values()]
    assert [one["learning_rate"] for one in schedules] == [0.01, 0.1] * 3
    assert {one["momentum"] for one in schedules} == {0.0}
    assert "learning_rate 0.01 or 0.1, momentum 0, optimizer adamw" in wanted.describe()
    first = wanted.on_validation()
    assert len(first.rows) == 6
    worth = {row.name: number for number, row in enumerate(first.rows)}
    chosen = wanted.choose(worth)
    assert [(row.name, row.note) for row in chosen.rows] == [
        ("fedavg, learning_rate=0.1", "chosen from 2"),
        ("fedprox(mu=2), learning_rate=0.1", "chosen from 4"),
    ]
    assert set(chosen.runs) < set(wanted.runs)


def test_a_list_in_the_setting_is_a_setting_for_each_value(own):
    given = {"noise_level": [0, 0.2], "partition": "dirichlet(alpha=[0.1, 1])", "clients": [5]}
    wanted = read_comparison(["fedavg", "gce(q=[0.3, 0.7])"], given, own, seeds=1)
    assert [one.swept for one in wanted.settings] == [
        {"dirichlet.alpha": alpha, "noise_level": level} for alpha in (0.1, 1) for level in (0, 0.2)
    ]
    assert wanted.settings[1].name == "dirichlet.alpha=0.1, noise_level=0.2"
    assert wanted.axis == ""  # there are two
    assert len(wanted.runs) == 12
    for one in wanted.settings:
        assert [*one.specs] == ["fedavg", "gce(q=0.3)", "gce(q=0.7)"]
        for specs in one.specs.values():
            partition = specs[0]["noisy_partition"]
            assert partition["partition"]["alpha"] == one.swept["dirichlet.alpha"]
            assert partition["noise_level"]["level"] == one.swept["noise_level"]
    assert "noise_level constant(level=0) or constant(level=0.2), model cnn" in wanted.describe()
    chosen = wanted.choose({"gce(q=0.3)": 1, "gce(q=0.7)": 2})
    assert len(chosen.runs) == 8
    assert set(chosen.runs) < set(wanted.runs)
    validation = wanted.on_validation()
    assert [one.swept for one in validation.settings] == [one.swept for one in wanted.settings]


def test_each_setting_has_the_defaults_of_its_dataset_and_noise(own):
    given = {"dataset": ["digits", "fashion_mnist"], "label_noise": ["none", "pair"]}
    wanted = read_comparison(["fedavg"], given, own, seeds=1)
    found = [specs for one in wanted.settings for (specs,) in one.specs.values()]
    assert [spec["schedule"]["rounds"] for spec in found] == [20, 20, 30, 30]
    levels = [spec["noisy_partition"]["noise_level"] for spec in found]
    assert [level.get("level") for level in levels] == [None, 0.4, None, 0.4]
    assert [one.swept["dataset"] for one in wanted.settings] == ["digits"] * 2 + [
        "fashion_mnist"
    ] * 2
    models = read_comparison(["fedavg"], {"model": ["cnn", "mlp(hidden=[8])"]}, own, seeds=1)
    assert [one.name for one in models.settings] == ["model=cnn", "model=mlp(hidden=[8])"]


def test_the_settings_lie_on_an_axis_if_they_differ_in_one_number(own):
    def axis(**setting):
        return read_comparison(["fedavg"], setting, own, seeds=1).axis

    assert axis(noise_level=[0.1, 0.2]) == "noise_level"
    assert axis(partition="dirichlet(alpha=[0.1, 1])") == "dirichlet.alpha"
    assert axis(partition="dirichlet(alpha=[0.1])") == ""
    assert axis(noise_level=[0.1]) == axis() == axis(partition=["iid", "dirichlet(alpha=1)"]) == ""


def test_adam_has_its_own_learning_rate_unless_one_is_given(own):
    (spec,) = read_comparison(["fedavg"], {"optimizer": "adam"}, own, seeds=1).runs.values()
    assert (spec["schedule"]["learning_rate"], spec["schedule"]["momentum"]) == (0.001, 0.0)
    with pytest.raises(BadInput, match=r"^momentum: got 0.5, expected 0 with adam"):
        read_comparison(["fedavg"], {"optimizer": "adam", "momentum": 0.5}, own)
    with pytest.raises(BadInput, match=r"^methods: got 'scaffold', which needs the optimizer"):
        read_comparison(["scaffold"], {"optimizer": "adam"}, own)


@pytest.mark.parametrize(
    ("given", "setting", "like"),
    [
        (["fedavg", "gce"], {"learning_rate": [0.01, 0.1], "local_epochs": [1, 2]}, None),
        (["fedavg", "fedprox(mu=[0.1, 1])", "median+gce"], {"noise_level": 0.2, "rounds": 7}, None),
        (["fedavg", "gce(q=[0.3, 0.7])"], {"noise_level": [0, 0.2], "rounds": [3, 7]}, None),
        (["fedavg"], {"partition": ["iid", "dirichlet(alpha=1)"], "clients": [4, 30]}, None),
        (["fedavg", "fedcorr", "centralized+dividemix"], {}, f"fedcorr/table2:{RHO}"),
        (["fedcorr"], {"noise_level": [0.1, 0.3]}, f"fedcorr/table2:{RHO}"),
        (["fedrn"], {"clients": 10, "noise_level": "constant(level=0.3)"}, f"fedcorr/table2:{RHO}"),
    ],
)
def test_snakemake_makes_the_same_runs_of_the_files_that_are_written(
    own, given, setting, like, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    wanted = read_comparison(given, setting, own, like=like)
    places = Places(tmp_path / "results", [tmp_path / "data"], device="cpu")
    scale, experiment = write_scale(wanted, tmp_path / "mine.yaml", places)
    assert experiment == tmp_path / "mine" / "mine.yaml"
    plan = checked_plan(load_config([scale]), str(scale))
    assert plan.runs == wanted.runs
    (table,) = plan.tables.values()
    assert [row.name for row in table.rows] == [row.name for row in wanted.rows]
    assert [column.name for column in table.columns] == [one.name for one in wanted.settings]
    assert [column.x for column in table.columns] == [
        one.swept.get(wanted.axis) for one in wanted.settings
    ]
    assert [name.partition("/")[2] for name in plan.figures] == ["curves", "settings"][
        : 1 + bool(wanted.axis)
    ]


def test_a_column_of_a_table_is_the_setting_with_the_options_of_its_paper_and_scale(own):
    wanted = read_comparison(
        ["fedavg", "fedcorr"], {}, own, like=f"fedcorr/table2:{RHO}", scale="reduced"
    )
    assert wanted.seeds == 2  # as the scale has it
    assert all(REPRODUCED.run(run).whole() for run in wanted.runs)


def test_the_label_noise_decides_whether_there_is_a_level(own):
    clean = read_comparison(["fedavg"], {"label_noise": "none"}, own, seeds=1)
    (spec,) = clean.runs.values()
    assert spec["noisy_partition"]["noise_level"]["name"] == "none"
    # A column without noise has no level, which a label noise then needs.
    like = "fedcorr/table2:ρ=0.0 τ=0.0"
    noisy = read_comparison(["fedavg"], {"label_noise": "pair"}, own, seeds=1, like=like)
    (spec,) = noisy.runs.values()
    assert spec["noisy_partition"]["noise_level"]["level"] == 0.4
    (spec,) = read_comparison(
        ["jointopt"], {}, own, seeds=1, like="rofl/table1:symmetric, 0"
    ).runs.values()
    assert spec["noisy_partition"]["noise_level"]["name"] == "none"


@pytest.mark.usefixtures("forgotten")
def test_a_method_may_be_of_the_plugins_of_the_tables_scale(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "mine.yaml").write_text(
        "scale: mine\nexperiments: [fedcorr]\nplugins: [parts.py]\ntrials: 1\n"
    )
    like = {"like": f"fedcorr/table2:{RHO}", "scale": "mine.yaml"}
    (spec,) = read_comparison(["halves(factor=0.25)"], {}, own, **like).runs.values()
    assert spec["method"]["factor"] == 0.25


def test_a_typed_option_is_not_replaced_by_the_scales(own):
    given = ["fedcorr(preprocessing_iterations=[1, 5])", "centralized+dividemix(warm_up_rounds=4)"]
    wanted = read_comparison(given, {}, own, seeds=1, like=f"fedcorr/table2:{RHO}")
    one, five, both = (spec["method"] for spec in wanted.runs.values())
    assert [one["preprocessing_iterations"], five["preprocessing_iterations"]] == [1, 5]
    assert one["finetuning_rounds"] == five["finetuning_rounds"] == 2  # the scale's
    assert both["parts"][1]["warm_up_rounds"] == 4


def test_the_partition_may_say_how_many_clients_there_are(own):
    wanted = read_comparison(["fedavg"], {"partition": "iid(clients=10)"}, own, seeds=1)
    assert "clients 20" not in wanted.describe()
    (spec,) = wanted.runs.values()
    assert spec["noisy_partition"]["partition"]["clients"] == 10


def test_a_list_may_have_the_words_of_yaml(own):
    wanted = read_comparison(["coteaching(double_division=[true, false])"], {}, own, seeds=1)
    assert [spec["method"]["double_division"] for spec in wanted.runs.values()] == [True, False]


def test_files_of_others_are_not_overwritten(own, tmp_path):
    path = tmp_path / "mine.yaml"
    places = Places(tmp_path / "results", [tmp_path / "data"], device="cpu")
    wanted = read_comparison(["fedavg"], {}, own, seeds=1)
    written = write_scale(wanted, path, places)
    assert write_scale(wanted, path, places) == written
    assert load_config([path]).results == tmp_path / "results"
    path.unlink()
    with pytest.raises(BadInput, match=r"mine/mine\.yaml: it exists, and was not written by"):
        write_scale(wanted, path, places)
    path.write_text("scale: mine\n")
    with pytest.raises(BadInput, match=r"mine\.yaml: it exists, and was not written by"):
        write_scale(wanted, path, places)


def test_values_are_chosen_on_the_validation_part_and_reported_on_the_test_part(own, tmp_path):
    wanted = read_comparison(["fedavg", "fedprox(mu=[0.1, 1, 2])"], {}, own, seeds=2)
    first = wanted.on_validation()
    assert [row.name for row in first.rows] == [row.name for row in wanted.rows[1:]]
    partitions = [spec["noisy_partition"] for spec in first.runs.values()]
    assert {one["dataset"] for one in partitions} == {"digits_validation"}
    last = wanted.choose({"fedprox(mu=0.1)": 70, "fedprox(mu=1)": 80, "fedprox(mu=2)": 80})
    assert [(row.name, row.note) for row in last.rows] == [
        ("fedavg", ""),
        ("fedprox(mu=1)", "chosen from 3"),
    ]
    assert set(last.runs) < set(wanted.runs)
    _, experiment = write_scale(
        last, tmp_path / "mine.yaml", Places(tmp_path, tmp_path), keep_models=True
    )
    (table,) = read_yaml(experiment)["tables"].values()
    assert table["note"] == "fedprox(mu=1): chosen from 3 on the validation part"
    assert load_config([tmp_path / "mine.yaml"]).keep_models


@pytest.mark.parametrize(
    ("given", "setting", "more", "said"),
    [
        (["fedavgg"], {}, {}, "no method is called 'fedavgg'; did you mean 'fedavg'?"),
        (["fedprox(mu=-1)"], {}, {}, "^methods: fedprox.mu: Input should be .* 0"),
        (["fedprox(mu=[])"], {}, {}, r"mu: got \[\], expected at least one value"),
        (["gce", "gce"], {}, {}, "methods: got .* expected each once"),
        (["gce", "gce(q=0.7)"], {}, {}, r"^methods: gce and gce\(q=0.7\) are the same run"),
        ("gce", {}, {}, "^methods: got 'gce', expected a list of methods"),
        (["gce"], {}, {"seeds": True}, "^seeds: got True, expected a whole"),
        (["gce"], {}, {"scale": "desk"}, "^scale: got 'desk', expected none without like"),
        (["gce"], {"clients": 5, "partition": "iid(clients=10)"}, {}, "^clients: got 5, expected"),
        (["gce"], {"clients": 5000}, {}, "partition: dirichlet: clients=5000"),
        (["gce"], {"learning_rate": []}, {}, r"^learning_rate: got \[\], expected at least one"),
        (["gce"], {"noise_level": []}, {}, r"^noise_level: got \[\], expected at least one"),
        (
            ["gce"],
            {"partition": "dirichlet(alpha=[])"},
            {},
            r"^partition: dirichlet.alpha: got \[\]",
        ),
        (["gce"], {"noise_level": [0.1, 0.1]}, {}, "^noise_level: got .* expected each once"),
        (["gce"], {"noise_level": [0.1, 2]}, {}, "^noise_level: constant.level: Input should be"),
        (["gce"], {"dataset": ["digits", "digit"]}, {}, "^dataset: no dataset is called 'digit'"),
        (["gce"], {"rounds": [5, 0]}, {}, "^rounds: Input should be .* 1"),
        (["gce"], {"rounds": 0}, {}, "^rounds: Input should be .* 1"),
        (["gce"], {"round": 1}, {}, "unknown keyword 'round'; did you mean 'rounds'?"),
        (["gce"], {"noise_level": 2}, {}, "^noise_level: constant.level: Input should be .* 1"),
        (["gce"], {"label_noise": "none", "noise_level": 0.1}, {}, "noise_level: got 0.1, exp"),
        (["gce"], {}, {"seeds": 0}, "seeds: got 0, expected a whole number from 1 to 1000"),
        (["gce"], {}, {"like": "fedcorr"}, "like: got 'fedcorr', expected <experiment>/<table>"),
        (["gce"], {}, {"like": "fedcor/table2:x"}, "like: no experiment is called 'fedcor'"),
        (["gce"], {}, {"like": "fedcorr/table2:x"}, "like: got 'x', expected one of 'ρ=0.0"),
        (["gce"], {}, {"like": "fedcorr/table2"}, "like: got no column, expected one of"),
    ],
)
def test_a_mistake_is_named_by_what_was_given(own, given, setting, more, said):
    with pytest.raises(BadInput, match=said) as raised:
        read_comparison(given, setting, own, **more)
    assert "\n" not in str(raised.value)


def test_names_of_the_command_line_are_used(own):
    with pytest.raises(BadInput, match=r"^--level: constant\.level: Input should be"):
        read_comparison(["gce"], {"noise_level": 2}, own, names={"noise_level": "--level"})


@pytest.mark.parametrize("name", ["mine.txt", "Mine.yaml", "data.yaml"])
def test_a_scale_needs_a_name_that_a_scale_may_have(name, tmp_path):
    with pytest.raises(BadInput, match="expected"):
        check_target(tmp_path / name)


def test_only_what_has_several_values_and_a_validation_part_can_be_chosen(own):
    with pytest.raises(BadInput, match="no method has several values of an option"):
        read_comparison(["fedprox(mu=1)"], {}, own).on_validation()
    wanted = read_comparison(["fedprox(mu=[1, 2])"], {"dataset": "digits_open", "clients": 5}, own)
    with pytest.raises(BadInput, match="digits_open has no validation part"):
        wanted.on_validation()


@pytest.mark.parametrize(
    ("clients", "share"),
    [(1, 1), (2, 1), (3, 2 / 3), (5, 0.6), (8, 0.5), (10, 0.4), (16, 0.25), (20, 0.25)],
)
def test_four_clients_or_half_of_all_take_part_where_nobody_says_how_many(own, clients, share):
    found = read_comparison(["gce"], {"clients": clients}, own)
    assert found.settings[0].setting["schedule"]["participation"] == pytest.approx(share, abs=1e-3)
    given = read_comparison(["gce"], {"clients": clients, "participation": 0.1}, own)
    assert given.settings[0].setting["schedule"]["participation"] == 0.1
    assert any("of 5 clients takes part" in one for one in given.remarks()) == (clients == 5)


def test_a_column_has_the_title_of_own_data(tmp_path):
    own_sets.as_csv(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    text = "images(path='train.csv', test='test.csv', title='Insects')"
    found = read_comparison(["gce"], {"dataset": text, "clients": 2}, own)
    assert found.settings[0].name == "Insects, dirichlet(alpha=0.5)"
    assert read_comparison(["gce"], {}, own).settings[0].name == (
        "digits, dirichlet(alpha=0.5), symmetric, constant(level=0.4)"
    )
