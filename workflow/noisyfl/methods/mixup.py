"""Mixup (Zhang et al., 2018): a client learns mixtures of images, with mixtures of labels."""

from torch import Tensor

import noisyfl.method as fl


@fl.METHODS.register("mixup")
class Mixup(fl.ClientSide):
    """A step mixes its images with themselves in another order, in shares that it draws once."""

    reference = "Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018"

    alpha: float = fl.option(
        1.0, doc="of the Beta distribution of shares; up to 32 under heavy label noise", above=0
    )

    def epoch(self, client: fl.Client, turn: fl.Turn) -> fl.Epoch:
        """Draw for each step the share, and the order of the images that it mixes in."""
        epoch = super().epoch(client, turn)
        return fl.Epoch(epoch.steps, epoch.targets, fl.mixup_draws(epoch.steps, turn, self.alpha))

    def loss(self, model: fl.LocalModel, batch: fl.Batch) -> Tensor:
        """The cross-entropies of both images' labels, mixed in the same share as the images."""
        return fl.mixed_losses(model(fl.mixed_images(batch)).logits, batch).mean()
