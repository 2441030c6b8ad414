"""Runs side by side, and the share of the matrix rate, on a CPU."""

import math
import multiprocessing
import os
from dataclasses import replace

import pytest
import torch
from benchmarks import roofline, side_by_side
from benchmarks.cases import CASES


def test_a_turn_is_of_whole_rounds():
    case = replace(
        CASES["fednoil"],
        model="cnn",
        dataset="digits",
        participants=2,
        samples=20,
        on_cpu=(1, 20, 1),
    )
    side_by_side._prepare(multiprocessing.get_context("spawn").Barrier(1))
    rounds = side_by_side._turn(case, "cpu", "float32", 2)
    assert math.isfinite(rounds)
    assert rounds > 0


@pytest.mark.parametrize(("starts", "serves"), [(True, True), (True, False), (False, True)])
def test_mps_has_a_folder_of_its_own_and_ends(tmp_path, monkeypatch, starts, serves):
    monkeypatch.setattr(side_by_side, "PROBE", "" if serves else "raise SystemExit(1)")
    said = tmp_path / "said"
    control = tmp_path / side_by_side.CONTROL
    control.write_text(f'#!/bin/sh\necho "$1 $CUDA_MPS_PIPE_DIRECTORY" >> {said}\n')
    control.write_text(control.read_text() + f"exit {0 if starts else 1}\n")
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    with side_by_side.mps() as started:
        assert started == (starts and serves)
        folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert said.read_text().splitlines() == [f"-d {folder}", f" {folder}"]


def test_mps_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with side_by_side.mps() as started:
        assert not started
    assert side_by_side.row("with MPS", []).count("not started") == len(side_by_side.TOGETHER)
    assert side_by_side.row("without MPS", [1.0, 2.345]) == "| without MPS | 1.00 | 2.35 |"


def test_operations_of_a_training_step():
    # 16 and 32 channels of 3x3 filters on 8x8 and 4x4 pixels, then 128 -> 64 -> 10.
    products = 64 * 9 * 16 + 16 * 9 * 16 * 32 + 32 * 4 * 64 + 64 * 10
    assert roofline.flops_trained("cnn", "digits") == 6 * products


def test_the_matrix_rate_is_measured(monkeypatch):
    monkeypatch.setitem(roofline.SIDE, "cpu", 64)
    assert 1e6 < roofline.matrix_rate("cpu", "float32", 0.01) < 1e13


def test_the_matrix_rate_is_that_of_one_thread_as_the_runs_are(monkeypatch):
    """Held against two threads, a run of one would seem to use half of what it uses."""
    threads, product = [], torch.mm

    def noted(*matrices):
        threads.append(torch.get_num_threads())
        return product(*matrices)

    monkeypatch.setitem(roofline.SIDE, "cpu", 8)
    monkeypatch.setattr(roofline.torch, "mm", noted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        roofline.matrix_rate("cpu", "float32", 0.0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}
