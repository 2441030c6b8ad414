"""The claims of FedRN (Kim et al., 2022)."""

from __future__ import annotations

from noisyfl.claims.declaration import Checks, check, claim
from noisyfl.claims.findings import MOST, OURS
from noisyfl.claims.labels import among, but, since, until
from noisyfl.claims.numbers import Numbers
from noisyfl.claims.query import cells, clients, pairs, quotes, rounds, statistics

LITTLE, MUCH = "0.0-0.4", "0.0-0.8"
"""Ranges of the clients' noise levels, as the label ``noise_2`` has them."""

ROBUST = ["coteaching", "jointopt", "selfie", "dividemix", "rofl"]
"""The methods against label noise that FedRN is compared with."""


@claim(
    "fedrn-01",
    place="Sections 5.2.1 and 5.2.2; Tables 2 to 4",
    accuracy=cells(
        "table2",
        "table3",
        "table4",
        metric=among("test_accuracy", "top1_accuracy", "top5_accuracy"),
        by="method table partition noise metric",
    ),
)
def most_accurate(accuracy: Numbers) -> Checks:
    """FedRN is the most accurate method in every case, whether noise is made or real."""
    own = accuracy[["fedrn_k1", "fedrn_k2"]].max("method")
    others = accuracy[but("fedrn_k1", "fedrn_k2", "oracle")].max("method")
    yield from check("with one or two neighbours ahead of all but the oracle", own > others)


@claim(
    "fedrn-02",
    place="Section 5.2.1; Tables 2 and 3",
    note="The two upper ends that fail are those without the asymmetric columns, which the other "
    "two have in them.",
    cifar10=cells("table2", by="method partition noise"),
    cifar100=cells("table3", by="method partition noise"),
)
def ahead_of_robust_methods(cifar10: Numbers, cifar100: Numbers) -> Checks:
    """FedRN with two neighbours is ahead of the other robust methods by 4.1 to 30.3, 1.8 to 10.0
    and 0.3 to 6.8 points on CIFAR-10 (two shards, five, Dirichlet), by 0.2 to 13.9 on CIFAR-100.
    """
    for words, accuracy, least, most in (
        ("CIFAR-10, two shards", cifar10.at(partition="shard(s=2,n=100)"), 4.1, 30.3),
        ("CIFAR-10, five shards", cifar10.at(partition="shard(s=5,n=100)"), 1.8, 10.0),
        ("CIFAR-10, Dirichlet", cifar10.at(partition="dirichlet(beta=0.5,n=100)"), 0.3, 6.8),
        ("CIFAR-100", cifar100, 0.2, 13.9),
    ):
        lead = accuracy["fedrn_k2"] - accuracy[ROBUST]
        yield from check(
            f"{words}, to within 0.1",
            lead.min().about(least, within=0.1),
            lead.max().about(most, within=0.1),
        )


@claim(
    "fedrn-03",
    place="Section 5.2.1; Tables 2 and 3",
    accuracy=cells("table2", "table3", noise_1="symmetric", by="method noise_2 table partition"),
)
def gain_grows_with_noise(accuracy: Numbers) -> Checks:
    """FedRN's gain over FedAvg grows when symmetric noise rises from 0.0–0.4 to 0.0–0.8."""
    gain = accuracy["fedrn_k2"] - accuracy["fedavg"]
    yield from check("the gain is larger", gain[MUCH] > gain[LITTLE])


@claim(
    "fedrn-04",
    place="Appendix B; Table 9",
    accuracy=cells("table9", by="variant_neighbors noise_2 noise_1 partition"),
)
def reliable_or_random(accuracy: Numbers) -> Checks:
    """Reliable neighbours are better than random ones in every case, and the more so where noise is
    high.
    """
    reliable, random = accuracy["reliable"], accuracy["random"]
    yield from check("higher accuracy", reliable > random)
    gain = reliable - random
    says = "the difference is larger at 0.0–0.8 than at 0.0–0.4"
    yield from check(says, gain[MUCH] > gain[LITTLE])


@claim(
    "fedrn-05",
    place="Section 5.5; Table 5",
    accuracy=cells("table5", by="variant_finetune variant_alpha noise"),
)
def finetuning_helps(accuracy: Numbers) -> Checks:
    """Fine-tuning the neighbours' classifiers helps, and a lot, whatever α."""
    gain = accuracy["on"] - accuracy["off"]
    yield from check("two points or more", gain >= 2, bound=OURS)


