"""The oracle: FedAvg that knows which labels are right."""

import numpy as np

import noisyfl.method as fl


@fl.METHODS.register("oracle")
class Oracle(fl.ClientSide):
    """FedAvg trained on the truly clean samples alone (FedRN, footnote 5): wrong ones are left out,
    not corrected, and a client counts for as many samples as it has clean ones.
    """

    reference = "Kim et al., FedRN, CIKM 2022, footnote 5"
    needs_truth = True

    def positions(self, client: fl.Client) -> np.ndarray:
        """The samples whose given label is the true one."""
        return (client.given == client.true).nonzero()[:, 0].cpu().numpy()
