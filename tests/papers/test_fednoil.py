"""FedNoiL's experiments: settings as the paper states them, and each of its numbers once."""

import numpy as np
import pytest

from noisyfl.methods import METHODS
from noisyfl.simulation.schedule import Schedule

from .plans import plan_of, printed_at, spec_at


@pytest.fixture(scope="module")
def plan():
    return plan_of("fednoil")


def test_published_spot_checks(plan):
    """Cells read off the paper's tables by eye."""
    for table, row, column, value in [
        ("table1", "DivideMix (centralized)", "CIFAR-100, non-IID, pair low (0.3 to 0.6)", "47.55"),
        ("table1", "Krum + DivideMix", "CIFAR-10, non-IID, pair high (0.3 to 0.8)", "19.39"),
        ("table1", "FedNoiL(Cosine)", "Fashion-MNIST, IID, symmetric high (0.5 to 0.8)", "83.72"),
        ("table2", "APFL + Jo-SRC", "unequal sizes, symmetric high (0.5 to 0.8)", "30.62"),
        ("table2", "FedNoiL(Logarithm)", "100 clients, pair low (0.3 to 0.6)", "86.33"),
        (
            "table3",
            "CIFAR-100, uniform local-data sampling",
            "pair high (0.3 to 0.8), label precision",
            "42.55",
        ),
        (
            "table4",
            "label recall, FedNoiL without semi-supervised learning",
            "symmetric low (0.3 to 0.6)",
            "82.78",
        ),
        ("intext_no_label_noise", "FedNoiL(Logarithm)", "no label noise", "86.12"),
    ]:
        assert printed_at(plan, table, row, column) == value


def epochs_by_round(spec):
    method = {key: value for key, value in spec["method"].items() if key != "revision"}
    schedule = Schedule(**spec["schedule"])
    built = METHODS.build(method, "test")
    return [built.local_schedule(r, schedule).local_epochs for r in range(schedule.rounds)]


@pytest.mark.parametrize("least_from", [10, 20, 40, 80])
def test_schedules_of_figure_2_are_eqs_10_and_11_and_constant_ones_have_their_totals(
    plan, least_from
):
    r = np.arange(1, 201)
    before = r < least_from
    exact = {
        "Cosine": np.where(before, 20 + 80 * np.cos(np.pi / 2 * (r - 1) / (least_from - 1)), 20),
        "Logarithm": np.maximum(100 - np.log(r) / np.log(least_from ** (1 / 80)), 20),
    }
    for kind, expected in exact.items():
        name = f"{kind}({least_from})"
        decaying = epochs_by_round(spec_at(plan, "figure2_runs", name, "test accuracy"))
        assert np.abs(decaying - expected).max() <= 0.5 + 1e-9
        constant = epochs_by_round(
            spec_at(plan, "figure2_runs", f"Constant as {name}", "test accuracy")
        )
        assert sum(constant) == sum(decaying)
        assert max(constant) - min(constant) <= 1
