"""Deep self-learning (Han, Luo and Wang, ICCV 2019): labels by the nearest class prototypes.

There is no official code; RoFL's authors wrote theirs from the paper, and so is this.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

import noisyfl.method as fl


@fl.METHODS.register("deep_self_learning")
class DeepSelfLearning(fl.ClientSide):
    """Self-learning with multiple prototypes (SMP), as a client side.

    Before a client trains it finds prototypes of each class among its own samples, by the features
    of the model that it received, and gives every sample a second label: the class whose
    prototypes are nearest. The loss looks at both labels.
    """

    reference = (
        "Han, Luo and Wang, Deep Self-Learning From Noisy Labels, ICCV 2019; as a client side: "
        "Yang et al., Robust Federated Learning with Noisy Labels, 2022"
    )
    cost = fl.Cost(effort=1.1)

    weight: float = fl.option(
        0.5, doc="alpha: share of the loss that is on the corrected label", at_least=0, at_most=1
    )
    start_round: int = fl.option(
        1, doc="round, from 0, from which the corrected labels are used", at_least=0
    )
    samples: int = fl.option(
        128, doc="m: samples of a class that prototypes are looked for among", at_least=1
    )
    prototypes: int = fl.option(3, doc="p: prototypes of a class, at most", at_least=1)
    density_rank: float = fl.option(
        0.4,
        doc="share of all similarities, from the smallest, below which two samples do not add to "
        "each other's density",
        at_least=0,
        below=1,
    )
    nearest_denser: float = fl.option(
        0.95,
        doc="a prototype's similarity to denser samples is below this; if that leaves none, the "
        "densest sample is the prototype",
        above=0,
        at_most=1,
    )
    correction: Literal["participation", "epoch"] = fl.option(
        "participation",
        doc="when labels are corrected: before the first local epoch, or before each",
    )
    view: Literal["plain", "weak"] = fl.option(
        "plain", doc="the images that features are of: as they are, or augmented as in training"
    )

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Both labels of each sample, and the second one's share of the loss."""
        epoch = super().epoch(client, turn)
        label, share = client.labels, 0.0
        if turn.round >= self.start_round:
            if turn.number == 0 or self.correction == "epoch":
                client.state["corrected"] = self._corrected(client, turn)
            label, share = client.state["corrected"], self.weight
        targets = torch.stack([client.labels, label], 1)
        return fl.Epoch(epoch.steps, targets, {"share": [share] * len(epoch.steps)})

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """(1 - alpha) CE(y) + alpha CE(y^), the means over the batch."""
        logits = model(batch.images).logits
        own, corrected = (
            fl.cross_entropy(logits, label).mean() for label in batch.target.unbind(1)
        )
        return (1 - batch["share"]) * own + batch["share"] * corrected

    def _corrected(self, client: fl.Client, turn: fl.Turn) -> Tensor:
        """The class of each sample, [samples]: the one whose prototypes have the largest mean
        cosine to the sample's features.

        A class that the client has no sample of has no prototypes, and is given to no sample.
        """
        outputs = turn.outputs("prototype images", 0, self.view)
        features = normalize(outputs.features)
        rng = turn.random_stream("prototypes")
        scores = torch.full_like(outputs.logits, -torch.inf)
        for label in client.labels.unique().tolist():
            members = (client.labels == label).nonzero()[:, 0]
            drawn = torch.from_numpy(rng.permutation(len(members))[: self.samples])
            found = features[members[drawn.to(members.device)]]
            found = found[self.find(fl.product(found, found.T))]
            scores[:, label] = fl.product(features, found.T).mean(1)
        return scores.argmax(1)

    def find(self, similarity: Tensor) -> Tensor:
        """The prototypes among the samples of a class: their indices, the densest first.

        The density of a sample is the number of samples whose similarity to it is above a
        threshold, minus the number of those below. The densest samples become prototypes, except
        those that are too similar to a denser sample.

        Args:
            similarity: [m, m], cosines.
        """
        # Rounding can make the product asymmetric; then only one of the two entries of a pair might
        # equal the threshold.
        similarity = (similarity + similarity.T) / 2
        ranked = similarity.flatten().sort().values
        threshold = ranked[int(self.density_rank * len(ranked))]
        density = (similarity - threshold).sign().sum(1)
        denser = density[None, :] > density[:, None]
        nearest = torch.where(denser, similarity, -torch.inf).amax(1)
        nearest = torch.where(denser.any(1), nearest, similarity.amin(1))
        order = density.argsort(descending=True, stable=True)
        apart = order[nearest[order] < self.nearest_denser]
        return apart[: self.prototypes] if len(apart) else order[:1]

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """Report how many corrected labels are right."""
        for update in updates:
            client = update.client
            corrected = client.state.pop("corrected", None)
            if corrected is not None:
                right = client.accuracy_of(corrected)
                federation.report(client, corrected_label_accuracy=right)
                federation.report_labels(client, corrected)
