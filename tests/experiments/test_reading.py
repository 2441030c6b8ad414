"""Whatever stands in a configuration is read, or refused in one line with file and key."""

import re
import time
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config

from noisyfl.core.artifacts import Results
from noisyfl.core.checked_yaml import changes, read_yaml
from noisyfl.core.options import BadInput, find, reading
from noisyfl.core.places import ROOT
from noisyfl.core.registry import parse_component, split_sum
from noisyfl.experiments.config import (
    RESERVED_FOLDERS,
    RULES,
    TRACKERS,
    check_config,
    load_config,
)
from noisyfl.experiments.scale_file import check_scale, scale_file
from noisyfl.experiments.targets import runs_of, tables_and_figures
from noisyfl.specs.catalogue import canonical_method
from small_paper import CONFIG, PAPER, edited, plan


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a: 1\nb: \xff", ", line 2: got the byte 0xff, expected UTF-8"),
        (b"a: 1\nb: c: d", ", line 2: mapping values are not allowed in this context (YAML)"),
        (b"a: 1\nb: 1:30", ", line 2: got 1:30, which is read as a number in base 60"),
        (b"trials: 010", ", line 1: got 010, which is read as a number in base 8"),
        (b"a: 2020-99-99", ": cannot be read (month must be in 1..12)"),
        (b"a: " + b"9" * 5000, ": cannot be read (Exceeds the limit"),
        (b"a: &x {b: {c: *x}}", ": a.b.c.b.c.b.c.b.c.b: got more than 40 levels of lists and mapp"),
        (b"1: {}", ": got the key 1, expected text (in quotes)"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_in_a_line(tmp_path, text, words):
    path = tmp_path / "my.yaml"
    path.write_bytes(text)
    with pytest.raises(BadInput) as caught:
        load_config([path])
    assert str(caught.value).startswith(f"{path}{words}")
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_later_files_of_a_configuration_override_earlier_ones_as_in_snakemake(tmp_path):
    texts = [
        {
            **CONFIG,
            "overlay": {"rows": {"paper/one": ["FedAvg"]}, "setting": {"schedule": {"rounds": 2}}},
        },
        {
            "scale": "mine",
            "overlay": {"rows": {"paper/two": ["Krum"]}, "setting": {"model": "cnn"}},
        },
        {"trials": 2, "targets": ["paper_one"]},
    ]
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    merged = {}
    for file, text in zip(files, texts, strict=True):
        file.write_text(yaml.safe_dump(text))
        update_config(merged, text)
    assert load_config(files) == check_config(merged, "here")
    files[1].write_text("scale: 1.5")
    with pytest.raises(BadInput, match=r"0.yaml, .*1.yaml, .*2.yaml: scale: .*(got 1.5)"):
        load_config(files)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-0.5", -0.5), ("0.010", 0.01), ("'010'", "010"), ("'1:30'", "1:30"), ("0x10", 16)],
)
def test_decimal_numbers_and_quoted_text_are_read_as_they_stand(tmp_path, text, value):
    (tmp_path / "my.yaml").write_text(f"a: {text}\nb: &x [1]\nc: [*x, *x]")
    assert read_yaml(tmp_path / "my.yaml") == {"a": value, "b": [1], "c": [[1], [1]]}


@pytest.mark.parametrize(
    ("key", "given", "number"),
    [
        ("learning_rate", "1e-3", 0.001),  # YAML 1.1 reads it as text
        ("learning_rate", "0.10", 0.1),
        ("rounds", "1e2", 100),
        ("rounds", 100.0, 100),
        ("decay_every", "3", 3),
    ],
)
def test_a_number_that_is_written_as_text_is_that_number(tmp_path, key, given, number):
    plans = [
        plan(tmp_path, edited(PAPER, ("settings", "base", "schedule", key), one))
        for one in (given, number)
    ]
    assert plans[0].runs == plans[1].runs


@pytest.mark.parametrize(
    ("key", "given"), [("rounds", "1.5"), ("rounds", "1e400"), ("rounds", "x")]
)
def test_text_that_is_no_number_of_the_kind_is_an_error(tmp_path, key, given):
    with pytest.raises(
        BadInput, match=r"schedule\.rounds: Input should be a valid integer \(got '"
    ):
        plan(tmp_path, edited(PAPER, ("settings", "base", "schedule", key), given))


