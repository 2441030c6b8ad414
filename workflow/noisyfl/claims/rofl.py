"""The claims of RoFL (Yang et al., 2022)."""

from __future__ import annotations

from noisyfl.claims.declaration import Checks, check, claim
from noisyfl.claims.findings import OURS
from noisyfl.claims.labels import among, but
from noisyfl.claims.numbers import Numbers
from noisyfl.claims.query import cells, pairs, quotes, statistics

OTHERS = ["fedavg", "coteaching", "jointopt"]


@claim("rofl-01", place="Analysis, CIFAR-10; Table 1", accuracy=cells("table1", by="method noise"))
def most_accurate(accuracy: Numbers) -> Checks:
    """RoFL is the most accurate method at every noise level, symmetric as well as pair."""
    yield from check("ahead of all others", accuracy["rofl"] > accuracy[OTHERS].max("method"))


@claim("rofl-02", place="Analysis, Clothing1M; Table 2", accuracy=cells("table2", by="method"))
def leads_on_clothing(accuracy: Numbers) -> Checks:
    """On labels from the web, RoFL clearly leads all methods once training is federated."""
    lead = accuracy["rofl"] - accuracy[[*OTHERS, "deep_self_learning"]].max("method")
    yield from check("ahead by two points or more", lead >= 2, bound=OURS)


@claim(
    "rofl-03",
    place="Introduction, Figure 1; analysis, Clothing1M; Table 2",
    note="On Clothing1M the paper's numbers of Co-teaching and Joint Optimization rise.",
    pooled=statistics(
        "figure1_runs",
        method_first="centralized",
        method_last=among("coteaching", "jointopt"),
        by="method_last column",
    ),
    federated=statistics(
        "figure1_runs", method_first=among("coteaching", "jointopt"), by="method_last column"
    ),
    clothing=cells("table2", method="deep_self_learning", scope=None, by="setting_scope"),
)
def pooled_methods_lose(pooled: Numbers, federated: Numbers, clothing: Numbers) -> Checks:
    """Methods made for pooled data lose accuracy in a federation, Co-teaching and Joint
    Optimization on CIFAR-10, Deep self-learning on Clothing1M.
    """
    yield from check("CIFAR-10: federated is below pooled", federated < pooled)
    says = "Clothing1M: federated is below pooled"
    yield from check(says, clothing["federated"] < clothing["centralized"])


@claim(
    "rofl-04",
    place="Analysis, CIFAR-10; Table 1",
    accuracy=cells("table1", by="method noise_kind noise_eps"),
)
def loses_least(accuracy: Numbers) -> Checks:
    """From little to extreme noise, FedAvg and methods made for pooled data lose more than RoFL."""
    harshest = accuracy.at(noise_eps=among(0.45, 0.6)).min("noise_eps")  # of pair, of symmetric
    loss = accuracy.at(noise_eps=0.1) - harshest
    says = "loses least from level 0.1 to the highest"
    yield from check(says, loss["rofl"] < loss[OTHERS].min("method"))


@claim(
    "rofl-05",
    place="Ablation, noise that differs by client and by class; Table 3",
    differing=cells("table3", method="rofl", by="noise_eta", noise_kind="client_variance"),
    ruined=cells("table3", method="rofl", by="noise_eps", noise_kind="class_noise"),
    uniform=cells("table1", method="rofl", by="noise_eps", noise_kind="symmetric"),
)
def keeps_accuracy(differing: Numbers, ruined: Numbers, uniform: Numbers) -> Checks:
    """RoFL keeps its accuracy where clients differ in noise level, and where each has a class of
    wrong labels only.
    """
    loss = differing[0.0] - differing[but(0.0)]
    yield from check("within one point of equal clients", loss.about(0, within=1), bound=OURS)
    says = "within one point of uniform noise of the same level"
    yield from check(says, (ruined - uniform).about(0, within=1), bound=OURS)


@claim(
    "rofl-06",
    place="Ablation, confident samples and pseudo-labels; Table 4",
    accuracy=cells("table4", method="rofl", by="variant_mask variant_pseudo_label"),
)
def parts_help(accuracy: Numbers) -> Checks:
    """The mask of confident samples helps, mask and pseudo-labels complement each other, and
    pseudo-labels of the global model are better than those of the local one.
    """
    neither, mask = accuracy["off"]["off"], accuracy["on"]["off"]
    naive, both, guided = (
        accuracy["off"]["naive"],
        accuracy["on"]["naive"],
        accuracy["on"]["global_guided"],
    )
    yield from check(
        "the mask helps; both together do more than either alone; global pseudo-labels are better",
        mask > neither,
        (both > mask) & (both > naive),
        guided > both,
    )


@claim(
    "rofl-07",
    place="Ablation, confident samples; Table 5",
    precision=cells("table5", method="rofl", metric="noise_detection_precision", by="noise"),
)
def finds_wrong_labels(precision: Numbers) -> Checks:
    """Labels that RoFL takes for wrong nearly always are."""
    yield from check("precision of 90 % or more", precision >= 90, bound=OURS)


