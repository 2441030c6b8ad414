"""Record the digests of the methods' code, with which planning notices an edited method."""

from noisyfl.core.artifacts import json_text
from noisyfl.specs import catalogue

catalogue.DIGESTS.write_text(json_text(catalogue.digests(catalogue.methods())))
