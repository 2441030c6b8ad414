"""Estimators that methods use: mixtures of Gaussians, local intrinsic dimensionality."""
