"""Federated training: rounds, executors and metrics. Knows no method by name."""
