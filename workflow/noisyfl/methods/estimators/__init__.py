"""What several methods estimate by: mixtures, local intrinsic dimensionality and such."""
