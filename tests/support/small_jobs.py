"""Training jobs as tests start them."""

from noisyfl.runs.job import TrainingJob


def job_in(results, spec, **changes):
    """The job of a run in a folder of results."""
    settings = {"device": "cpu", "checkpoint_seconds": 0, **changes}
    return TrainingJob(spec=spec, results=str(results.root), **settings)
