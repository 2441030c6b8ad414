"""What ``noisyfl train`` does beside training."""

from noisyfl.commands.runs import train_specs
from noisyfl.core.artifacts import Results, write_json
from noisyfl.specs.identity import identity
from small_runs import spec_of


def test_data_and_partitions_are_made_without_training(tmp_path):
    spec, path = spec_of("fedavg"), tmp_path / "spec.json"
    write_json(path, spec)
    train_specs([path], tmp_path, [tmp_path / "data"], False, "cpu", "fast", prepare=True)
    results = Results(tmp_path)
    assert results.data("digits", "train").exists()
    assert results.partition(identity(spec["noisy_partition"])).exists()
    assert not results.run(identity(spec)).folder.exists()