def test_a_name_that_repeats_what_it_names_many_times_is_refused_at_once(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (tmp_path / "my.yaml").write_text("\n".join(lines))
    with pytest.raises(BadInput, match="got more than 200,000 values, expected fewer"):
        load_config([tmp_path / "my.yaml"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 10**400}, "trials: got a number of 2^63 or more"),
        ({"trials": 10**6}, "trials: Input should be less than or equal to 1000 (got 1000000)"),
        ({"trails": 3}, "unknown key 'trails'; did you mean 'trials'? (known: scale, note"),
        ({"checkpoint_seconds": float("nan")}, "checkpoint_seconds: got nan, expected a finite"),
        ({"executor": "fsat"}, "executor: Input should be 'fast' or 'loop' (got 'fsat'); did you "
         "mean 'fast'?"),
        ({"scale": "data"}, "scale: got 'data', expected another name than those of the folders"),
        ({"experiments": ["train"]}, "experiments: got 'train', expected another name than those"),
        ({"scale": "mine\n"}, "scale: got 'mine\\n', expected a small letter, then small letters"),
        ({"results": "{run}"}, "results: got '{run}', expected a folder without braces, which Sna"),
        ({"results": "a</script>"}, "results: got 'a</script>', expected no '<', which could end"),
        ({"results": "a$/b"}, "results: got 'a$/b', expected environment variables that are set"),
        ({"results": "a" * 300}, "results: got 'aaaaaaa"),
        ({"results": "a\0b"}, "results: got"),
        ({"experiments": [[]]}, "experiments[0]: Input should be a valid string (got [])"),
        ({"overlay": {"rows": {"a/b": ["x", "x"]}}}, "overlay.rows.a/b: got ['x', 'x'], expected "
         "each once"),
    ],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_in_a_line(tmp_path, changes, message):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, config={**CONFIG, **changes})
    assert str(caught.value).startswith(f"my.yaml: {message}")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("fedprox(mu=1e400)", "method.fedprox.mu: Input should be a finite number (got inf)"),
        (f"fedprox(mu={10**400})", "method.fedprox.mu: got 1000"),
        ("fedprox(mu={[]: 1})", "cannot read"),
        ("fedprox(mu=1, mu=2)", "cannot read 'fedprox(mu=1, mu=2)': 'mu' is given twice, expected"),
        ("fedprox(**{'mu': 1})", "cannot read"),
        (
            "fednoil(least_epochs=10, most_epochs=1)",
            "method.fednoil.least_epochs: got 10, expected at most 1 (most_epochs)",
        ),
        ("fednoil(least_epochs=200)", "least_epochs: got 200, expected at most"),
        ("poc(candidates=100000)", "poc.candidates: got 100000, expected at most 10 (clients)"),
        ({"name": "fedcorr", "variant": []}, "method.fedcorr.variant: got []"),
        ("fedprox(mu=" + "-" * 1500 + "1)", "cannot read"),
        ("fedprox(mu=" + "-" * 9000 + "1)", "characters, expected name or name(key=value, ...)"),
        ("+".join(["fedprox"] * 3000), "expected one method or two"),
        ("krum(byzantine=1000)", "krum.byzantine: got 1000, which needs 2003 participants per"),
        ("krum", "method.krum: needs 3 participants per round; there are 2"),
        ("trimmed_mean+gce", "method.trimmed_mean: needs 3 participants per round; there are 2"),
        ("cfl(smallest=3)", "cfl.smallest: got 3, which needs 3 participants per round"),
        ("apfl+fedrn", "method: apfl+fedrn: fedrn keeps models of its own, and apfl cannot mix"),
        ("fedcorr+fednoil", "fedcorr+fednoil: fednoil decides its own batches, by"),
        ("fedcorr+krum(byzantine=1)", "krum.byzantine: got 1, which needs 5 participants"),
    ],
)  # fmt: skip
def test_a_method_that_cannot_be_read_or_does_not_fit_is_refused(tmp_path, method, words):
    paper = edited(PAPER, ("tables", "one", "rows", 1, "method"), method)
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, paper)
    assert "paper.yaml: tables.one.rows[1]" in str(caught.value)
    assert words in str(caught.value)


def test_parsers_of_components_do_not_exhaust_the_stack():
    for text in ("(" * 1900, "-" * 1900 + "1", "a" + "+a" * 900, "not " * 400 + "x"):
        with pytest.raises(BadInput):
            parse_component(text, "here")
        assert split_sum(text)
    with pytest.raises(BadInput, match="no thing is called 3"):
        find({"a": 1}, 3, "thing", "here")


