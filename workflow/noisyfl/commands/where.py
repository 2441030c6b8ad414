"""Where the workflow is; a separate module, as scripts call it before each Snakemake."""

from noisyfl.core.places import ROOT


def print_where() -> None:
    """Print the folder with the Snakefile, config/, profiles/ and slurm/.

    Outside of a clone, build tables with: snakemake --snakefile "$(noisyfl where)/Snakefile"
    """
    print(ROOT)
