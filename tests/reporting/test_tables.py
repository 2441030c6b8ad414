import csv
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pandas as pd
import pytest
import yaml
from docutils.core import publish_parts
from docutils.writers import get_writer_class

from noisyfl.artifacts import DamagedArtifact, RunFiles, write_json
from noisyfl.options import BadInput
from noisyfl.reporting.published import read_published
from noisyfl.reporting.runs import read_runs
from noisyfl.reporting.tables.cells import collect
from noisyfl.reporting.tables.printing import print_table
from noisyfl.reporting.tables.settings import banner, component, duration, making, settings

ROOT = Path(__file__).parents[2]
LOW, HIGH = "level=low", "level=high"

FIELDS = (
    "paper,table,dataset,setting_scope,partition,noise,method,variant,metric,value,unit,std,trials,"
    "statistic,converged,note"
)
PUBLISHED = f"""{FIELDS}
p,t1,cifar10,centralized,iid(n=100),low,dividemix,,test_accuracy,95.64,percent,0.05,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedavg,,test_accuracy,93.11,percent,0.12,5,best,,
p,t1,cifar10,federated,iid(n=100),high,fedavg,,test_accuracy,72.00,percent,2.76,5,best,,
p,t1,cifar10,federated,iid(n=100),high,fedavg,,label_recall,10.00,percent,,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedcorr,,test_accuracy,93.82,percent,0.41,5,best,,
p,t1,cifar10,federated,iid(n=100),low,fedcorr,without_mixup,test_accuracy,90.63,percent,0.70,5,best,,
p,t1,cifar10,federated,iid(n=100),high,rofl,,test_accuracy,0.741,fraction,,5,best,False,
p,t1,cifar100,federated,iid(n=100),low,fedavg,,test_accuracy,11.11,percent,,5,best,,
p,t2,cifar10,federated,iid(n=100),low,fedavg,,test_accuracy,22.22,percent,,5,best,,
"""


@pytest.fixture
def table(runs, tmp_path):
    """A table of two methods in two settings, with three trials a cell."""
    (tmp_path / "published.csv").write_text(PUBLISHED)
    low = {"noise_level": "bernoulli_uniform(rho=0.5, tau=0.0)"}
    accuracies = {
        ("fedavg", LOW): [[0.5, 0.80, 0.70], [0.5, 0.70, 0.60], [0.5, 0.90, 0.80]],
        ("fedavg", HIGH): [[0.5, 0.60], [0.5, 0.60], [0.5, 0.60]],
        ("mixed", LOW): [[0.5, 0.85], [0.5, 0.95], [0.5, 0.90]],
        ("mixed", HIGH): [[0.1, 0.30], [0.1, 0.40], [0.1, 0.50]],
    }
    method = {"fedavg": "fedavg", "mixed": 'fedcorr(variant="without_mixup")'}
    ids = {
        (row, column): [
            runs.add(trial, method=method[row], seed=seed, **({} if column == HIGH else low))
            for seed, trial in enumerate(trials, 1)
        ]
        for (row, column), trials in accuracies.items()
    }
    description = {
        "experiment": "p",
        "experiment_title": "A paper",
        "name": "t1",
        "title": "Table 1: two | methods",
        "note": "Take note.",
        "scale": "tiny",
        "scale_note": "",
        "metric": "test_accuracy",
        "statistic": "best",
        "published": {
            "paper": "p",
            "table": "t1",
            "dataset": "cifar10",
            "setting_scope": "federated",
        },
        "columns": [
            {"name": LOW, "published": {"noise": "low"}},
            {"name": HIGH, "published": {"noise": "high"}},
        ],
        "rows": [
            {"name": "FedAvg", "published": {}, "method": "fedavg"},
            {"name": "w/o mixup", "published": {}, "method": method["mixed"]},
        ],
        "runs": [[ids[row, column] for column in (LOW, HIGH)] for row in ("fedavg", "mixed")],
        "as_published": [[False, False], [False, False]],
    }
    return SimpleNamespace(description=description, runs=runs, folder=tmp_path)