def test_as_many_participants_as_a_value_takes_are_enough(tmp_path):
    row = ("tables", "one", "rows", 1, "method")
    five = edited(PAPER, ("settings", "base", "schedule", "participation"), 0.5)
    assert plan(tmp_path, edited(five, row, "krum(byzantine=1)")).runs
    assert plan(tmp_path, edited(five, row, "arfl")).runs
    assert canonical_method("krum(byzantine=1000)", "here")["byzantine"] == 1000
    assert plan(tmp_path, edited(five, row, "poc(candidates=10)")).runs
    assert plan(tmp_path, edited(five, row, "fednoil(least_epochs=3, most_epochs=3)")).runs


def test_a_scale_of_too_many_runs_is_refused_at_once(tmp_path):
    columns = [{"name": f"c{n}"} for n in range(101)]
    begun = time.process_time()
    with pytest.raises(BadInput, match="at most 200,000 runs"):
        plan(
            tmp_path,
            edited(PAPER, ("tables", "one", "columns"), columns),
            {**CONFIG, "trials": 1000},
        )
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ({"setting": {"schedule": {"round": 5}}}, "setting.schedule: unknown option 'round'; did"),
        ({"setting": {"model": "resnet"}}, "setting.model: no model is called 'resnet'; did you "),
        ({"setting": {"partition": {"alpa": 1}}}, "setting.partition: unknown option 'alpa'; did"),
        ({"experiments": {"paper/one": {"noise_level": "constant(level=2)"}}},
         "experiments.paper/one.noise_level.constant.level: Input should be less than or equal to "
         "1 (got 2)"),
        ({"experiments": {"paper/on": {}}}, "experiments: no table or figure with a setting is"),
        ({"methods": {"dividemix": {"temperatur": 1}}}, "methods.dividemix: unknown option"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_overlay_is_named_there(tmp_path, overlay, message):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, config={**CONFIG, "overlay": overlay})
    assert str(caught.value).startswith(f"my.yaml: overlay.{message}")


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ({"setting": {"partition": {"alpha": 1}}}, "partition.iid: unknown option 'alpha'"),
        ({"setting": {"clients": 60_000}}, "partition.iid: clients=60000 needs 60000 training"),
        ({"methods": {"krum": {"byzantine": 9}}}, "method.krum.byzantine: got 9, which needs 21 p"),
    ],
)
def test_a_setting_that_does_not_fit_with_the_overlay_names_row_column_and_scale(
    tmp_path, overlay, words
):
    paper = edited(PAPER, ("tables", "one", "rows", 0, "method"), "krum")
    paper = edited(paper, ("settings", "base", "schedule", "participation"), 0.3)
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, paper, {**CONFIG, "overlay": overlay})
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/paper.yaml: tables.one.rows[0], column 'clean'.{words}")
    assert message.endswith(" (with the overlay of my.yaml)")


def test_a_mistake_of_the_paper_is_not_blamed_on_the_overlay(tmp_path):
    paper = edited(PAPER, ("settings", "base", "model"), "resnet")
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, paper, {**CONFIG, "overlay": {"setting": {"clients": 5}}})
    assert str(caught.value).startswith(f"{tmp_path}/paper.yaml: settings.base.model: no model is")
    assert "overlay" not in str(caught.value)


