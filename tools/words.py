"""Find words that this project's texts avoid: ``python tools/words.py FILE_OR_FOLDER ...``.

Prints file, line, words and a replacement. Skips code in Markdown, and generated pages. Finds
words across the lines of a text, and across the pieces of a message in Python.
"""

import re
import sys
from pathlib import Path

INSTEAD = {
    "anew": "again, rebuilt, retrained",
    "(of )?one's own": "your own, custom",
    "borne? out|bears out": "supported by, supports",
    "tells of|(are|is|was|were) told": "shows, records, reports",
    "(is|are|was|were) made of": "consists of, is computed from",
    "la(id|y|ys|ying) over": "overrides",
    "stands? (in for|beside|first)": "replaces, is next to, comes first",
    "want of": "lack of",
    "held (against|to)": "compared with, checked against",
    "(takes?|taken|took) (it |them )?for (clean|noisy|wrong|right)": "selected as clean",
    "call(ed|s) (clean|noisy)": "selected as clean, flagged as noisy",
    "ahead of fedavg by": "x points better than FedAvg",
    "(of|at|in) (the|a) papers?'s? own size": "at paper scale",
    "desk scale|at desk": "the `desk` scale",
    "in print|the printed one": "published, the published value",
    "whatever|in any case|likewise|thereof": "leave it out, or name the case",
    "go(es)? before": "takes precedence over, overrides",
    "hours of (one|a) core": "core-hours",
    "clearly (ahead|behind|better|worse)": "significant (p < 0.05)",
    "whole runs?": "complete run",
    "refuses?|(is|are|was|were) refused": "rejects, rejected, raises an error",
    "(another|the other) one": "repeat the noun",
    "runs? that (is|are) (not )?there": "existing runs, missing runs",
    "(is|are|was|were) (not )?whole(?! number)": "complete",
    "tak(e|es|ing) (its|their) place": "replaces",
    "without a word": "silently, without a message",
    "to be known of": "remarks on",
    "(is|was) not at hand": "not available",
    "no surprise": "expected",
    "lets? it be": "permits it",
    "mere": "only",
}
NOT_READ = re.compile(r"docs/(evidence\b|conformance\.md)|assets/vendor|claims/(fed\w+|rofl)\.py")
READ = {"", ".md", ".yaml", ".py", ".ipynb", ".smk", ".js", ".jinja", ".rst"}
BETWEEN_PIECES = re.compile(r'" *\n *f?"')
SKIPPED = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.M)

given = [Path(name) for name in sys.argv[1:]]
files = [path for one in given for path in ([one] if one.is_file() else sorted(one.rglob("*.*")))]
found = 0
for path in files:
    if path.suffix not in READ or NOT_READ.search(str(path)):
        continue
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = SKIPPED.sub(lambda skipped: re.sub(r"[^\n]", "`", skipped[0]), text)
    if path.suffix == ".py":
        text = BETWEEN_PIECES.sub("\n", text)
    for words, better in INSTEAD.items():
        for hit in re.finditer(rf"\b({words})\b".replace(" ", r"\s+"), text, re.IGNORECASE):
            found += 1
            line = text.count("\n", 0, hit.start()) + 1
            print(f"{path}:{line}: {' '.join(hit[0].split())!r}, better: {better}")
sys.exit(found > 0)
