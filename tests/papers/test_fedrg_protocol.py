"""FedRG's protocol as its code's README and configuration have it."""

from .plans import cells_of, plan_of


def test_fedrg_and_the_federation_are_as_in_its_readme():
    plan = plan_of("fedrg")
    (table,) = plan.tables.values()
    seen = set()
    for row, column, runs in cells_of(table):
        for spec in (plan.runs[run] for run in runs):
            part, schedule = spec["noisy_partition"], spec["schedule"]
            assert (schedule["rounds"], schedule["local_epochs"]) == (500, 1)
            assert (schedule["participation"], schedule["batch_size"]) == (0.5, 64)
            assert part["partition"] == {**part["partition"], "name": "dirichlet", "alpha": 0.1}
            assert part["noise_level"] == {**part["noise_level"], "name": "constant", "level": 0.4}
            if row.name == "FedRG":
                method = spec["method"]
                assert method["pretraining_rounds"] == 150
                many = 50 if part["dataset"] == "cifar100" else None
                assert method["clusters"] == many
        seen.add((row.name, column.name))
    assert len(seen) == 9 * 12