def test_a_scale_and_a_file_that_contradict_each_other_are_refused(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("scale: mine\nexperiments: [paper]\n")
    check_scale("mine", [file])
    check_scale(None, [file])
    check_scale("mine", [])
    with pytest.raises(BadInput, match=r"--config scale: got 'other', but .*my\.yaml, is the"):
        check_scale("other", [file])
    (tmp_path / "latin.yaml").write_bytes(b"# caf\xe9\nscale: old\n")
    assert scale_file("mine", tmp_path) == file
    (tmp_path / "bad.yaml").write_text("scale: bad\nnote: !!timestamp abc\n")
    with pytest.raises(BadInput, match=r"bad\.yaml: cannot be read"):
        scale_file("bad", tmp_path)


def test_missing_human_labels_leave_out_what_needs_them_alone(tmp_path):
    human = {"label_noise": "human(key='worse_label')", "noise_level": "none"}
    needing = edited(PAPER, ("tables", "one", "columns", 1, "with"), human)
    (tmp_path / "human.yaml").write_text(yaml.safe_dump(needing))
    config = {**CONFIG, "experiments": ["human", "paper"], "targets": ["paper"]}
    config |= {"data": {"folder": str(tmp_path)}}
    made = plan(tmp_path, config={**config, "overlay": {"trials": {"human/one": 1}}})
    assert list(made.tables) == ["paper/one"]
    assert len(made.runs) == 8
    assert "CIFAR-10_human.pt" in made.why_wrong("human_one")
    assert made.why_wrong("paper_one") == ""
    with pytest.raises(BadInput, match="put that file there"):
        runs_of(tables_and_figures(made, "human_one").values())
    with pytest.raises(BadInput, match="put that file there"):
        plan(tmp_path, config={**config, "experiments": ["human"], "targets": None})


def test_whatever_fails_while_reading_is_bad_input():
    with pytest.raises(BadInput, match=r"here: cannot be read \(KeyError: 'x'\)"), reading("here"):
        {}["x"]
    with pytest.raises(BadInput, match=r"^there: x$"), reading("here"):
        raise BadInput("there: x")
    refused = r"^results: cannot be read or written \(Permission denied\)$"
    with pytest.raises(BadInput, match=refused), reading("here"):
        raise PermissionError(13, "Permission denied", "results")


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        (("title",), "one\ntwo", "title: got 'one\\ntwo', expected text without line breaks"),
        (("title",), " ", "title: got ' ', expected text that is not empty"),
        (("tables", "one", "title"), "a\u2028b", "one.title: got 'a\\u2028b', expected text"),
        (("tables",), {"one\n": PAPER["tables"]["one"]}, "tables: got 'one\\n', expected a small"),
        (("tables", "one", "rows", 0, "name"), "a\tb", "rows[0].name: got 'a\\tb', expected text"),
    ],
)
def test_line_breaks_in_titles_and_names_are_refused(tmp_path, place, text, words):
    with pytest.raises(BadInput) as caught:
        plan(tmp_path, edited(PAPER, place, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_names_of_rules_are_known():
    files = [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
    rule = r"^ *(?:use rule \w+ as|rule) (\w+)"
    found = [re.findall(rule, file.read_text(), re.MULTILINE) for file in files]
    assert sorted(name for names in found for name in names) == list(RULES)


def test_the_folders_that_scales_share_are_no_names_of_scales():
    layout = Results(Path())
    shared = [layout.data("x", "train"), layout.own_file("x"), layout.partition("x")]
    shared += [layout.run("x").folder, layout.stored("x").folder, layout.checkpoint("x")]
    shared += [layout.log("x"), layout.status("x")]
    assert {path.parts[0] for path in shared} | set(TRACKERS) < set(RESERVED_FOLDERS)


def test_values_that_the_command_line_gives_as_text_are_read_as_themselves():
    given = {
        **CONFIG,
        "trials": "2",
        "targets": "null",
        "keep_models": "true",
        "checkpoint_seconds": "1e2",
        "data": {"download": "true"},
        "overlay": {"setting": {"clients": "8"}, "trials": {"paper/one": "1"}},
    }
    config = check_config(given, "my.yaml")
    assert (config.trials, config.targets, config.keep_models) == (2, None, True)
    assert (config.checkpoint_seconds, config.data.download) == (100, True)
    assert config.overlay.setting.clients == 8
    assert config.overlay.trials == {"paper/one": 1}


def test_an_option_of_a_method_that_the_command_line_gives_as_text_is_a_number(tmp_path):
    overlays = [{"methods": {"fedprox": {"mu": mu}}} for mu in (0.5, "0.5", "5e-1")]
    plans = [plan(tmp_path, config={**CONFIG, "overlay": overlay}) for overlay in overlays]
    assert plans[0].runs == plans[1].runs == plans[2].runs


def test_text_stays_text_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "3").mkdir()
    config = check_config({**CONFIG, "note": "true", "data": {"folder": ["3", "010"]}}, "my.yaml")
    assert config.note == "true"
    assert [str(folder) for folder in config.data.folders] == ["3", "010"]


def test_what_the_command_line_adds_to_the_files_is_found_by_comparing():
    in_files = {"trials": 2, "targets": ["a"], "overlay": {"setting": {"clients": 4}, "rows": {}}}
    given = {"device": "cpu", "targets": ["b"], "overlay": {"setting": {"model": "cnn"}}}
    merged = {"trials": 2, "device": "cpu", "targets": ["b"]}
    merged["overlay"] = {"setting": {"clients": 4, "model": "cnn"}, "rows": {}}
    assert changes(in_files, merged) == given
    assert changes(merged, merged) == {}
