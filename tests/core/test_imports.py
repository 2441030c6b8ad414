"""What is imported by processes that there are many of: torch takes longer than what they do."""

import subprocess
import sys

CODE = """
import sys
import noisyfl.data.augmentation.randaugment, noisyfl.data.noisy_partition
import noisyfl.commands.scales
from noisyfl.data.augmentation.augment import draw
print([m for m in ("torch", "torchvision", "sklearn", "scipy", "pandas") if m in sys.modules])
import noisyfl.analysis.published_cells, noisyfl.claims.judgement
import noisyfl.figures.draw, noisyfl.pages.evidence, noisyfl.pages.print_table
print([m for m in ("torch", "torchvision", "sklearn") if m in sys.modules])
"""


def test_partitions_and_plans_need_no_heavy_library_and_tables_and_figures_no_torch():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "[]", ""]
