"""The claims of FedCorr (Xu et al., 2022)."""

from __future__ import annotations

from noisyfl.claims.declaration import Checks, check, claim
from noisyfl.claims.findings import MOST, OURS
from noisyfl.claims.labels import among, but
from noisyfl.claims.numbers import Numbers
from noisyfl.claims.query import cells, clients, statistics

POOLED = ["jointopt", "dividemix"]
"""Methods made for pooled data."""

EXTREME = "bernoulli_uniform(rho=0.8,tau=0.5)"


@claim(
    "fedcorr-01",
    place="Section 4.2, IID; Tables 2 and 3",
    accuracy=cells("table2", "table3", by="method table noise"),
)
def most_accurate(accuracy: Numbers) -> Checks:
    """FedCorr is the most accurate federated method at every noise level on both CIFAR datasets."""
    others = accuracy[but("fedcorr")].max("method")
    yield from check("ahead of all others", accuracy["fedcorr"] > others)


@claim(
    "fedcorr-02",
    place="Section 4.2, IID; Tables 2 and 3",
    accuracy=cells("table2", "table3", by="method table noise_rho noise_tau"),
    without=cells("table2", "table3", noise="none", by="method table"),
)
def leads_most_where_noisy(accuracy: Numbers, without: Numbers) -> Checks:
    """FedCorr's lead is especially large where noise is high."""
    lead = accuracy["fedcorr"] - accuracy[but("fedcorr")].max("method")
    lead_without = without["fedcorr"] - without[but("fedcorr")].max("method")
    high = lead.at(noise_rho=0.8)
    yield from check("the lead at ρ=0.8 is larger than without noise", high > lead_without)
    yield from check("the lead at ρ=0.8 is larger than at ρ=0.4", high > lead.at(noise_rho=0.4))


@claim(
    "fedcorr-03",
    place="Section 4.2, IID; Tables 2 and 3",
    pooled=cells("table2", "table3", scope="centralized", by="method table noise"),
    federated=cells("table2", "table3", by="method table noise"),
)
def pooled_methods_lose(pooled: Numbers, federated: Numbers) -> Checks:
    """On clients instead of pooled data, Joint Optimization and DivideMix lose 10 to 30 points."""
    loss = pooled[POOLED] - federated[POOLED]
    yield from check("10 to 30 points less, rounded", loss.rounded().between(10, 30))


@claim(
    "fedcorr-04",
    place="Section 4.2, IID; Tables 2 and 3",
    pooled=cells("table2", "table3", scope="centralized", by="method table noise"),
    federated=cells("table2", "table3", by="method table noise"),
)
def pooled_data_bound(pooled: Numbers, federated: Numbers) -> Checks:
    """The accuracies of Joint Optimization and DivideMix on pooled data bound what federated
    training reaches.
    """
    best = federated.max("method")
    yield from check("no federated method is above", pooled[POOLED] >= best)


@claim(
    "fedcorr-05",
    place="Section 4.2, IID; Tables 2 and 3",
    pooled=cells(
        "table2", "table3", scope="centralized", method="dividemix", noise=EXTREME, by="table"
    ),
    fedcorr=cells("table2", "table3", method="fedcorr", noise=EXTREME, by="table"),
)
def near_pooled_dividemix(pooled: Numbers, fedcorr: Numbers) -> Checks:
    """Even under the most extreme noise FedCorr is less than four points below pooled DivideMix."""
    yield from check("less than four points", pooled - fedcorr < 4)


@claim(
    "fedcorr-06",
    place="Section 4.2, non-IID; Table 4",
    accuracy=cells("table4", by="method partition"),
)
def leads_on_uneven_data(accuracy: Numbers) -> Checks:
    """On non-IID CIFAR-10 FedCorr is at least seven points above every baseline."""
    lead = accuracy["fedcorr"] - accuracy[but("fedcorr")].max("method")
    yield from check("ahead by seven points or more", lead >= 7)


