"""From a spec to an artifact: the only entry point to training."""
