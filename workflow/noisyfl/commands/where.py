"""Where the workflow lies: a module of its own, as scripts ask before each Snakemake."""

from noisyfl.core.places import ROOT


def print_where() -> None:
    """Print the folder with the Snakefile, config/, profiles/ and slurm/.

    Outside a clone tables are made by: snakemake --snakefile "$(noisyfl where)/Snakefile"
    """
    print(ROOT)