@claim(
    "fedcorr-07",
    place="Section 4.2, non-IID; Table 5",
    accuracy=cells("table5", by="method"),
    pooled=cells("table5", method="jointopt", scope="centralized", by=""),
)
def best_on_clothing(accuracy: Numbers, pooled: Numbers) -> Checks:
    """On Clothing1M FedCorr is the best federated method, and above Joint Optimization on pooled
    data.
    """
    yield from check(
        "ahead of the federated methods, and of pooled Joint Optimization",
        accuracy["fedcorr"] > accuracy[but("fedcorr")].max(),
        accuracy["fedcorr"] > pooled,
    )


@claim(
    "fedcorr-08",
    place="Section 4.3; Table 6",
    accuracy=cells("table6", method="fedcorr", by="variant noise"),
)
def parts_help(accuracy: Numbers) -> Checks:
    """Each part of FedCorr raises accuracy, and scheduling the client fraction the most."""
    loss, schedule = accuracy[""] - accuracy[but("")], "without_fraction_scheduling"
    yield from check("less without the part", accuracy[""] > accuracy[but("")])
    yield from check(
        "the loss without fraction scheduling is the largest",
        loss[schedule] > loss[but(schedule)].max("variant"),
    )


@claim(
    "fedcorr-09",
    place="Section 4.3; Table 6",
    low=cells("table6", method="fedcorr", noise_rho=0.4, by="variant noise"),
    rest=cells("table6", method="fedcorr", noise_rho=but(0.4), by="variant noise"),
)
def best_at_low_noise(low: Numbers, rest: Numbers) -> Checks:
    """Accuracy is mostly highest at a low noise level and not without noise."""
    says = "highest at ρ=0.4, with all parts and without each"
    yield from check(says, low.max("noise") > rest.max("noise"), share=MOST)


@claim(
    "fedcorr-10",
    place="Section 3.2; Figure 3",
    note="From one run. A client with an extreme score can be a component of the mixture by "
    "itself, which then flags most others incorrectly.",
    of_client=clients("figure3", metric=["noise_level", "lid", "cumulative_lid"], by="metric"),
    rightly=clients(
        "figure3",
        metric=[
            *("first_lid_calls_rightly", "lid_calls_rightly", "cumulative_lid_calls_rightly"),
        ],
        by="metric",
    ),
)
def lid_scores(of_client: Numbers, rightly: Numbers) -> Checks:
    """LID scores rise with a client's noise level but overlap more and more; their sum over
    iterations tells clean clients from noisy ones better, and is closer to linear in the level.
    """
    level = of_client["noise_level"]
    score, total = of_client["lid"], of_client["cumulative_lid"]
    linear = score.pearson(level)
    yield from check(
        "the sum is correlated more with the level, and calls more clients rightly noisy or clean",
        (total.pearson(level) > linear) & (linear > 0),
        rightly["cumulative_lid_calls_rightly"].mean() > rightly["lid_calls_rightly"].mean(),
    )
    yield from check(
        "the scores of the last iteration call fewer clients rightly than those of the first",
        rightly["lid_calls_rightly"].mean() < rightly["first_lid_calls_rightly"].mean(),
    )


@claim(
    "fedcorr-11",
    place="Section 4.2, combination; Figure 4",
    accuracy=statistics(
        "figure4_runs", column_label=but("ρ=0.0"), by="method_first method_last column"
    ),
)
def helps_others(accuracy: Numbers) -> Checks:
    """FedDyn, Median and Power-of-Choice all clearly gain from FedCorr's first two stages before
    them, however many clients are noisy.
    """
    alone = accuracy[among("feddyn", "median", "poc")].max("method_first")
    yield from check("two points or more", accuracy["fedcorr"] - alone >= 2, bound=OURS)


@claim(
    "fedcorr-12",
    place="Abstract; Section 5; Tables 2 and 3",
    accuracy=cells("table2", "table3", by="method table noise"),
)
def loses_least(accuracy: Numbers) -> Checks:
    """FedCorr is robust - it loses less than the other federated methods to the highest noise."""
    loss = accuracy.at(noise="none") - accuracy.at(noise=EXTREME)
    yield from check("loses least", loss["fedcorr"] < loss[but("fedcorr")].min("method"))
