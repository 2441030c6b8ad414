"""Foundations: options, artifacts, random streams, checked YAML. Imports no other subpackage."""
