"""Training jobs as tests start them."""

from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity


def job_in(results, spec, **changes):
    """The job of a run in a folder of results."""
    settings = {
        "data": ["data"],
        "download": False,
        "device": "cpu",
        "executor": "fast",
        "checkpoint_seconds": 0,
        **changes,
    }
    log = str(results.log(identity(spec)))
    return TrainingJob(spec=spec, results=str(results.root), log=log, **settings)
