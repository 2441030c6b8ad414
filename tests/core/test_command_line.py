"""What is given to Snakemake for a configuration, and is none, is told in a line."""

import pytest

from noisyfl.core.command_line import check_command_line

ADVICE = "Snakemake reads every word after `{} ` as a further value, even a target"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "desk.yaml").write_text("scale: desk\n")
    (tmp_path / "notes.md").write_text("- [ of mine\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "fedcorr_table2 --cores 1 --configfile config/desk.yaml",
        "--configfile=config/desk.yaml fedcorr_table2 -n",
        "--configfiles config/desk.yaml config/desk.yaml --cores 1 fedcorr_table2",
        "--config=scale=desk fedcorr_table2",
        "-n --config scale=desk trials=2 -- fedcorr_table2",
        "--cores 1 --configfile",
        "-C scale=desk device=cpu -- --config=scale=quick",
    ],
)
def test_what_snakemake_can_read_passes(folder, words):
    check_command_line(("snakemake", *words.split()))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--configfile config/dsek.yaml", "no file 'config/dsek.yaml'; did you mean 'config/desk"),
        ("-n --configfiles config -p", "config: cannot be read (Is a directory)"),
        ("--configfile=notes.md", "notes.md, line 2: did not find"),
        (
            "--cores 1 --configfile config/desk.yaml fedcorr_table2",
            f"{ADVICE.format('--configfile')}, but not after an equals sign: "
            "--configfile=config/desk.yaml",
        ),
        ("--config scale=desk fedcorr_table2 -n", "got 'fedcorr_table2', expected key=value"),
        (
            "--config=scale=desk -n --config=device=cpu",
            "--config: given 2 times, and Snakemake takes only the last; give all values after "
            "one, before other options or `--`: --config scale=desk device=cpu",
        ),
        ("-C=scale=desk -Cdevice=cpu", "`--`: --config scale=desk device=cpu"),
        (
            "--configfile=config/desk.yaml --configfiles config/desk.yaml",
            "--configfile: given 2 times",
        ),
        ("--config device=cpu trials=2 device=cuda", "--config: got 'device' twice"),
    ],
)
def test_what_is_no_configuration_ends_in_a_line(folder, words, expected):
    with pytest.raises(SystemExit) as ended:
        check_command_line(("snakemake", *words.split()))
    assert str(ended.value).startswith("error: ")
    assert expected in str(ended.value)
