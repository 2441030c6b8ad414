"""Which options of a run are said not to be the defaults."""

from noisyfl.specs.run_words import changed_options
from small_runs import spec_of


def test_what_differs_from_its_default_is_named_by_its_component():
    spec = spec_of("fedcorr(beta=2.0)")
    assert changed_options(spec)["fedcorr"] == ["beta"]
    assert "fedavg" not in changed_options(spec_of("fedavg"))


def test_a_default_in_proportion_to_the_rounds_is_that_of_the_run():
    spec = spec_of("fedrn")
    assert "fedrn" not in changed_options(spec)
    spec["method"]["warm_up_rounds"] += 1
    assert changed_options(spec)["fedrn"] == ["warm_up_rounds"]


def test_each_method_of_a_combination_has_its_own():
    found = changed_options(spec_of("apfl(alpha=0.25)+dividemix"))
    assert found["apfl"] == ["alpha"]
    assert "dividemix" not in found
