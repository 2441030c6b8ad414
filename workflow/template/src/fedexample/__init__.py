"""Fedexample, a method for noisyfl."""
