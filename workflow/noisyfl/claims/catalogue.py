"""The claims of all papers."""

from __future__ import annotations

# Each of these modules adds its paper's claims, in this order, to those that declaration.py holds.
from noisyfl.claims import fedcni, fedcorr, fednoil, fedrn, rofl  # noqa: F401
from noisyfl.claims.declaration import CLAIMS

__all__ = ["CLAIMS"]
