"""Products that methods make for themselves."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

from noisyfl.simulation.estimates import product


class Rounding(TorchFunctionMode):
    """Notes whether a GPU would have rounded the factors of each product."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ in ("matmul", "__matmul__"):
            self.noted.append(torch.backends.cuda.matmul.allow_tf32)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def training():
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    yield matmul
    matmul.allow_tf32 = before


@pytest.mark.parametrize("rounded", [False, True])
def test_a_product_is_not_rounded_whatever_training_is(rounded, training):
    training.allow_tf32 = rounded
    factors = torch.ones(2, 3), torch.ones(3, 2)
    with Rounding() as rounding:
        made = product(*factors)
        torch.ones(2, 3) @ torch.ones(3, 2)
        with pytest.raises(RuntimeError):
            product(torch.ones(2, 3), torch.ones(2, 3))
    assert rounding.noted == [False, rounded, False]
    assert training.allow_tf32 == rounded
    assert made.tolist() == [[3, 3], [3, 3]]