def printed(table):
    """The three files' texts."""
    out = {ending: table.folder / "out" / f"t1.{ending}" for ending in ("csv", "md", "html", "tex")}
    print_table(
        table.description,
        table.runs.files,
        table.folder / "published.csv",
        csv=out["csv"],
        markdown=out["md"],
        html=out["html"],
        tex=out["tex"],
    )
    assert sorted(path.name for path in out["md"].parent.iterdir()) == [
        "t1.csv",
        "t1.html",
        "t1.md",
        "t1.tex",
    ]
    return {ending: path.read_text() for ending, path in out.items()}


def numbers(table):
    """The CSV file as pandas reads it."""
    printed(table)
    return pd.read_csv(table.folder / "out" / "t1.csv").set_index("row")


def content(table):
    published = read_published(table.folder / "published.csv")
    return collect(table.description, read_runs(table.runs.files), published)


def markdown_cells(text, row):
    """The cells of one row of the page's table."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row}")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


class Text(HTMLParser):
    """The text of a page, and the tags it is made of."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data.strip())


def test_csv_has_every_number(table):
    csv_file = numbers(table)
    assert list(csv_file.index) == [
        "FedAvg",
        "w/o mixup",
        "dividemix (centralized)",
        "fedcorr",
        "rofl",
    ]
    ours = csv_file.loc["FedAvg"]
    assert ours[f"{LOW} mean"] == 80
    assert ours[f"{LOW} std"] == 10
    assert ours[f"{LOW} trials"] == 3
    assert ours[f"{LOW} diverged"] == 0
    assert ours[f"{LOW} published"] == 93.11
    assert ours[f"{LOW} published std"] == 0.12
    assert ours[f"{LOW} best"] == 80
    assert ours[f"{LOW} last"] == 70
    assert ours[f"{LOW} mean_last_10"] == pytest.approx(200 / 3, abs=1e-6)
    assert ours[f"{LOW} final_or_max"] == 80
    assert ours[f"{LOW} best by run"] == "80.0 70.0 90.0"
    assert ours[f"{LOW} last by run"] == "70.0 60.0 80.0"
    assert ours[f"{LOW} status by run"] == "finished finished finished"
    assert ours[f"{LOW} runs"].split() == table.description["runs"][0][0]
    assert ours[f"{HIGH} mean"] == 60
    assert ours[f"{HIGH} std"] == 0
    assert ours[f"{HIGH} published"] == 72
    assert csv_file["trained"].tolist() == [True, True, False, False, False]


def test_a_difference_is_given_only_in_the_papers_setting(table):
    assert numbers(table)[f"{LOW} difference"].isna().all()
    table.description["as_published"] = [[True, False], [False, True]]
    csv_file = numbers(table)
    assert csv_file.loc["FedAvg", f"{LOW} difference"] == pytest.approx(80 - 93.11)
    assert csv_file[f"{LOW} as published"].tolist() == [True, False, False, False, False]
    assert csv_file[f"{HIGH} difference"].isna().all()  # FedAvg's is foreign, the other unpublished


def test_published_numbers_of_rows_with_and_without_a_variant(table):
    csv_file = numbers(table)
    assert csv_file.loc["w/o mixup", f"{LOW} published"] == 90.63
    assert pd.isna(csv_file.loc["w/o mixup", f"{HIGH} published"])
    table.description["rows"][1]["published"] = {"variant": ""}
    csv_file = numbers(table)
    assert csv_file.loc["w/o mixup", f"{LOW} published"] == 93.82
    assert csv_file.loc["fedcorr (without_mixup)", f"{LOW} published"] == 90.63


def test_a_method_given_as_a_mapping_selects_as_its_text_does(table):
    before = printed(table)
    table.description["rows"][1]["method"] = {"name": "fedcorr", "variant": "without_mixup"}
    assert printed(table) == before


def test_several_published_numbers_for_a_cell_are_refused(table):
    del table.description["published"]["setting_scope"], table.description["published"]["dataset"]
    message = r"p/t1: row 'FedAvg', column 'level=low': .* lines 3, 9 fit; they differ in dataset"
    with pytest.raises(BadInput, match=message):
        printed(table)


def test_an_unknown_column_of_the_published_numbers_is_refused(table):
    table.description["columns"][0]["published"] = {"nois": "low"}
    with pytest.raises(BadInput, match=r"no column 'nois'; did you mean 'noise'"):
        printed(table)


