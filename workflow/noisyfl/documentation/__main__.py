"""Write files of the repository that follow from the code: ``python -m noisyfl.documentation``."""

import argparse

from noisyfl.documentation import claims, costs, digests, ids, option_tables

GENERATORS = {
    "declarations": option_tables.pages,
    "ids": ids.files,
    "costs": costs.files,
    "claims": claims.files,
    "digests": digests.files,
}

parser = argparse.ArgumentParser(prog="python -m noisyfl.documentation", description=__doc__)
parser.add_argument(
    "what",
    nargs="?",
    default="declarations",
    choices=GENERATORS,
    help="what follows from the declarations (the default), the ids of the scales' runs, what "
    "tables cost, the verdicts on the papers' claims, or the digests of the methods' code",
)
for path, text in GENERATORS[parser.parse_args().what]().items():
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(path)
