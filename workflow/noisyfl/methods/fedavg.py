"""FedAvg (McMahan et al., 2017): local SGD on cross-entropy, averaged by size."""

from noisyfl.methods.registry import METHODS
from noisyfl.simulation.client_side import ClientSide
from noisyfl.simulation.server_side import ServerSide


@METHODS.register("fedavg")
class FedAvg(ServerSide, ClientSide):
    """Both sides as they come: uniform participants, plain cross-entropy, weighted mean."""

    reference = "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017"