def test_rows_of_the_paper_alone_are_shown_as_not_run(table):
    text = printed(table)["md"]
    assert markdown_cells(text, "dividemix") == [
        "dividemix (centralized), not run",
        "(95.64)",
        "",
    ]
    assert markdown_cells(text, "rofl") == ["rofl, not run", "", r"(74.10\*)"]
    assert "22.22" not in text  # of another table
    assert "11.11" not in text  # of another dataset
    assert "Not run:" in text
    assert r"\*: the maximum" in text


def test_what_the_columns_do_not_select_by_tells_the_papers_rows_apart(table):
    published = table.folder / "published.csv"
    more = "p,t1,cifar10,federated,iid(n=9),low,rofl,,test_accuracy,50.5,percent,,5,best,,\n"
    published.write_text(PUBLISHED + more)
    rows = {row.name: row for row in content(table).rows}
    assert rows["rofl (iid(n=9))"].cells[0].published.value == 50.5
    assert rows["rofl (iid(n=100))"].cells[1].published.value == pytest.approx(74.1)


def test_markdown_shows_ours_beside_the_papers_and_the_best_in_bold(table):
    text = printed(table)["md"]
    assert text.startswith("# Table 1: two \\| methods\n")
    assert markdown_cells(text, "FedAvg") == [
        "FedAvg",
        "80.00 ± 10.00 (93.11)",
        "**60.00 ± 0.00** (72.00)",
    ]
    assert markdown_cells(text, "w/o") == [
        "w/o mixup",
        "**90.00 ± 5.00** (90.63)",
        "40.00 ± 10.00",
    ]
    assert "- Take note." in text


def test_the_banner_says_what_stands_in(table):
    text = printed(table)["md"]
    assert "> **Scale “tiny”: not the paper's settings." in text
    assert banner(content(table))[1:] == [
        "digits stands in for cifar10.",
        "10 clients; the paper has 100.",
        "3 trials; the paper has 5.",
        "Here: digits, 10 clients, 30 rounds, participation 0.3, 2 local epochs, model cnn.",
    ]
    assert "†" not in text


def test_without_strangers_there_is_no_banner(table):
    table.description["as_published"] = [[True, True], [True, True]]
    assert banner(content(table)) == []
    files = printed(table)
    assert "not the paper's settings" not in files["md"] + files["html"]
    assert "†" not in files["md"] + files["html"]


def test_strangers_among_cells_of_the_paper_are_marked(table):
    table.description["as_published"] = [[True, True], [False, True]]
    text = printed(table)["md"]
    assert markdown_cells(text, "w/o")[1] == "**90.00 ± 5.00**† (90.63)"
    assert markdown_cells(text, "FedAvg")[1] == "80.00 ± 10.00 (93.11) -13.11 ≠"
    assert "the numbers marked † were not made in the paper's settings" in text


def test_a_table_of_no_paper_has_no_published_numbers(table):
    table.description["published"] = None
    csv_file = numbers(table)
    assert list(csv_file.index) == ["FedAvg", "w/o mixup"]
    assert csv_file[f"{LOW} published"].isna().all()
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == "80.0 ± 10.0"
    assert "Scale “tiny”: its values are laid over this experiment's own settings." in text
    assert "brackets" not in text


def test_diverged_trials_are_shown_and_leave_the_mean(table):
    cell = [
        table.runs.add([0.5, 0.99, 0.1], seed=11, provenance={"status": "diverged"}),
        table.runs.add([0.5, 0.98], seed=12),
        table.runs.add([0.1], seed=13, provenance={"status": "diverged"}),
    ]
    table.description["runs"][0][0] = cell
    table.description["runs"][1][1] = [cell[0], cell[2]]
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == "98.00, diverged (2 of 3) (93.11)"
    assert markdown_cells(text, "w/o")[1] == "**90.00 ± 5.00** (90.63)"  # 98 is not the best
    assert markdown_cells(text, "w/o")[2] == "diverged (2 of 2)"
    assert "Diverged: in so many trials" in text
    csv_file = numbers(table)
    assert csv_file.loc["FedAvg", f"{LOW} diverged"] == 2
    assert csv_file.loc["FedAvg", f"{LOW} trials"] == 1
    # The evaluation of a model that is no longer finite counts for nothing.
    assert csv_file.loc["FedAvg", f"{LOW} last by run"] == "99.0 98.0 nan"
    assert csv_file.loc["FedAvg", f"{LOW} status by run"] == "diverged finished diverged"
    assert pd.isna(csv_file.loc["w/o mixup", f"{HIGH} mean"])


