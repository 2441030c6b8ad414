import numpy as np

from noisyfl.core.randomness import stream, torch_seed


def test_a_stream_is_known_by_its_name_alone():
    first = stream(1, "batches", 3, 17).random(5)
    stream(1, "mixup", 3, 17).random(100)
    np.testing.assert_array_equal(first, stream(1, "batches", 3, 17).random(5))
    # Indices may come as numpy's integers.
    np.testing.assert_array_equal(first, stream(1, "batches", np.int64(3), 17).random(5))


def test_streams_differ_by_seed_word_and_index():
    keys = [(1, "a"), (2, "a"), (1, "b"), (1, "a", 0), (1, "a", 1), (1, "a", 0, 1), (1, "a", 1, 0)]
    keys += [(1, "a", 2**power) for power in (8, 16, 31)]
    draws = {float(stream(*key).random()) for key in keys}
    assert len(draws) == len(keys)


def test_torch_seed_fits_torch():
    seeds = {torch_seed(1, "dropout", number) for number in range(50)}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**63 for seed in seeds)