@claim(
    "rofl-08",
    place="Supplement, number of participants; Table 7",
    note="The paper does not say with what two are compared. Its own gap is 2.3 points to five "
    "participants, 2.8 to the usual ten, 3.7 to twenty.",
    accuracy=cells("table7", method="rofl", by="variant"),
)
def two_participants(accuracy: Numbers) -> Checks:
    """Two participants a round are nearly enough."""
    # The usual ten are in Table 1, whose clients have more samples than these at small scales.
    two, five = accuracy["clients_per_round=2"], accuracy["clients_per_round=5"]
    yield from check("at most three points below five participants", five - two <= 3, bound=OURS)


@claim(
    "rofl-09",
    place="Local updates; supplement, computational cost; Table 8",
    note="Costs depend on the network and the schedule, so only runs of the paper's own count.",
    seconds=cells("table8", metric="seconds_per_round", as_published=1, by="method"),
    centroids=quotes("model", {"cnn9": 1280, "resnet50": 28672}),  # classes times features
    model=quotes("model", {"cnn9": 4.43e6, "resnet50": 23.5e6}),  # parameters
    sent=statistics(
        "table1",
        "table2",
        metric="bytes_up",
        method_first=["rofl", "fedavg"],
        as_published=1,
        by="method_first table column",
    ),
)
def costs_little(seconds: Numbers, centroids: Numbers, model: Numbers, sent: Numbers) -> Checks:
    """RoFL costs little more: a round takes about as long as Joint Optimization's and less than
    Co-teaching's, and centroids add 0.01 to 0.03 % to what is sent.
    """
    yield from check(
        "at most a fifth longer than Joint Optimization; Co-teaching is the slowest",
        seconds["rofl"] / seconds["jointopt"] <= 1.2,
        seconds["coteaching"] > seconds[["rofl", "jointopt"]].max("method"),
        bound=OURS,
    )
    yield from check(
        "centroids are at most 0.03 % of a model, CIFAR-10's (128 features) and Clothing1M's",
        (10000 * centroids / model).rounded() <= 3,
    )
    added = (sent["rofl"] - sent["fedavg"]) / sent["fedavg"]
    yield from check(
        "centroids add at most 0.03 % to what our runs send, on CIFAR-10 and on Clothing1M",
        (10000 * added).rounded() <= 3,
    )


@claim(
    "rofl-10",
    place="Supplement, implementation details; Figure 6",
    accuracy=statistics("figure6_runs", by="column_group column"),
)
def robust_to_options(accuracy: Numbers) -> Checks:
    """Accuracy hardly depends on λ_e, λ_cen, τ and T; only pseudo-labels that start too early do
    harm.
    """
    defaults = "λ_e, 0.8", "λ_cen, 1", "τ, 0.4", "T, 10"
    options = accuracy.at(column_group=but("T_pl"))
    change = options.at(column=but(*defaults)) - options.at(column=among(*defaults)).mean("column")
    says = "within two points of the accuracy with the paper's value"
    yield from check(says, change.about(0, within=2), bound=OURS)
    start = accuracy["T_pl"]
    yield from check(
        "pseudo-labels from the first round on cost more than two points",
        start["T_pl, 1"] < start["T_pl, 100"] - 2,
        bound=OURS,
    )


@claim(
    "rofl-11",
    place="Ablation, exchange of centroids; Figure 4",
    untested="No run keeps the weights of all clients; only features are compared.",
    distance=pairs("figure4", metric="class_mean_distance", by="panel"),
)
def similar_features(distance: Numbers) -> Checks:
    """With global centroids clients learn similar features, which keeps their weights from drifting
    apart.
    """
    shared, alone = distance["With global centroids"], distance["Without global centroids"]
    yield from check(
        "mean distance of two clients' class means, over the length of features, is smaller",
        shared.mean() < alone.mean(),
    )


@claim(
    "rofl-12",
    place="Appendix, image variances in different domains",
    accuracy=cells("intext_light_intensity", method="rofl", by="variant"),
)
def robust_to_light(accuracy: Numbers) -> Checks:
    """RoFL keeps its accuracy where clients differ in light as well as in noise."""
    loss = accuracy["light_intensity=original"] - accuracy["light_intensity=0.5-1.5"]
    yield from check("at most a point less", loss <= 1, bound=OURS)


@claim(
    "rofl-13",
    place="Appendix, real federated learning scenario",
    accuracy=cells("intext_covidx", method="rofl", scope=None, by="setting_scope"),
)
def near_pooled_on_chests(accuracy: Numbers) -> Checks:
    """On X-rays that 100 clients hold RoFL is about as accurate as on all of them pooled."""
    loss = accuracy["centralized"] - accuracy["federated"]
    yield from check("at most a point less", loss <= 1, bound=OURS)


@claim(
    "rofl-14",
    place="Appendix, MNIST; Table 6",
    accuracy=cells("table6", method="rofl", by="noise"),
)
def robust_on_mnist(accuracy: Numbers) -> Checks:
    """On MNIST RoFL keeps a high accuracy at every noise level."""
    loss = accuracy["none"] - accuracy[but("none")]
    yield from check("at most two points below that without noise", loss <= 2, bound=OURS)
