"""FedExP's step on the server, of its authors' script."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from conformance.simulation import Small, federation_of, loaded, method, tensor, weights_of
from conformance.steps import Code, Step, Values
from noisyfl.simulation.aggregation import flat
from noisyfl.simulation.updates import Update

SIZES, CHOSEN = (5, 3, 4, 6), (0, 1, 3)


class ServerStep(Step):
    """Two rounds of the same three of four clients. What their local updates change is given."""

    method = "fedexp"
    what = "server's models, tested models and step sizes of two rounds, `variant=official`"
    file, lines = "main.py", (307, 424)

    def inputs(self, rng: np.random.RandomState) -> Values:
        network = Small(normalised=False)
        changes = [[weights_of(rng, network) for _ in CHOSEN] for _ in range(2)]
        return {"weights": weights_of(rng, network), "changes": changes}

    def official(self, code: Code, given: Values) -> Values:
        network = loaded(Small(normalised=False), given["weights"])
        size = parameters_to_vector(network.parameters()).numel()
        shares = np.array(SIZES) / sum(SIZES)
        space: dict[str, Any] = {
            "torch": torch, "copy": copy, "parameters_to_vector": parameters_to_vector,
            "vector_to_parameters": vector_to_parameters, "dataset": "", "alg": "fedexp",
            "np": SimpleNamespace(random=SimpleNamespace(choice=lambda *_, **__: list(CHOSEN))),
            "args": {"device": "cpu", "num_participating_clients": len(CHOSEN)}, "d": size,
            "n": len(SIZES), "p": torch.tensor(shares), "dataset_train": SIZES, "c": None,
            "mem_mat": None, "delta": None, "grad_mom": None, "grad_norm_avg_running": 0,
            "net_glob": network, "w_vec_estimate": torch.zeros(size), "local_lr": 0.1,
            "decay": 0.998, "epsilon": 0.1, "mu": 0, "weight_decay": 0, "max_norm": 10,
            "use_gradient_clipping": True, "global_lr": "adaptive", "eta_g_tmp": [],
        }  # fmt: skip
        found: dict[str, list] = {"server": [], "tested": [], "step": []}
        for number, changes in enumerate(given["changes"]):
            vectors = {
                client: parameters_to_vector(loaded(Small(normalised=False), change).parameters())
                for client, change in zip(CHOSEN, changes, strict=True)
            }
            space |= {"t": number, "get_grad": _given(vectors)}
            space = code.block(self.file, self.lines, **space)
            found["server"].append(space["w_vec_estimate"])
            found["tested"].append(space["w_vec_avg"])
            found["step"].append(float(space["eta_g"]))
        return found

    def ours(self, given: Values) -> Values:
        labels = [np.zeros(size, dtype=int) for size in SIZES]
        network = loaded(Small(normalised=False), given["weights"])
        federation = federation_of([network], np.zeros((sum(SIZES), 1, 3, 3)), labels)
        side = method("fedexp", variant="official", epsilon=0.1)
        found: dict[str, list] = {"server": [], "tested": [], "step": []}
        for number, changes in enumerate(given["changes"]):
            federation.round = number
            updates = []
            for place, change in zip(CHOSEN, changes, strict=True):
                own = {k: v + tensor(change[k[2:]]) for k, v in federation.weights.items()}
                client = federation.clients[place]
                updates.append(Update(client, own, {}, len(client), 1, 0.0, 0, 0))
            federation.weights = side.aggregate(updates, federation)
            found["server"].append(flat(federation.weights))
            found["tested"].append(flat(side.predictors(federation)[0].weights))
            found["step"].append(federation.records.estimates[CHOSEN[0]]["server_step"])
        return found


def _given(changes: dict[int, Any]) -> Any:
    """What a local update changed, by the client's number, which is the fifth argument after the
    network.
    """
    return lambda network, args, more, data, alg, client, *rest: changes[client].detach()