@claim(
    "fedrn-06",
    place="Section 5.5; Table 5",
    accuracy=cells("table5", by="variant_finetune variant_alpha noise"),
)
def similarity_and_expertise(accuracy: Numbers) -> Checks:
    """Without fine-tuning similarity alone is the best guide to neighbours; with it the trend is
    the opposite, and expertise together with similarity is best.
    """
    plain, tuned = accuracy["off"], accuracy["on"]
    says = "without fine-tuning similarity alone is better than every other α"
    yield from check(says, plain[0] > plain[but(0)].max("variant_alpha"))
    similarity, expertise = tuned[0], tuned[1]
    says = "with fine-tuning expertise alone is better than similarity alone"
    yield from check(says, expertise > similarity)
    between = tuned[[0.2, 0.4, 0.6, 0.8]].max("variant_alpha")
    either = tuned[[0, 1]].max("variant_alpha")
    yield from check("with fine-tuning some α between is better than both", between > either)


@claim(
    "fedrn-07",
    place="Appendix A; Table 8",
    note="The printed mean of α = 0.8 is 0.1 above the mean of its four numbers.",
    printed=cells("table8", partition_kind="mean_over", by="variant_alpha"),
    accuracy=cells("table8", partition_kind=but("mean_over"), by="variant_alpha partition noise"),
)
def best_alpha(printed: Numbers, accuracy: Numbers) -> Checks:
    """α = 0.6 has the best accuracy on average."""
    mean = accuracy.mean("partition", "noise")
    for says, means in (
        ("the highest mean as it is printed", printed),
        ("the highest mean of the four numbers", mean),
    ):
        yield from check(says, means[0.6] > means[[0, 0.2, 0.4, 0.8, 1]].max())


@claim(
    "fedrn-08",
    place="Section 5.6; Tables 6 and 7",
    accuracy=cells("table6", "table7", by="method table partition noise"),
)
def few_neighbours(accuracy: Numbers) -> Checks:
    """One or two reliable neighbours are generally enough; more bring next to nothing."""
    one, two, *more = (f"fedrn_k{k}" for k in (1, 2, 3, 4, 5))
    yield from check(
        "more neighbours add at most a point to two, and to one",
        accuracy[more].max("method") - accuracy[two] <= 1,
        accuracy[[two, *more]].max("method") - accuracy[one] <= 1,
        bound=OURS,
        share=MOST,
    )


@claim(
    "fedrn-09",
    place="Section 5.3; Figure 3",
    quality=rounds(
        "table2",
        row=["FedRN, k=2", "Co-teaching", "SELFIE", "DivideMix"],
        column=["Shard S=2, symmetric 0.0–0.8", "Shard S=2, asymmetric 0.0–0.4"],
        metric=["label_precision", "label_recall"],
        work=since(20.2),  # percent; after 100 of 500 rounds
        by="row column metric",
    ),
)
def selects_clean_samples(quality: Numbers) -> Checks:
    """After the warm-up FedRN selects clean samples with the highest label precision and recall, by
    up to 12 and 11 points, under both noises.
    """
    own, others = quality["FedRN, k=2"], quality[but("FedRN, k=2")].max("row")
    says = "above the others in nine of ten rounds"
    yield from check(says, own > others, share=0.9, bound=OURS)
    lead = (own - others).max("column", "work")
    for metric, points in (("precision", 12), ("recall", 11)):
        largest = lead.at(metric=f"label_{metric}")
        says = f"the largest lead is {points} points of {metric}, to within 4"
        yield from check(says, largest.about(points, within=4), bound=OURS)


@claim(
    "fedrn-10",
    place="Section 5.4; Figures 4 and 5",
    note="One correlation is printed for both noises, without its sign, which must be negative.",
    of_client=clients("figure4", metric=["local_train_accuracy", "noise_level"], by="metric panel"),
    of_pair=pairs("figure5", metric=["output_similarity", "class_overlap"], by="metric panel"),
)
def reliability_works(of_client: Numbers, of_pair: Numbers) -> Checks:
    """Both measures of reliability work: training accuracy follows the noise level (correlation
    above 0.93), and answers to a random image are similar where clients' data are, also under
    noise.
    """
    linear = of_client["local_train_accuracy"].pearson(of_client["noise_level"])
    says = "correlation of training accuracy and noise level below -0.93"
    yield from check(says, linear < -0.93)
    alike = of_pair["output_similarity"].spearman(of_pair["class_overlap"])
    yield from check(
        "similarity of answers rises with the overlap of classes", alike > 0, bound=OURS
    )


