"""The page of every method: what it says of each, and what people wrote there."""

import dataclasses

import pytest

from noisyfl.analysis.runs import read_runs
from noisyfl.pages.explanations import Why
from noisyfl.pages.methods import methods_page
from small_tables import HIGH, LOW, content, table_in


@pytest.fixture
def runs(runs):
    """Whose rounds have what every run records."""
    add = runs.add

    def whole(accuracies, columns=None, **given):
        size = len(accuracies)
        always = {"participants_noise_level": [0.4] * size, "samples_backward": [100.0] * size}
        always |= {"participants": [1] * size, "label_accuracy": [0.6] * size}
        return add(accuracies, columns={**always, **(columns or {})}, **given)

    runs.add = whole
    return runs


@pytest.fixture
def table(runs, tmp_path):
    return table_in(tmp_path, runs)


def described(table):
    return content(table).description


def page_of(description, runs, reasons=None):
    page = methods_page(description, runs, reasons or {})
    assert "\n\n\n" not in page
    return page


def test_a_method_is_held_against_fedavg_setting_by_setting(table, runs):
    description = described(table)
    page = page_of(description, read_runs(runs.files))
    # Means of the last half of fewer than ten evaluations: 75 % and 60 % for FedAvg.
    assert f"| {LOW} | 3 | 75.0 | 80.0," in page
    assert "| Setting | Trials | Accuracy | Best, after rounds |\n|---|---|---|---|" in page
    assert (
        "w/o mixup is better than FedAvg in 1 of 2 settings (significantly better in 0, "
        "significantly worse in 1): +15.0 points on level=low, -40.0 on level=high." in page
    )
    assert f"| {HIGH} | 3 | 20.0 | 60.0 | 40.0," in page
    assert f"| Method | {LOW} | {HIGH} |" in page
    assert "| w/o mixup | **90.0** | 20.0 ▼ |" in page
    assert "| level=low | 75.0 ± 10.0 |  | 13.2 | 0 | 0 |" in page
    assert "| level=high | 60.0 ± 0.0 |  | 0.0 | 0 | 1 |" in page
    assert "than FedAvg in each of these settings: none. In none: w/o mixup." in page
    assert "Of the 12 runs in 2 settings, 12 exist." in page


def test_a_row_without_runs_is_named(table, runs):
    table.description["runs"][1] = [[], []]
    table.description |= {"missing": 6}
    page = page_of(described(table), read_runs(runs.files))
    assert "Not run yet: w/o mixup." in page
    assert "## w/o mixup" not in page
    assert "6 exist" in page


def test_of_a_column_that_is_not_whole_nothing_is_best(table, runs):
    table.description["runs"][1][1] = []
    table.description |= {"missing": 3}
    page = page_of(described(table), read_runs(runs.files))
    assert "| FedAvg | 75.0 | 60.0 |" in page
    assert "| w/o mixup | **90.0** | – |" in page


def test_a_row_that_is_not_ranked_is_not_the_best(table, runs):
    table.description["rows"][1]["ranked"] = False
    page = page_of(described(table), read_runs(runs.files))
    assert "| FedAvg | **75.0** | **60.0** |" in page
    assert "| w/o mixup | 90.0 | 20.0 ▼ |" in page


def diverge(runs, run):
    """Let a run that was read have diverged."""
    made = runs[run].provenance.model_copy(update={"status": "diverged"})
    runs[run] = dataclasses.replace(runs[run], provenance=made)


@pytest.mark.parametrize("trials", [1, 3])
def test_a_cell_of_which_a_trial_diverged_is_not_called_missing(table, runs, trials):
    found = read_runs(runs.files)
    for run in described(table).runs[1][1][:trials]:
        diverge(found, run)
    page = page_of(described(table), found)
    assert "| FedAvg | 75.0 | **60.0** |" in page
    assert "| w/o mixup | **90.0** | diverged |" in page


def test_a_column_of_which_most_is_missing_stands_with_its_methods_alone(table, runs):
    description = described(table)
    fedavg, other = description.rows
    whole, part = description.runs
    first, second = description.cells
    few = dataclasses.replace(
        description, rows=(fedavg, other, other), cells=(first, second, second)
    ).with_runs((whole, (part[0], ()), (part[0], ())))
    page = page_of(few, read_runs(runs.files))
    assert f"| Method | {LOW} |\n" in page


def test_what_people_wrote_of_a_method_follows_its_table(table, runs):
    reasons = {"FedAvg": [Why(guess="it forgets.")], "No row": [Why(guess="not printed.")]}
    page = page_of(described(table), read_runs(runs.files), reasons)
    (section,) = [part for part in page.split("\n### ") if part.startswith("FedAvg\n")]
    assert section.endswith("|\n\nWhy (guess): it forgets.\n")
    assert page.count("Why (") == 1


