"""Figures from what probes measured, against numbers worked out in other ways."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.stats import pearsonr
from sklearn.metrics.pairwise import cosine_similarity

from descriptions import described
from noisyfl.analysis.probes import probed_rows
from noisyfl.analysis.runs import read_run, read_runs
from noisyfl.analysis.samples import majority, read_features
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.figures import detection, features, local_models, similarity, style
from noisyfl.figures.draw import draw_figure

RNG = np.random.default_rng(7)
CLIENTS = 10
SHARDS = {"partition": {"name": "shard", "shards": 2, "clients": CLIENTS}}


@pytest.fixture(autouse=True)
def in_house_style():
    with style.house_style():
        yield


def partition_of(path):
    return {"partition": path.stem}, noisy_partition.read(path)


def last_round(**columns):
    """Rows of clients in a last round, after one of an earlier one without the columns."""
    values = zip(*columns.values(), strict=True)
    rows = [
        {"round": 9, "client": number, **dict(zip(columns, one, strict=True))}
        for number, one in enumerate(values)
    ]
    return [{"round": 8, "client": 3, **dict.fromkeys(columns)}, *rows]


# -------------------------------------------------------------------- local models


@pytest.fixture
def accuracies(runs, make_partition):
    """Two runs on one partition, of which one follows the noise levels, and one on clean labels."""
    path = make_partition(**SHARDS)
    clean_path = make_partition(**SHARDS, label_noise="none", noise_level="none")
    (noisy, partition), (clean, clean_partition) = map(partition_of, (path, clean_path))
    values = {
        "good": 0.9 - 0.6 * partition.realised + 0.02 * RNG.normal(size=CLIENTS),
        "bad": RNG.uniform(size=CLIENTS),
        "clean": RNG.uniform(0.8, 0.9, size=CLIENTS),
    }
    lines = []
    for name, method, where in (
        ("good", "fedrn", noisy),
        ("bad", "fedavg", noisy),
        ("clean", "fedavg", clean),
    ):
        given = {**SHARDS, "label_noise": "none", "noise_level": "none"}
        rows = last_round(local_test_accuracy=values[name], local_train_accuracy=values[name] / 2)
        run = runs.add([0.5], method=method, clients=rows, **(given if where is clean else SHARDS))
        lines.append({"name": name, "run": run, **where})
    return lines, values, [clean_partition, partition], [clean_path, path]


def test_local_models_are_drawn_in_the_order_of_noise_levels(accuracies, runs):
    (good, bad, clean), values, partitions, _ = accuracies
    panels = [{"name": "one", "lines": [good]}, {"name": "all", "lines": [good, bad, clean]}]
    description = {"name": "f", "y": "test_accuracy", "panels": panels}
    figure = local_models.local_models(described(description), read_runs(runs.files), partitions)
    first, second = figure.axes
    level = partitions[1].realised
    ranked = sorted(range(CLIENTS), key=lambda client: (level[client], client))
    assert len(set(level)) > 2
    drawn = [line.get_ydata() for line in second.lines]
    assert drawn[0] == pytest.approx([100 * values["good"][c] for c in ranked])
    assert drawn[1] == pytest.approx([100 * values["bad"][c] for c in ranked])
    # Without noise, clients stay in the order of their ids.
    assert drawn[2] == pytest.approx(100 * values["clean"])
    assert first.lines[0].get_color() == second.lines[0].get_color()
    assert len({line.get_color() + str(line.get_linestyle()) for line in second.lines}) == 3
    # Each partition's noise level is shaded once, up to its height.
    assert len(second.collections) == 2
    tops = [shade.get_paths()[0].vertices[:, 1].max() for shade in second.collections]
    assert sorted(tops) == pytest.approx([0, 100 * level.max()])
    r = pearsonr(level, values["good"]).statistic
    assert first.get_title() == f"one\nPearson's r = {r:.2f}"
    assert r < -0.9
    assert second.get_title() == "all"


def test_local_models_have_their_training_accuracy_or_none(accuracies, runs):
    (good, *_), values, partitions, _ = accuracies
    description = {"name": "f", "y": "train_accuracy", "panels": [{"name": "", "lines": [good]}]}
    figure = local_models.local_models(described(description), read_runs(runs.files), partitions)
    found = np.sort(figure.axes[0].lines[0].get_ydata())
    assert found == pytest.approx(np.sort(50 * values["good"]))


@pytest.mark.parametrize("rows", [[], [{"round": 9, "client": 0, "local_test_accuracy": None}]])
def test_a_run_without_the_probe_is_refused(rows, runs):
    run = runs.add([0.5], clients=rows)
    with pytest.raises(BadInput, match=r"clients\.parquet: no local_test_accuracy, expected a run"):
        probed_rows(read_run(run, runs.files[run]), ["local_test_accuracy"])


def test_other_runs_and_missing_clients_are_refused(accuracies, runs):
    (good, bad, _), _, partitions, _ = accuracies
    run = read_run(good["run"], runs.files[good["run"]])
    with pytest.raises(DamagedArtifact, match=f"expected the run {good['run']}"):
        probed_rows(replace(run, files=runs.files[bad["run"]]), ["local_test_accuracy"])
    rows = last_round(local_test_accuracy=[0.5] * 9)
    line = {"name": "x", "run": runs.add([0.5], clients=rows, seed=9, **SHARDS), **good}
    line["run"] = runs.add([0.5], clients=rows, seed=9, **SHARDS)
    description = {"name": "f", "y": "test_accuracy", "panels": [{"name": "", "lines": [line]}]}
    with pytest.raises(BadInput, match="of 9 clients, expected 10"):
        local_models.local_models(described(description), read_runs(runs.files), partitions)


# -------------------------------------------------------------------- similarity


@pytest.fixture
def answers(runs, make_partition):
    path = make_partition(**SHARDS)
    where, partition = partition_of(path)
    outputs = RNG.dirichlet(np.ones(10), size=CLIENTS)
    rows = last_round(random_image_output=outputs.tolist())
    run = runs.add([0.5], clients=rows, seed=5, **SHARDS)
    return {"name": "p", "run": run, **where}, partition, outputs, path


def test_similarity_is_ordered_by_main_classes(answers, runs):
    panel, partition, outputs, _ = answers
    figure = similarity.similarity(
        described({"name": "f", "panels": [panel]}), read_runs(runs.files), [partition]
    )
    axes = figure.axes[0]
    mains, shared = [], []
    for client in partition.clients:
        common = Counter(client.true_label.tolist())
        mains.append(sorted(range(10), key=lambda label: (-common[label], label))[:2])
        shared.append({label for label in mains[-1] if common[label]})
    order = sorted(range(CLIENTS), key=lambda client: (*mains[client], client))
    table = cosine_similarity(outputs)
    assert order != list(range(CLIENTS))
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(table[np.ix_(order, order)])
    pairs = [pair for pair in product(range(CLIENTS), repeat=2) if pair[0] != pair[1]]
    means = [
        np.mean([table[a, b] for a, b in pairs if bool(shared[a] & shared[b]) is common])
        for common in (True, False)
    ]
    expected = f"p\nmean: sharing a main class {means[0]:.2f}, others {means[1]:.2f}"
    assert axes.get_title() == expected
    # A label stands in the middle of the clients whose main class it is.
    firsts = [mains[client][0] for client in order]
    for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True):
        members = [n for n, main in enumerate(firsts) if str(main) == label.get_text()]
        assert place == np.mean(members)


def test_a_model_that_diverged_leaves_a_gap(runs, make_partition):
    where, partition = partition_of(make_partition(**SHARDS))
    outputs = RNG.dirichlet(np.ones(10), size=CLIENTS).tolist()
    outputs[4] = [None] * 10
    run = runs.add([0.5], clients=last_round(random_image_output=outputs), **SHARDS)
    panel = {"name": "p", "run": run, **where}
    figure = similarity.similarity(
        described({"name": "f", "panels": [panel]}), read_runs(runs.files), [partition]
    )
    missing = np.isnan(np.ma.filled(figure.axes[0].images[0].get_array(), np.nan))
    assert missing.sum() == 2 * CLIENTS - 1
    assert "nan" not in figure.axes[0].get_title()


# -------------------------------------------------------------------- detection


@pytest.fixture
def scores(runs):
    """Three clients with classes of unequal size; losses and similarities that overlap."""
    rows = []
    for number, sizes in enumerate(((30, 20, 5, 0), (4, 4, 4, 40), (25, 25, 25, 25))):
        given = np.repeat(np.arange(4), sizes)
        true = np.where(RNG.random(len(given)) < 0.4, (given + 1) % 4, given)
        loss = RNG.exponential(size=len(given)) + 1.5 * (given != true)
        rows.append(
            {
                "round": 9,
                "client": number,
                "sample_given_label": given.tolist(),
                "sample_true_label": true.tolist(),
                "sample_loss": loss.tolist(),
                "sample_similarity": np.exp(-loss + 0.2 * RNG.normal(size=len(given))).tolist(),
            }
        )
    run = runs.add([0.5], clients=rows)
    panels = [
        {"name": f"{score} {classes}", "run": run, "score": score, "classes": classes}
        for score, classes in product(("loss", "similarity"), ("majority", "minority"))
    ]
    return panels, rows


def test_classes_are_of_the_majority_from_the_mean_size_on():
    given = np.array([0] * 5 + [1] * 3 + [7] * 1 + [2] * 3)  # 12 samples of 4 classes
    assert sorted(set(given[majority(given)])) == [0, 1, 2]
    assert majority(np.array([3, 3])).all()


def test_detection_shows_how_clean_and_noisy_samples_are_spread(scores, runs):
    panels, rows = scores
    figure = detection.detection(described({"panels": panels}), read_runs(runs.files))
    assert len(figure.axes) == 4
    for axes, panel in zip(figure.axes, panels, strict=True):
        column = f"sample_{panel['score']}"
        values = {True: [], False: []}
        for row in rows:
            many = Counter(row["sample_given_label"])
            mean = sum(many.values()) / len(many)
            for given, true, score in zip(
                row["sample_given_label"], row["sample_true_label"], row[column], strict=True
            ):
                if (many[given] >= mean) == (panel["classes"] == "majority"):
                    values[given != true].append(score)
        clean, noisy = values[False], values[True]
        right = [
            (a > b) + 0.5 * (a == b) if panel["score"] == "loss" else (a < b) + 0.5 * (a == b)
            for a, b in product(noisy, clean)
        ]
        words = f"{len(clean) + len(noisy)} samples, area under the ROC curve {np.mean(right):.2f}"
        assert axes.get_title() == f"{panel['name']}\n{words}"
        everything = np.concatenate([row[column] for row in rows])
        # Bins are common to majority and minority, so that one panel can be held against the other.
        edges = np.linspace(everything.min(), everything.max(), 41)
        for container, group in zip(axes.containers, (clean, noisy), strict=True):
            heights = [bar.get_height() for bar in container]
            assert heights == pytest.approx(100 * np.histogram(group, edges)[0] / len(group))
            assert [bar.get_x() for bar in container] == pytest.approx(edges[:-1])


def test_a_panel_without_noisy_or_without_any_samples_is_drawn(runs):
    """Equal classes are all of the majority."""
    row = {"round": 9, "client": 0, "sample_loss": [0.1, 0.2, 0.3, 0.4]}
    labels = {"sample_given_label": [0, 0, 1, 1], "sample_true_label": [0, 0, 1, 1]}
    run = runs.add([0.5], clients=[{**row, **labels}])
    panels = [
        {"name": "p", "run": run, "score": "loss", "classes": classes}
        for classes in ("majority", "minority")
    ]
    figure = detection.detection(described({"panels": panels}), read_runs(runs.files))
    assert [axes.get_title() for axes in figure.axes] == ["p\n4 samples", "p\n0 samples"]
    assert figure.axes[1].texts[0].get_text() == "not recorded"


# -------------------------------------------------------------------- features


@pytest.fixture
def clusters(runs):
    """Two clients with well separated classes of digits, of which three have a centroid."""
    middles = 8 * RNG.normal(size=(10, 16))
    rows = []
    for number in range(2):
        true = np.repeat(np.arange(5), 16)
        given = np.where(RNG.random(len(true)) < 0.25, 9, true)
        vectors = middles[true] + RNG.normal(size=(len(true), 16))
        centroids = np.where(np.arange(10)[:, None] < 3, middles, 0)
        rows.append(
            {
                "round": 9,
                "client": number,
                "feature_true_label": true.tolist(),
                "feature_given_label": given.tolist(),
                "feature_vector": vectors.tolist(),
                "class_centroid": centroids.tolist(),
            }
        )
    with_stars = runs.add([0.5], clients=rows, seed=4)
    plain = [{**row, "class_centroid": None} for row in rows]
    plain[0]["feature_vector"] = [[None] * 16, *plain[0]["feature_vector"][1:]]
    without = runs.add([0.5], clients=plain, seed=2)
    return [{"name": "without", "run": without}, {"name": "with", "run": with_stars}], rows


@pytest.mark.slow
def test_features_of_a_class_lie_together_around_its_star(clusters, runs):
    panels, rows = clusters
    figure = features.features(described({"panels": panels}), read_runs(runs.files))
    without, with_stars = figure.axes
    right, wrong, stars = with_stars.collections
    true = np.concatenate([row["feature_true_label"] for row in rows])
    given = np.concatenate([row["feature_given_label"] for row in rows])
    assert len(right.get_offsets()) == (true == given).sum()
    assert len(wrong.get_offsets()) == (true != given).sum() > 10
    assert [to_hex(colour) for colour in stars.get_facecolors()] == list(style.CLASSES[:3])
    assert [to_hex(c) for c in right.get_facecolors()] == [
        style.CLASSES[label] for label in true[true == given]
    ]
    places, labels = np.asarray(right.get_offsets()), true[true == given]
    middles = np.array([places[labels == label].mean(0) for label in range(5)])
    nearest = np.linalg.norm(places[:, None] - middles, axis=2).argmin(1)
    assert (nearest == labels).all()
    around = np.linalg.norm(np.asarray(stars.get_offsets())[:, None] - middles, axis=2)
    assert around.argmin(1).tolist() == [0, 1, 2]
    # The sample that is not finite is left out, and there is no star.
    counted = [len(part.get_offsets()) for part in without.collections]
    assert sum(counted) == len(true) - 1
    assert counted[2] == 0
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [*map(str, range(10)), "wrong label", "global centroid"]


def test_where_true_labels_are_not_known_given_ones_have_the_colours(clusters, runs):
    _, rows = clusters
    unknown = [{**row, "feature_true_label": None, "class_centroid": None} for row in rows]
    run = runs.add([0.5], clients=unknown, seed=3)
    found = read_features(read_run(run, runs.files[run]))
    assert found.classes.tolist() == [n for row in rows for n in row["feature_given_label"]]
    assert not found.wrong.any()
    figure = features.features(
        described({"name": "f", "panels": [{"name": "", "run": run}]}), read_runs(runs.files)
    )
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == list(map(str, range(10)))


def test_many_classes_have_colours_of_a_scale():
    colours = style.class_colours(100)
    assert len(set(colours)) == 100
    assert style.class_colours(3) == list(style.CLASSES[:3])


# -------------------------------------------------------------------- all of them


@pytest.mark.slow
def test_each_is_drawn_twice_to_the_same_bytes(
    accuracies, answers, scores, clusters, runs, tmp_path
):
    lines, _, _, paths = accuracies
    given = {
        "local_models": ({"y": "test_accuracy", "panels": [{"name": "", "lines": lines}]}, paths),
        "similarity": ({"panels": [answers[0]]}, [answers[3]]),
        "detection": ({"panels": scores[0]}, []),
        "features": ({"panels": clusters[0]}, []),
    }
    for kind, (description, partitions) in given.items():
        written = []
        for attempt in ("one", "two"):
            png, pdf = (tmp_path / attempt / f"{kind}.{ending}" for ending in ("png", "pdf"))
            draw_figure(
                described({"name": kind, "kind": kind, **description}),
                runs.files,
                partitions,
                png,
                pdf,
            )
            written.append((png.read_bytes(), pdf.read_bytes()))
        assert written[0] == written[1], kind


def test_names_of_classes_with_few_clients_do_not_lie_over_each_other():
    far = np.array([10.0, 40, 70])
    assert similarity.spread_out(far, 4, 99).tolist() == far.tolist()
    near = similarity.spread_out(np.array([10.0, 94, 96, 98]), 4, 99)
    assert near.tolist() == [10, 91, 95, 99]
    assert (np.diff(near) >= 4).all()


def test_what_diverged_is_not_drawn_and_is_told(clusters, runs, tmp_path, monkeypatch):
    """It was not measured, as its last round was never reached."""
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *paths: drawn.append(figure))
    (whole, *_), *_ = clusters
    ended = runs.add([0.1], seed=9, provenance={"status": "diverged"})
    for panels in ([whole, {"name": "ended", "run": ended}], [{"name": "ended", "run": ended}]):
        used = {panel["run"]: runs.files[panel["run"]] for panel in panels}
        description = described({"name": "f", "kind": "features", "panels": panels})
        draw_figure(description, used, [], tmp_path / "f.png")
    some, none = drawn
    assert [axes.get_title() for axes in some.axes] == [whole["name"]]
    assert some.texts[-1].get_text().endswith("1 of 2 runs diverged")
    assert none.axes == []
    assert none.texts[0].get_text() == "every run diverged"
