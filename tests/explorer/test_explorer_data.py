"""What the explorer knows, held against what it was made of."""

import gzip
import json
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

import small_explorer as small
from noisyfl.analysis.runs import read_run
from noisyfl.checks.small_run import spec_of
from noisyfl.claims.findings import Case, Check, Finding
from noisyfl.claims.labels import Place
from noisyfl.core import plugins
from noisyfl.data import noisy_partition
from noisyfl.explorer.curves import POINTS, details, pack, whole
from noisyfl.explorer.gather import ShownScale, gather
from noisyfl.explorer.methods import describe_methods
from noisyfl.explorer.page import (
    ASSETS,
    MODULES,
    compress,
    explorer_page,
    fidelity_link,
    script,
)
from noisyfl.explorer.specs import describe_spec
from noisyfl.specs.catalogue import methods
from outside import PARTS, as_before


@pytest.fixture(scope="module")
def made(tmp_path_factory, runs_in):
    folder = tmp_path_factory.mktemp("explorer")
    sources = small.small_scale(folder, runs_in(folder / "results"))
    return sources, *gather(sources)


def cell(index, table, row, column):
    (found,) = [one for one in index["tables"] if one["name"] == table]
    (line,) = [one for one in found["rows"] if one["name"] == row]
    names = [one["name"] for one in found["columns"]]
    return index["cells"][line["cells"][names.index(column)]]


def unsteps(text):
    return (np.cumsum([int(step) for step in text.split(",")]) / 100).tolist()


def test_a_cell_has_ours_the_published_number_and_the_verdict(made):
    _, index, _ = made
    found = cell(index, "p/t1", "Row of fedavg", small.LOW)
    assert (found["ours"], found["printed"], found["verdict"]) == (
        "71.50 ± 0.71",
        "72.00",
        "supported",
    )
    assert cell(index, "p/t1", "Row of fedavg", small.HIGH)["verdict"] == "not supported"
    assert cell(index, "p/t1", "Row of fedcorr", small.LOW)["rank"] == (1, 2)
    assert cell(index, "p/t2", "Row of fedavg", small.LOW)["printed"] == ""


def test_a_number_over_fewer_seeds_than_a_cell_has_names_them(made):
    _, index, _ = made
    seeds = {
        (method, column): cell(index, "p/t1", f"Row of {method}", column)["seeds"]
        for method in ("fedavg", "fedcorr")
        for column in (small.LOW, small.HIGH)
    }
    assert seeds == {
        ("fedavg", small.LOW): [1, 2],
        ("fedavg", small.HIGH): [1],
        ("fedcorr", small.LOW): [],
        ("fedcorr", small.HIGH): [],
    }


def test_a_stored_run_is_told_from_one_that_its_command_finds(made):
    sources, index, _ = made
    assert not any(run["stored"] for run in index["runs"])
    elsewhere, *_ = reversed(sources.layouts)
    index, _ = gather(replace(sources, layouts=[elsewhere, sources.layouts[0]]))
    assert all(run["stored"] for run in index["runs"])


def test_a_run_that_failed_and_one_that_diverged_say_so(made):
    _, index, _ = made
    failed = cell(index, "p/t1", "Row of fedprox", small.HIGH)
    assert list(failed["failed"].values()) == [f"CUDA: out of memory {small.EVIL}"]
    assert failed["missing"] == list(failed["failed"])
    diverged = cell(index, "p/t1", "Row of fedcorr", small.HIGH)
    assert diverged["diverged"] == 1
    assert diverged["ours"].startswith("diverged")


def test_a_line_of_the_papers_alone_has_no_runs_and_no_setting(made):
    _, index, _ = made
    (row,) = [row for row in index["tables"][0]["rows"] if not row["trained"]]
    only = index["cells"][row["cells"][0]]
    assert (only["printed"], only["runs"], only["spec"]) == ("80.00", [], None)


def test_a_cell_that_is_computed_says_so_whether_or_not_it_has_a_number(two_papers):
    index, _ = gather(two_papers)
    told = {
        (row, column): cell(index, "q/t2", f"Row of {row}", column)
        for row in small.METHODS
        for column in (small.LOW, "Mean", "Average rank")
    }
    assert {column for (_, column), one in told.items() if one["computed"]} == {
        "Mean",
        "Average rank",
    }
    assert told["fedavg", "Mean"]["mean"] == pytest.approx((71.5 + 60) / 2)
    assert told["fedprox", "Mean"]["mean"] is None
    assert {at for at, one in told.items() if one["averages"]} == {("fedavg", "Mean")}
    assert not any(one["computed"] for one in index["cells"] if one["table"] == 0)


