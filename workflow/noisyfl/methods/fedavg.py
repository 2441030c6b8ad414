"""FedAvg (McMahan et al., 2017): local SGD on cross-entropy, averaged by size."""

import noisyfl.method as fl


@fl.METHODS.register("fedavg")
class FedAvg(fl.ServerSide, fl.ClientSide):
    """Both sides as they come: uniform participants, plain cross-entropy, weighted mean."""

    reference = "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017"
