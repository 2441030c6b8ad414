"""Power-of-Choice (Cho et al., 2020): of a few candidates, those with the largest losses train."""

from __future__ import annotations

import numpy as np

import noisyfl.method as fl

BYTES_OF_A_LOSS = 4


@fl.METHODS.register("poc")
class PowerOfChoice(fl.ServerSide):
    """pi_pow-d: d candidates are drawn without replacement, in proportion to their
    sizes; each says its mean loss under the global model; the m with the largest losses train, and
    the plain mean of their models is the next global one.

    Under label noise the largest losses are those of noisy clients.
    """

    reference = (
        "Cho et al., Client Selection in Federated Learning: Convergence Analysis and "
        "Power-of-Choice Selection Strategies, arXiv 2010.01243, 2020"
    )
    cost = fl.Cost(effort=1.3)

    candidates: int | None = fl.option(
        None,
        doc="d, at least m; null: twice the participants of a round",
        at_least=1,
        at_most_of="clients",
    )

    def select(self, round: int, federation: fl.Federation) -> np.ndarray:
        """Choose the candidates with the largest losses on their unaugmented images."""
        candidates = self._candidates(round, federation)
        losses = self._losses(candidates, round, federation)
        for client, loss in zip(candidates, losses, strict=True):
            federation.report(client, global_loss=float(loss))
        order = np.argsort(-losses, kind="stable")[: federation.participants]
        # The model sent to those who train is counted with the round; the other candidates receive
        # it too, for their losses alone.
        others = len(candidates) - len(order)
        federation.exchange(
            down=others * fl.size_in_bytes(federation.weights), up=BYTES_OF_A_LOSS * len(candidates)
        )
        return np.array([candidates[place].id for place in order])

    def _candidates(self, round: int, federation: fl.Federation) -> list[fl.Client]:
        sizes = np.array([len(client) for client in federation.clients], dtype=float)
        wanted = self.candidates or 2 * federation.participants
        count = min(max(wanted, federation.participants), int((sizes > 0).sum()))
        rng = fl.stream(federation.seed, "candidates", round)
        drawn = rng.choice(len(sizes), size=count, replace=False, p=sizes / sizes.sum())
        return [federation.clients[number] for number in drawn]

    def _losses(
        self, candidates: list[fl.Client], round: int, federation: fl.Federation
    ) -> np.ndarray:
        """The mean loss of each candidate, over its samples and the networks of the model."""
        weights = federation.weights
        networks = sorted({int(name.partition(".")[0]) for name in weights})
        requests = [
            fl.Pass(client, weights, "candidate's loss", network, "plain")
            for client in candidates
            for network in networks
        ]
        losses = [
            float(fl.cross_entropy(outputs.logits, request.client.labels).double().mean())
            for request, outputs in zip(requests, federation.passes(requests, round), strict=True)
        ]
        return np.array(losses).reshape(len(candidates), len(networks)).mean(1)

    def aggregate(self, updates: list[fl.Update], federation: fl.Federation) -> fl.Weights:
        """The plain mean, since sizes already count when candidates are drawn."""
        return fl.plain_mean(fl.nonempty(updates))