def test_tables_of_the_same_methods_are_one(table, runs):
    first = described(table)
    other = dataclasses.replace(
        first, columns=tuple(dataclasses.replace(c, name=f"again {c.name}") for c in first.columns)
    )
    joined = first.with_columns_of(dataclasses.replace(other, missing=2))
    assert (joined.missing, joined.published) == (2, None)
    assert [len(line) for line in joined.cells] == [4] * 2
    page = page_of(joined, read_runs(runs.files))
    assert f"| Method | {LOW} | {HIGH} | again {LOW} | again {HIGH} |" in page
    assert "w/o mixup is better than FedAvg in 2 of 4 settings" in page
    # A row that one of them lacks has no runs in its columns.
    fewer = dataclasses.replace(other, rows=other.rows[:1], cells=other.cells[:1])
    assert first.with_columns_of(fewer).runs == (joined.runs[0], (*first.runs[1], (), ()))
    assert fewer.with_columns_of(first).runs == (joined.runs[0], ((), (), *first.runs[1]))


def test_a_method_that_equals_fedavg_is_said_to(table, runs):
    description = described(table)
    same = description.with_runs((description.runs[0], description.runs[0]))
    page = page_of(same, read_runs(runs.files))
    assert "w/o mixup equals FedAvg to the last digit, in each of 2 settings." in page


def test_methods_are_compared_over_the_seeds_that_they_share(table, runs):
    (low, high), (other, _) = described(table).runs
    fewer = described(table).with_runs(((low, high), (other[1:], ())))
    page = page_of(fewer, read_runs(runs.files))
    # FedAvg has 75, 65 and 85 % on seeds 1 to 3, and the other method 95 and 90 % on 2 and 3.
    assert "w/o mixup is better than FedAvg in 1 of 1 settings" in page
    assert "+17.5 points on level=low." in page
    assert f"| {LOW} | 2 | 92.5 | 75.0 |" in page
    assert "| level=low | 75.0 ± 10.0 |  | 17.7 | 0 | 0 |" in page
    assert "| FedAvg | 75.0 | **60.0** |" not in page
    assert "| FedAvg | 75.0 | 60.0 |" in page
    assert "| w/o mixup | **92.5** | – |" in page


def test_methods_that_are_clearly_ahead_in_the_most_settings_are_named(table, runs):
    for seed, reached in ((1, 0.7), (2, 0.71), (3, 0.72)):
        table.description["runs"][1][1][seed - 1] = runs.add(
            [reached, reached], method='fedcorr(variant="without_mixup")', seed=seed
        )
    table.description["runs"][1][0] = list(table.description["runs"][1][1])
    page = page_of(described(table), read_runs(runs.files))
    ahead = (
        "Of the rivals that were run in all of these settings, significantly better than FedAvg in "
        "1 of these 2 settings, and no method in more: w/o mixup. In none:"
    )
    assert f"{ahead} none." in page
    table.description["runs"] = [[cell[1]] * 2 for cell in table.description["runs"]]
    page = page_of(described(table), read_runs(runs.files))
    assert "than FedAvg in each of these settings: w/o mixup. In none: none." in page
    description = described(table)
    bound = dataclasses.replace(description.rows[1], ranked=False)
    page = page_of(
        dataclasses.replace(description, rows=(description.rows[0], bound)), read_runs(runs.files)
    )
    assert "| 0 | 0 |" in page
    assert "than FedAvg in each of these settings: none. In none: none." in page


def test_a_method_is_counted_by_the_settings_in_which_it_was_run(table, runs):
    description = described(table)
    (fedavg, other), (low, high) = description.rows, description.runs[1]
    three = dataclasses.replace(
        description,
        rows=(fedavg, *(dataclasses.replace(other, name=name) for name in "AB")),
        cells=(*description.cells, description.cells[1]),
    ).with_runs((description.runs[0], (low, high), (low, ())))
    page = page_of(three, read_runs(runs.files))
    assert "significantly better than FedAvg in each of these settings: none. In none: A." in page
    assert "if not all, it is significantly better in: B 0 of 1.\n" in page


def test_of_a_single_trial_nothing_is_clear(table, runs):
    description = described(table)
    single = tuple(tuple(cell[:1] for cell in row) for row in description.runs)
    page = page_of(description.with_runs(single), read_runs(runs.files))
    assert "significantly worse in 0): +10.0 points" in page
    assert "±" not in page


def test_trials_that_agree_by_chance_do_not_make_a_difference_clear(table, runs):
    """How far differences vary is learned from all methods of a setting."""
    description = described(table)
    fedavg, other = description.rows
    base, _ = description.runs

    def trials(method, *reached):  # where FedAvg has 0.6, whatever the seed
        return tuple(
            runs.add([each, each], method=method, seed=seed) for seed, each in enumerate(reached, 1)
        )

    def page(*others):
        three = dataclasses.replace(
            description,
            rows=(fedavg, *(dataclasses.replace(other, name=name) for name in "AB")),
            cells=(*description.cells, description.cells[1]),
        ).with_runs(((base[1], ()), *((row, ()) for row in others)))
        return page_of(three, read_runs(runs.files))

    steady = trials("fedprox", 0.65, 0.651, 0.649)
    found = page(steady, trials("krum", 0.80, 0.50, 0.65))
    assert "| level=low | 60.0 ± 0.0 |  | 10.6 | 0 | 0 |" in found
    assert "A is better than FedAvg in 1 of 1 settings (significantly better in 0," in found
    found = page(steady, trials("median", 0.65, 0.649, 0.651))
    assert "| level=low | 60.0 ± 0.0 |  | 0.1 | 2 | 0 |" in found
