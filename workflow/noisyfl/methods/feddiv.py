"""FedDiv (Li et al., AAAI 2024): all clients' mixtures of losses make one filter of noisy labels.

Equation numbers are the paper's. The code follows its text, as the
authors have withdrawn theirs.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

import noisyfl.method as fl
from noisyfl.methods.estimators.mixture import TwoComponents, fit_two

CANDIDATES, GUESSED, BIAS, FILTER = "candidates", "guessed", "bias", "filter"
"""Keys of a client's state. ``candidates``, bool [samples]: the samples that a local update may
learn from. ``guessed``, int64 [samples]: the classes that the global model predicts. ``bias``,
[classes]: the running mean of the local models' mean predictions. ``filter``, float64 [3, 2]:
means, variances and weights of the mixture of the client's losses; the federation's filter has the
same form.
"""

FILTER_BYTES = 3 * 2 * 8


@fl.METHODS.register("feddiv")
class FedDiv(fl.ServerSide, fl.ClientSide):
    """A client's losses under the received model are split by the federation's filter. If more than
    a few are noisy, it learns from the clean ones and from those that the received model labels
    again with confidence, as far as its own debiased prediction agrees, which is asked before each
    local epoch. The filter is the mean of the clients' mixtures, each fitted to its losses under
    its own model after a local update. Filter and biases begin after the warm-up (Algorithm 1), so
    that the first round of filtering is the second after it.
    """

    reference = (
        "Li et al., FedDiv: Collaborative Noise Filtering for Federated Learning with Noisy "
        "Labels, AAAI 2024"
    )
    revision = 2
    cost = fl.Cost(effort=1.6)
    partner = ""

    warm_up_rounds: int = fl.option(
        50,
        doc="rounds of mixup alone; the paper's 5 iterations of all clients by a tenth a round",
        at_least=1,
        share_of=("rounds", 1000),
    )
    clean_threshold: float = fl.option(
        0.5, doc="probability from which a sample is clean (Eq. 7)", at_least=0, at_most=1
    )
    clean_client: float = fl.option(
        0.1, doc="share of noisy samples up to which a client learns all of them", at_least=0
    )
    confidence: float = fl.option(
        0.75, doc="zeta: probability from which a noisy sample is relabelled", at_least=0
    )
    debias: float = fl.option(0.5, doc="xi: of the local model's bias (Eq. 9)", at_least=0)
    bias_momentum: float = fl.option(
        0.2, doc="m: what the bias keeps from round to round (Eq. 12)", at_least=0, below=1
    )
    prior_weight: float = fl.option(
        1.0, doc="eta, of the uniform prior (Eq. 15); 0 in the paper's IID settings", at_least=0
    )
    mixup_alpha: float = fl.option(1.0, doc="alpha: of mixup's Beta distribution", above=0)
    filter_losses: Literal["cross_entropy", "scaled_double_softmax"] = fl.option(
        "cross_entropy",
        doc="what mixtures are of: cross-entropies (Eq. 2), or those of softmax outputs taken for "
        "logits, scaled to [0, 1] (withdrawn code)",
    )

    # ---------------------------------------------------------------- before a local update

    def before_round(
        self, round: int, participants: list[fl.Client], federation: fl.Federation
    ) -> None:
        """Split and relabel the participants' samples (Eqs. 6 to 8)."""
        if round < self.warm_up_rounds or FILTER not in federation.state:
            return
        for client, outputs in federation.ask(participants, "filter"):
            losses = self.losses_to_filter(outputs.logits, client.given)
            clean = clean_probability(losses, federation.state[FILTER]) >= self.clean_threshold
            level = float((~clean).double().mean())
            client.labels = client.given
            federation.report_selection(client, clean)
            federation.report(client, estimated_noise_level=level)
            client.state.pop(CANDIDATES, None)
            if level <= self.clean_client:
                continue
            sureness, guessed = outputs.logits.softmax(1).max(1)
            relabelled = ~clean & (sureness >= self.confidence)
            client.state |= {CANDIDATES: clean | relabelled, GUESSED: guessed}
            client.labels = torch.where(relabelled, guessed, client.given)

    def losses_to_filter(self, logits: Tensor, labels: Tensor) -> Tensor:
        """float64 [samples], see the option ``filter_losses``."""
        if self.filter_losses == "cross_entropy":
            return fl.cross_entropy(logits, labels).double()
        losses = fl.cross_entropy(logits.softmax(1), labels).double()
        spread = losses.max() - losses.min()
        return (losses - losses.min()) / torch.where(spread > 0, spread, 1.0)

    # ---------------------------------------------------------------- a local update

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """The samples that both models agree about (Eqs. 9 to 11), mixup's draws, and the weight
        of the prior. If there are fewer than two such samples, all candidates are learnt; if there
        are fewer than two of those, all samples.
        """
        positions = np.arange(len(client))
        if CANDIDATES in client.state:
            logits = turn.outputs("consistency", 0, "weak").logits
            bias = client.state.get(BIAS)
            # Before the first local update the bias is equal for all classes: it changes no argmax.
            debiased = logits if bias is None else logits - self.debias * bias.to(logits).log()
            candidates = client.state[CANDIDATES]
            agreed = candidates & (debiased.argmax(1) == client.state[GUESSED])
            for mask in (agreed, candidates):
                if int(mask.sum()) > 1:
                    positions = mask.nonzero()[:, 0].cpu().numpy()
                    break
        steps = fl.batches(positions, turn.batch_size, turn.random_stream("batches"))
        weight = self.prior_weight if turn.round >= self.warm_up_rounds else 0.0
        extras = {**fl.mixup_draws(steps, turn, self.mixup_alpha), "prior": [weight] * len(steps)}
        return fl.Epoch(steps, client.labels, extras)

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """Cross-entropy of mixed images, and the divergence of their mean prediction from a uniform
        one (Eqs. 13 to 15).
        """
        log_probability = model(fl.mixed_images(batch)).logits.log_softmax(1)
        learnt = fl.mixed_losses(log_probability, batch)
        count, classes = log_probability.shape
        log_mean = log_probability.logsumexp(0) - math.log(count)
        return learnt.mean() - batch["prior"] * (log_mean + math.log(classes)).mean()

    # ---------------------------------------------------------------- after it

    def after_updates(
        self, round: int, updates: list[fl.Update], federation: fl.Federation
    ) -> None:
        """After the warm-up, move the bias (Eq. 12), and fit the mixture of the client's losses
        (Algorithm 2).
        """
        if round < self.warm_up_rounds:
            return
        for update, outputs in federation.ask(updates, "local filter"):
            client = update.client
            mean = outputs.logits.softmax(1).mean(0)
            before = client.state.get(BIAS, torch.full_like(mean, 1 / len(mean))).to(mean)
            keep = self.bias_momentum
            client.state[BIAS] = keep * before + (1 - keep) * mean
            losses = self.losses_to_filter(outputs.logits, client.given)
            if bool(losses.isfinite().all()):
                fitted = fit_two(losses[None])
                client.state[FILTER] = torch.stack(
                    [fitted.means[0], fitted.variances[0], fitted.weights[0]]
                )
            federation.exchange(up=FILTER_BYTES)

    def after_round(self, round: int, updates: list[fl.Update], federation: fl.Federation) -> None:
        """Make the filter: the mean, weighted by size, of all clients' latest mixtures (Eq. 5).

        As long as no client has had finite losses there is none, and nothing is filtered.
        """
        known = [client for client in federation.clients if FILTER in client.state]
        if not known:
            return
        parts = torch.stack([client.state[FILTER] for client in known])
        sizes = parts.new_tensor([len(client) for client in known])
        federation.state[FILTER] = torch.tensordot(sizes / sizes.sum(), parts, 1)
        federation.exchange(down=len(updates) * FILTER_BYTES)

    def size(self, client: fl.Client) -> float:
        """The number of all the client's samples, also of those not learnt from (Eq. 1)."""
        return float(len(client))


def clean_probability(losses: Tensor, parameters: Tensor) -> Tensor:
    """float64 [samples], the probability of the lower component given each loss (Eqs. 3 and 6).

    Args:
        losses: [samples].
        parameters: float64 [3, 2], means, variances and weights.
    """
    return TwoComponents(*parameters[:, None]).posterior(losses[None])[0, :, 0]