def test_what_differs_from_the_papers_setting_can_be_told(made):
    _, index, _ = made
    found = cell(index, "p/t1", "Row of fedprox", small.LOW)
    ours, theirs = (index["specs"][found[key]]["setting"] for key in ("spec", "theirs"))
    assert {key for key in ours if ours[key] != theirs[key]} == {"clients", "partition"}
    assert theirs["clients"] == "100"


def test_a_spec_that_was_read_from_a_file_is_described_like_that_of_a_plan():
    spec = spec_of("fedavg", noise_level="client_linear(low=0.1, high=0.8)")
    assert list(spec["noisy_partition"]["noise_level"])[:3] == ["name", "low", "high"]
    read = json.loads(json.dumps(spec, sort_keys=True))
    assert describe_spec(read) == describe_spec(spec)


def test_seeds_share_a_spec(made):
    _, index, _ = made
    runs = cell(index, "p/t1", "Row of fedavg", small.LOW)["runs"]
    assert len({index["runs"][run]["id"] for run in runs}) == 3
    assert len({index["runs"][run]["spec"] for run in runs}) == 1


def test_curves_are_those_of_the_runs(made):
    _, index, details = made
    first = cell(index, "p/t1", "Row of fedcorr", small.LOW)["runs"][0]
    curves = details["runs"][first]["curves"]
    assert unsteps(curves["test_accuracy"][0]) == [1, 2, 3]
    assert unsteps(curves["test_accuracy"][1]) == pytest.approx([60, 91, 90])
    assert unsteps(curves["label_precision"][1]) == pytest.approx([50, 70, 90])
    told = details["runs"][first]["estimates"]["estimated_noise_level"]
    assert told["values"].split(",")[3] == "30.0"
    assert unsteps(details["runs"][first]["relabelled"]["pseudo_label_accuracy"][1]) == [90]


def test_curves_of_what_a_method_reports_are_finer(runs):
    rows = [{"round": n, "client": 0, "depth": depth} for n, depth in ((1, 0.0123), (2, 0.0456))]
    run = runs.add([0.1, 0.2], clients=rows)
    found = details(read_run(run, runs.files[run]), ["clients.depth"])["curves"]
    x, y, finer = found["clients.depth"]
    assert unsteps(x) == [1, 2]
    assert [value / int(finer) for value in unsteps(y)] == pytest.approx([0.0123, 0.0456])


def test_a_label_accuracy_that_never_changes_is_no_thought(made):
    _, index, details = made
    first = cell(index, "p/t1", "Row of fedavg", small.LOW)["runs"][0]
    assert set(details["runs"][first]["curves"]) == {"test_accuracy"}


def test_a_partition_counts_classes_and_wrong_labels_by_client(made):
    sources, index, details = made
    whole = set()
    for name, told in details["partitions"].items():
        real = noisy_partition.read(sources.layouts[0].partition(name))
        assert told["noise"] == [round(100 * level, 1) for level in real.realised]
        if list(told) == ["noise"]:  # it is of a later seed
            continue
        whole.add(name)
        counts, wrong = (
            np.array([int(one or 0) for one in told[key].split(",")]).reshape(10, 10)
            for key in ("counts", "wrong")
        )
        for client, samples in enumerate(real.clients):
            assert counts[client].sum() == len(samples.samples)
            assert wrong[client].sum() == (samples.given_label != samples.true_label).sum()
            assert (wrong[client] <= counts[client]).all()
    runs = [cell["runs"][0] for cell in index["cells"] if cell["runs"]]
    assert {index["runs"][run]["partition"] for run in runs} == whole
    assert {run["partition"] for run in index["runs"]} == set(details["partitions"])


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    x = np.arange(1.0, 1001)
    curve = pack(x, x / 10)
    assert len(curve[0].split(",")) == POINTS
    assert [unsteps(curve[0])[end] for end in (0, -1)] == [1, 1000]
    assert unsteps(curve[1])[-1] == 100


def test_zeros_are_empty():
    assert whole(np.array([[0, 3], [12, 0]])) == ",3,12,"


def test_a_claim_knows_the_cells_that_decided_it_on_both_sides(made):
    _, index, _ = made
    (claim,) = index["claims"]
    sides = {"published": ("supported", small.LOW), "ours": ("not supported", small.HIGH)}
    for side, (verdict, column) in sides.items():
        assert claim[side]["verdict"] == verdict
        (number,) = claim[side]["checks"][0]["cases"][0]["cells"]
        assert index["cells"][number] is cell(index, "p/t1", "Row of fedavg", column)


