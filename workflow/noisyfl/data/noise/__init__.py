"""Label noise and noise levels; importing this registers all of them."""

from noisyfl.data.noise import instance, label_noise, local, matrix, open_set, own_labels

__all__ = ["instance", "label_noise", "local", "matrix", "open_set", "own_labels"]