def test_a_cell_of_most_unconverged_runs_is_starred(table):
    table.description["statistic"] = "final_or_max"
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == r"80.00\* ± 10.00 (93.11)"
    steady = [table.runs.add([0.9, 0.4, 0.4, 0.4, 0.4, 0.4], seed=s) for s in (21, 22)]
    table.description["runs"][0][0] = steady
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[1] == "40.00 ± 0.00 (93.11)"


def test_one_trial_has_no_spread(table):
    table.description["runs"] = [[cell[:1] for cell in row] for row in table.description["runs"]]
    files = printed(table)
    assert markdown_cells(files["md"], "FedAvg")[1] == "80.00 (93.11)"
    assert "a single trial" in files["md"]
    assert numbers(table)[f"{LOW} std"].isna().all()


def test_rounds_without_an_evaluation_are_skipped(table):
    run = table.runs.add([None, 0.2, None, 0.4], seed=31)
    table.description["runs"][0][0] = [run]
    row = numbers(table).loc["FedAvg"]
    assert row[f"{LOW} mean_last_10"] == pytest.approx(30)
    assert row[f"{LOW} last"] == 40


def test_settings_are_told_once_where_they_are_common(table):
    found = {setting.name: setting.values for setting in settings(content(table))}
    assert found["dataset"] == {"": "digits"}
    assert found["rounds"] == {"": "30"}
    assert found["noise level"] == {
        LOW: "bernoulli_uniform(rho=0.5, tau=0.0)",
        HIGH: "bernoulli_uniform(rho=0.5, tau=0.5)",
    }
    text = printed(table)["md"]
    assert f"| noise level | {LOW} | `bernoulli_uniform(rho=0.5, tau=0.0)` |" in text
    assert "- FedAvg: `fedavg`, revision " in text
    assert "mixup=False" in text


def test_settings_that_follow_the_rows_or_single_cells(table):
    run = table.runs.add([0.5], seed=41, schedule={**table.runs.setting["schedule"], "rounds": 60})
    table.description["runs"][1] = [[run], [run]]
    found = {setting.name: setting.values for setting in settings(content(table))}
    assert found["rounds"] == {"FedAvg": "30", "w/o mixup": "60"}
    table.description["runs"][1] = [[run], table.description["runs"][0][1]]
    found = {setting.name: setting.values for setting in settings(content(table))}
    assert found["rounds"] == {
        f"FedAvg, {LOW}; FedAvg, {HIGH}; w/o mixup, {HIGH}": "30",
        f"w/o mixup, {LOW}": "60",
    }


def test_a_shared_run_is_counted_once_and_sources_are_told_apart(table):
    made = making(content(table))
    assert made["runs"] == ["12 runs, 3 trials a cell"]
    assert made["training time"] == ["20 min 0 s"]
    assert made["device"] == ["a small CPU"]
    assert made["source digest"] == ["d" * 16]
    other = table.runs.add([0.5], seed=51, provenance={"source_digest": "e" * 64})
    table.description["runs"][0][1] = [*table.description["runs"][0][0], other]
    made = making(content(table))
    assert made["runs"] == ["10 runs, 3 or 4 trials a cell"]
    assert made["source digest"] == [
        "2 different ones",
        f"{'d' * 16} (9 runs)",
        f"{'e' * 16} (1 run)",
    ]


def test_every_run_of_a_cell_is_named(table):
    files = printed(table)
    for row in table.description["runs"]:
        for cell in row:
            assert ", ".join(f"`{run}`" for run in cell) in files["md"]
            assert all(f"<code>{run}</code>" in files["html"] for run in cell)