@claim(
    "fedrn-11",
    place="Appendix C; Table 10",
    note="By the paper's own formulas, with five local epochs and DivideMix's two views, by which "
    "Joint Optimization and SELFIE cost as much as FedAvg. E > k is not enough for a forward cost "
    "below Co-teaching's, which takes E > 2k + 1.",
    sent_by_formula=quotes(
        "row",
        {
            **{"FedRN, k=1": 3, "FedRN, k=2": 4, "FedAvg": 2, "Co-teaching": 4},
            **{"Joint Optimization": 2, "SELFIE": 2, "DivideMix": 4, "RoFL": 2},
        },
    ),
    forward_by_formula=quotes(
        "row", {"FedRN, k=1": 8, "FedRN, k=2": 10, "FedAvg": 5, "Co-teaching": 10, "DivideMix": 50}
    ),
    sent=statistics(
        "table10",
        column="passes, a sample, forward",
        metric=["bytes_down", "bytes_up"],
        by="row metric",
        as_published=1,
    ),
    forward=statistics(
        "table10",
        column="passes, a sample, forward",
        metric="samples_forward",
        by="row",
        as_published=1,
    ),
)
def costs(
    sent_by_formula: Numbers, forward_by_formula: Numbers, sent: Numbers, forward: Numbers
) -> Checks:
    """FedRN sends about as much as the other methods or less, and its forward cost is near FedAvg's
    and below Co-teaching's and DivideMix's, since there are more local epochs than neighbours.
    """
    one, two = own = ["FedRN, k=1", "FedRN, k=2"]
    for how, sending, passes in (
        ("formulas", sent_by_formula, forward_by_formula),
        ("counted", sent.sum("metric"), forward),
    ):
        bound = sending[but(*own)] * 1.25
        says = f"{how}: at most a quarter more is sent than by each method, with k = 1 and k = 2"
        yield from check(says, sending[one] <= bound, sending[two] <= bound, bound=OURS)
        says = f"{how}: at most half more forward than FedAvg, with k = 1 and k = 2"
        yield from check(says, passes[own] <= 1.5 * passes["FedAvg"], bound=OURS)
        yield from check(
            f"{how}: less forward than Co-teaching and DivideMix, with k = 1 and k = 2",
            passes[own] < passes["Co-teaching"],
            passes[own] < passes["DivideMix"],
        )


@claim(
    "fedrn-12",
    place="Introduction; Figure 1",
    note="Weak clients are taken to be those with the noisiest labels.",
    accuracy=clients(
        "figure1",
        line=among("FedRN, k=2", "FedAvg, clean labels", "FedAvg, noisy labels", "Co-teaching"),
        metric="local_own_classes_accuracy",
        by="line panel",
    ),
)
def brings_models_together(accuracy: Numbers) -> Checks:
    """Label noise and uneven data set clients' models far apart; FedRN brings them together, which
    Co-teaching does not, and helps the weak clients most.
    """
    fedrn = accuracy["FedRN, k=2"]["FedRN"]
    fedavg = accuracy["FedAvg, noisy labels"]["FedRN"]
    coteaching = accuracy["Co-teaching"]["Co-teaching"]
    clean, noisy = (accuracy[f"FedAvg, {one} labels"]["label noise"] for one in ("clean", "noisy"))
    yield from check(
        "FedAvg's models' accuracies are spread more with noisy labels than with clean ones",
        noisy.std() > clean.std(),
    )
    yield from check(
        "models' accuracies are spread less than with Co-teaching and with FedAvg",
        fedrn.std() < coteaching.std(),
        fedrn.std() < fedavg.std(),
    )
    gain = fedrn - fedavg
    says = (
        "the gain over FedAvg is larger in the noisiest third of the clients than in the cleanest"
    )
    noisiest, cleanest = gain.at(noise_rank=since(0.667)), gain.at(noise_rank=until(0.333))
    yield from check(says, noisiest.mean() > cleanest.mean(), bound=OURS)


@claim(
    "fedrn-13",
    place="Section 5.2.2; Table 4",
    accuracy=cells("table4", metric="top1_accuracy", by="method"),
)
def ahead_on_webvision(accuracy: Numbers) -> Checks:
    """On mini-WebVision FedRN with two neighbours is ahead of the other robust methods by up to 9.2
    points.
    """
    lead = accuracy["fedrn_k2"] - accuracy[ROBUST]
    yield from check("ahead of each", lead > 0)
    yield from check("by up to 9.2, to within 0.1", lead.max().about(9.2, within=0.1))
