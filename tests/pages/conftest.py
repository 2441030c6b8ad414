"""What tests of pages share."""

import pytest

from noisyfl.specs.published import read_published

FIELDS = (
    "paper,table,dataset,setting_scope,partition,noise,method,variant,metric,value,unit,std,trials,"
    "statistic,converged,note"
)


@pytest.fixture
def published(tmp_path):
    """Reads published numbers given as (method, noise, metric, value, unit, std)."""

    def read(*numbers):
        lines = [
            f"p,t1,cifar10,federated,iid,{noise},{method},,{metric},{value},{unit},{std},,,,"
            for method, noise, metric, value, unit, std in numbers
        ]
        path = tmp_path / "published.csv"
        path.write_text("\n".join([FIELDS, *lines, ""]))
        return read_published(path) if numbers else []

    return read
