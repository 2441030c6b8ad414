"""Our program next to those of other projects."""

import ast

import pytest
import torch
from benchmarks import command_lines


@pytest.mark.usefixtures("forgotten")
def test_the_network_is_that_of_the_other_projects():
    from benchmarks.avgcnn import AvgCnn  # registers a model, which other tests would find

    network = AvgCnn().build((28, 28, 1), 10)
    shapes = [tuple(one.shape) for one in network.parameters() if one.dim() > 1]
    assert shapes == [(32, 1, 5, 5), (64, 32, 5, 5), (512, 1024), (10, 512)]
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_our_program_has_the_same_work_as_the_others():
    (call,) = (
        node
        for node in ast.walk(ast.parse(command_lines.TRAIN))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "compare"
    )
    given = {word.arg: ast.unparse(word.value) for word in call.keywords}
    assert given["clients"] == "100"
    assert given["partition"] == "'iid(samples=52500)'"
    assert float(given["participation"]) * 100 == command_lines.PARTICIPANTS
    assert given["local_epochs"] == "5"
    assert given["batch_size"] == "32"
    assert given["momentum"] == "0"


def test_a_round_takes_the_difference_of_two_runs(monkeypatch, capsys, tmp_path):
    ran = []

    def program(seconds):
        return lambda rounds: ran.append((seconds, rounds))

    monkeypatch.setattr(command_lines, "pfllib", lambda *words: program(8.0))
    monkeypatch.setattr(command_lines, "fl_bench", lambda *words: program(10.0))
    monkeypatch.setattr(
        command_lines, "ours", lambda data, precision, rounds: ran.append((4, rounds))
    )

    def timed(one, rounds):
        one(rounds)
        return 7 + ran[-1][0] * rounds

    monkeypatch.setattr(command_lines, "timed", timed)
    words = ["--pfllib", str(tmp_path), "--fl-bench", str(tmp_path), "--repeat", "1"]
    monkeypatch.setattr("sys.argv", ["command_lines", *words])
    command_lines.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| PFLlib | 8.0 | 1,641 | 1.00 |"
    assert lines[3] == "| FL-bench | 10.0 | 1,312 | 0.80 |"
    assert lines[4] == "| ours | 4.0 | 3,281 | 2.00 |"
    assert [rounds for _, rounds in ran] == [2, 6] * 4
