"""Mixup (Zhang et al., 2018): a client learns mixtures of images, with mixtures of labels."""

from torch import Tensor

from noisyfl.core.options import option
from noisyfl.methods.registry import METHODS
from noisyfl.simulation.client_side import ClientSide, Turn
from noisyfl.simulation.clients import Client
from noisyfl.simulation.mixup import mixed_images, mixed_losses, mixup_draws
from noisyfl.simulation.model import LocalModel
from noisyfl.simulation.updates import Batch, Epoch


@METHODS.register("mixup")
class Mixup(ClientSide):
    """A step mixes its images with themselves in another order, in shares that it draws once."""

    reference = "Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018"

    alpha: float = option(
        1.0, doc="of the Beta distribution of shares; up to 32 under heavy label noise", above=0
    )

    def epoch(self, client: Client, turn: Turn) -> Epoch:
        """Draw for each step the share, and the order of the images that it mixes in."""
        epoch = super().epoch(client, turn)
        return Epoch(epoch.steps, epoch.targets, mixup_draws(epoch.steps, turn, self.alpha))

    def loss(self, model: LocalModel, batch: Batch) -> Tensor:
        """The cross-entropies of both images' labels, mixed in the same share as the images."""
        return mixed_losses(model(mixed_images(batch)).logits, batch).mean()
