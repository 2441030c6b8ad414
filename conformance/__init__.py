"""Comparison of the project's methods with the official codes, step by step and in whole runs.

Official code is never part of the project. It is imported from a checkout, and patched from outside
where it would not run otherwise (it asks for CUDA on a machine without a GPU, or for a name that a
library has deleted). Only numbers come back.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent

COMMITS = {
    "AllenPu/FedELR_CTR": "cd82bcddcb01c193dca65b29562e979e11b32ab8",
    "DaikiTanaka-UT/JointOptimization": "7e7a30dfca8b779d59dee257b3b1c592ab9cf8c1",
    "Divyansh03/FedExP": "34b05a269e2cff24c54c0b159bde80fa915bbeff",
    "ElvinKim/FedRN": "0b34b9a5230b070f4e4501c28115be0b30f68e07",
    "LiJunnan1992/DivideMix": "d9d3058fa69a952463b896f84730378cdee6ec39",
    "MLOPTPSU/FedTorch": "ab8068dbc96804a5c1a8b898fd115175cfebfe75",
    "NUST-Machine-Intelligence-Laboratory/Jo-SRC": "e5c8bd98db29c88506655528b81e3ef2514dd695",
    "PaulAlbert31/LabelNoiseCorrection": "5e9a73ee52b7685d93a4fd1d0e66fb0ab5db955a",
    "QinbinLi/MOON": "8fcba3c4efc9a47eb24687a91ba94cfb2005103f",
    "Sprinter1999/FNBench": "9cec427eb5dfdcaadb99ce99b867e91f0b71db42",
    "Sprinter1999/FedELC": "b5a85637ebb6199956adfe118cc9db5c014fecec",
    "Sprinter1999/FedLSR": "7e3b875e163e9417524ba03fab66720844c568fe",
    "Sprinter1999/MaskedOptim": "a8e8e55bcfd556f045ceccc3252cf3b53d08049c",
    "Tianjoker/FedRG": "9fd93e7a1d755633c7665111deff6ac42abd5b25",
    "Xu-Jingyi/FedCorr": "d9c0d86abb6d74f63c1705f18d49902e89af75aa",
    "alpemreacar/FedDyn": "48a19fac440ef079ce563da8e0c2896f8256fef9",
    "bhanML/Co-teaching": "7c7fbe23e15e517db76a0882b6d108e4508e09d6",
    "bytedance/FedDecorr": "973e4af2d416e8dacda1fb19a328e440f9e815af",
    "felisat/clustered-federated-learning": "23a1c3887ed151a9c6340370337804766d11c69c",
    "fushuhao6/Attack-Resistant-Federated-Learning": "2aab03f2443a80361efa26844361ba138c2e654d",
    "linChen99/FedNed": "ca8a2ccf5818d548ffaf27c1a9df458b27212a08",
    "lishenghui/arfl": "0b3b49bd41352e6775586a6e6104c4f2b94369ea",
    "litian96/FedProx": "d2a4501f319f1594b732d88315c5ca1a72855f50",
    "sinagh72/FedSIR": "bebb31641ab746937d9516eadad602a9e432628f",
    "wnn2000/FedNoRo": "6719ad7df821abb9e3651166bf77dff41ede5022",
    "yuetan031/FedProto": "97e42e2741e1ae2e2fce2465e80f38f6997f8836",
}
"""The official repositories, each with the commit that its numbers were recorded from."""


def checkout(official: Path, repository: str) -> Path:
    """The path of a repository's checkout, ``OWNER+NAME`` in a folder of checkouts.

    Raises:
        SystemExit: there is no checkout, or it is at another commit.
    """
    folder = official / repository.replace("/", "+")
    found = _commit(folder)
    if found != COMMITS[repository]:
        raise SystemExit(
            f"{folder}: expected {repository} at {COMMITS[repository]}, found {found or 'nothing'}"
        )
    return folder.resolve()


def _commit(folder: Path) -> str:
    head = os.popen(f"git -C '{folder}' rev-parse HEAD 2>/dev/null")
    return head.read().strip()