def test_a_claim_counts_the_cases_that_are_not_shown_and_names_figures(made):
    sources, *_ = made
    figure = Place("p/figure1", "FedAvg", "low")
    cases = [Case(str(n), f"{n} > 0", n, True, (figure,)) for n in range(1, 6)]
    unknown = Case("6", "nan > 0", float("nan"), None)
    told = Finding((Check("it is better", (*cases, unknown)),))
    index, _ = gather(replace(sources, judgements=[replace(small.claim(), ours=told)]))
    ours = index["claims"][0]["ours"]
    (check,) = ours["checks"]
    assert [case["text"] for case in check["cases"]] == ["1: 1 > 0 ✓", "2: 2 > 0 ✓", "3: 3 > 0 ✓"]
    assert check["more"] == 2
    assert ours["elsewhere"] == ["p/figure1"]
    assert index["claims"][0]["published"]["elsewhere"] == []


def test_paper_scale_tables_are_beside_the_scales_own_and_no_claims(made):
    sources, *_ = made
    (table, *_), runs = sources.tables, dict(sources.runs)
    files = {run: runs[run] for run in table.run_ids() if run in runs}
    shown = ShownScale("big", "As printed.", {}, "--configfile config/big.yaml")
    index, _ = gather(replace(sources, paper_scale=shown, paper_scale_tables=[(table, files)]))
    assert list(index["scales"]) == ["tiny", "big"]
    assert [one["scale"] for one in index["tables"]] == ["tiny"] * len(sources.tables) + ["big"]
    own, other = (cell(index, name, "Row of fedavg", small.LOW) for name in ("p/t1", "big/p/t1"))
    assert other["runs"] == own["runs"]
    assert other["mean"] == own["mean"]


def test_methods_that_know_true_labels_or_pool_samples_are_bounds():
    bounds = {name for name, one in describe_methods().items() if one["bound"]}
    assert bounds == {"oracle", "centralized"}


def test_every_method_has_its_module_its_options_and_their_reasons():
    found = describe_methods()
    assert set(found) == set(methods())
    for name, one in found.items():
        assert one["about"], name
        assert [option["name"] for option in one["options"]] == list(methods()[name].model_fields)
        assert one["title"], name
    prox = next(o for o in found["fedcorr"]["options"] if o["name"] == "prox_form")
    assert list(prox["why"]) == ["paper", "code", "reason"]
    assert prox["why"]["reason"].startswith("the code. The two are different")


def test_notes_about_an_option_are_quoted_where_it_has_no_reason_of_its_own():
    found = {option["name"]: option["why"] for option in describe_methods()["rofl"]["options"]}
    assert '`pseudo_label_form="hard"`' in found["pseudo_label_form"]["reason"]
    assert all(not text.startswith("|") for why in found.values() for text in why.values())


def test_the_script_has_every_module_and_no_import():
    assert {path.stem for path in ASSETS.glob("*.js")} == set(MODULES)
    assert "\nimport " not in script()
    assert "\nexport " not in script()


def test_the_page_holds_what_was_packed_and_no_tag_of_it(made):
    _, index, details = made
    page = explorer_page(index, details, small.EVIL)
    assert small.EVIL not in page
    assert compress(json.dumps(index, separators=(",", ":"))) in page
    assert json.loads(gzip.decompress(b64decode(compress('{"a":1}')))) == {"a": 1}


def test_a_page_links_to_reasons_that_lie_where_its_browser_looks(tmp_path):
    path = tmp_path / "clone" / "results" / "tiny" / "explorer.html"
    assert fidelity_link(path) is None
    there = tmp_path / "clone" / "docs" / "fidelity.md"
    there.parent.mkdir(parents=True)
    there.touch()
    assert fidelity_link(path) == "../../docs/fidelity.md"
    one = path.with_name("explorer") / "fedcorr" / "table2.html"
    assert fidelity_link(one) == "../../../../docs/fidelity.md"
    # The results lie elsewhere: what a browser makes of ".." is not what a disk does.
    elsewhere = tmp_path / "elsewhere" / "results"
    (elsewhere / "tiny").mkdir(parents=True)
    assert fidelity_link(elsewhere / "tiny" / "explorer.html") is None
    path.parents[1].symlink_to(elsewhere)
    assert fidelity_link(path) == "../../docs/fidelity.md"


def test_a_plugins_method_is_described_by_its_file(tmp_path):
    (tmp_path / "my_parts.py").write_text(PARTS)
    with as_before():
        plugins.load([str(tmp_path / "my_parts.py")])
        found = describe_methods()["halves"]
    assert found["about"] == "A method, a model, a label noise and a dataset of one's own."
    assert found["file"] == "my_parts.py"
    assert found["options"][0]["meaning"] == "of the loss"
