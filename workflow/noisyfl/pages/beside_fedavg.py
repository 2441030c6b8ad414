"""The note of a table's page that says which methods differ clearly from FedAvg."""

from __future__ import annotations

from noisyfl.analysis.against_fedavg import CLEAR, differences
from noisyfl.analysis.cells import Content
from noisyfl.analysis.room import ACCURACY, BASELINE


def beside_fedavg(content: Content) -> list[str]:
    """A note on which rows differ clearly from FedAvg's; none for a table that cannot tell."""
    names = [row.method_name for row in content.description.rows]
    runs = content.frame[(content.frame["run"] != "") & (content.frame["status"] == "finished")]
    runs = runs[runs["metric"] == ACCURACY].set_index("seed")
    if names.count(BASELINE) != 1 or runs.empty:
        return []
    accuracies = {
        (int(cell["row_number"].iloc[0]), int(cell["column_number"].iloc[0])): cell["mean_last_10"]
        for _, cell in runs.groupby(["row_number", "column_number"])
    }
    found = differences(accuracies, names.index(BASELINE))
    if not found.deviations:
        return []
    parts = []
    for c in found.deviations:
        for words, sign in (("better", 1), ("worse", -1)):
            clear = sorted(r for r, at in found.clear if at == c and sign * found.mean((r, at)) > 0)
            if clear:
                rows = ", ".join(content.description.rows[r].name for r in clear)
                parts.append(f"{words} in {content.columns[c]}: {rows}")
    return [
        "Significantly better or worse than FedAvg, by a paired t-test of the mean of the last ten "
        f"evaluations with the standard deviation pooled over a column, at {CLEAR:g} for all "
        f"{found.tested} differences (Holm): {'; '.join(parts) or 'none'}."
    ]