def test_a_run_that_was_reproduced_before_is_marked(table):
    run = table.description["runs"][0][0][1]
    moved = table.folder / "reproduced" / "runs" / run
    table.runs.files[run].folder.rename((moved.parent.mkdir(parents=True), moved)[1])
    table.runs.files[run] = RunFiles(moved)
    files = printed(table)
    assert f"`{run}` (reproduced)," in files["md"]
    assert files["md"].count("(reproduced)") == files["html"].count("(reproduced)") == 1


def test_html_is_whole_and_needs_nothing_else(table):
    table.description["title"] = "Table <1> & more"
    page = printed(table)["html"]
    parsed = Text(page)
    tags = {tag for tag, _ in parsed.tags}
    assert not tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?://|@import|url\(", page)
    assert "Table <1> & more" in parsed.text
    assert "80.00 ± 10.00" in parsed.text
    assert "(93.11 ± 0.12)" in parsed.text
    assert '<span class="best">90.00 ± 5.00</span>' in page
    assert "digits stands in for cifar10." in parsed.text
    assert parsed.text.count("not run") == 3


def test_the_same_runs_print_the_same_bytes(table):
    assert printed(table) == printed(table)


def test_a_run_in_another_runs_folder_is_refused(table):
    run = table.description["runs"][0][0][0]
    files = table.runs.files[run]
    spec = files.spec.read_text()
    write_json(files.spec, {"seed": 7})
    with pytest.raises(DamagedArtifact, match=f"expected the run {run}, found "):
        printed(table)
    files.spec.write_text(spec)
    other = table.description["runs"][0][0][1]
    files.rounds.write_bytes(table.runs.files[other].rounds.read_bytes())
    with pytest.raises(DamagedArtifact, match=f"expected the run {run}, found {other}"):
        printed(table)


def test_an_unknown_unit_is_refused(table):
    text = PUBLISHED.replace("93.11,percent", "93.11,hours")
    (table.folder / "published.csv").write_text(text)
    with pytest.raises(BadInput, match="line 3: unit 'hours', expected percent or fraction"):
        printed(table)


def test_the_papers_numbers_can_be_read():
    rows = read_published(ROOT / "config" / "published.csv")
    with (ROOT / "config" / "published.csv").open() as file:
        assert len(rows) == len(list(csv.reader(file))) - 1
    accuracies = [row for row in rows if row.fields["metric"] == "test_accuracy"]
    assert all(0 <= row.value <= 100 for row in accuracies)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (9.6, "10 s"),
        (59.9, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7260, "2 h 1 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_component_is_written_as_in_a_configuration():
    given = {"name": "x", "alpha": 0.5, "count": "exact", "cap": False, "revision": 3}
    assert component(given) == "x(alpha=0.5, count='exact', cap=False)"
    assert component({"name": "none"}) == "none"


@pytest.mark.parametrize("scale", ["config", "smoke", "paper"])
@pytest.mark.parametrize("page", ["front", "table", "figure"])
def test_report_texts_render_at_every_scale(scale, page):
    config = yaml.safe_load((ROOT / "config" / f"{scale}.yaml").read_text())
    params = SimpleNamespace(title="Table 2: ρ=0.0", caption="What is seen.")
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # as Snakemake's
    template = environment.from_string((ROOT / "workflow" / "report" / f"{page}.rst").read_text())
    text = template.render(snakemake=SimpleNamespace(config=config, params=params))
    strict = {"halt_level": 2, "report_level": 2}
    writer = get_writer_class("html")()
    html = publish_parts(text, writer=writer, settings_overrides=strict)["html_body"]
    assert config["scale"] in html
    assert ("digits" in html) == (scale != "paper")
    assert ("Table 2: ρ=0.0" in html) == (page != "front")


def test_a_scale_says_what_its_numbers_are_worth(table):
    table.description["scale_note"] = "Worth *nothing*."
    assert "> - Worth \\*nothing\\*." in printed(table)["md"]
    assert "<li>Worth *nothing*.</li>" in printed(table)["html"]


def test_a_starred_best_number_stays_bold_in_markdown(table):
    table.description["statistic"] = "final_or_max"
    assert markdown_cells(printed(table)["md"], "w/o")[1].startswith("**90.00\\* ± 5.00**")
