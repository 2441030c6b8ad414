"""Find words that this project's texts avoid: ``python tools/words.py FILE_OR_FOLDER ...``.

Each line of the output names a file, a line, the words and what to write instead. Code in Markdown
is not read, nor are pages that are generated from other files.
"""

import re
import sys
from pathlib import Path

INSTEAD = {
    r"anew": "again, rebuilt, retrained",
    r"(of )?one's own": "your own, custom",
    r"borne? out|bears out": "supported by, supports",
    r"tells of|(are|is|was|were) told": "shows, records, reports",
    r"(is|are|was|were) made of": "consists of, is computed from",
    r"la(id|ys?|ying) over|laid over": "overrides",
    r"stands? in for|stands? beside|stands? first": "replaces, is next to, comes first",
    r"want of": "lack of",
    r"held (against|to)|holds? .{1,20} to what": "compared with, checked against",
    r"(takes?|taken|took) (it |them )?for (clean|noisy|wrong|right)": "selects as clean, flags as noisy",
    r"call(ed|s) (clean|noisy)": "selected as clean, flagged as noisy",
    r"ahead of fedavg by": "x points better than FedAvg",
    r"(of|at|in) (the|a) papers?'s? own size": "at paper scale",
    r"desk scale|at desk": "the `desk` scale",
    r"in print|the printed one": "published, the published value",
    r"whatever|in any case|likewise|thereof": "leave it out, or say which",
    r"go(es)? before": "takes precedence over, overrides",
    r"hours of (one|a) core": "core-hours",
    r"clearly (ahead|behind|better|worse)": "significant (p < 0.05)",
    r"whole runs?": "complete run",
    r"refus(e|ed|es)": "rejects, is rejected, raises an error",
    r"(another|the other) one": "repeat the noun",
}
GENERATED = re.compile(r"docs/(evidence\b|conformance\.md)|CHANGELOG")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)

found = 0
for path in (
    p
    for given in map(Path, sys.argv[1:])
    for p in ([given] if given.is_file() else sorted(given.rglob("*.*")))
):
    if path.suffix not in {".md", ".yaml", ".py", ".ipynb"} or GENERATED.search(path.as_posix()):
        continue
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = CODE.sub(lambda code: re.sub(r"[^\n]", "`", code[0]), text)
    for words, better in INSTEAD.items():
        for hit in re.finditer(rf"\b(?:{words})\b".replace(" ", r"\s+"), text, re.IGNORECASE):
            found += 1
            print(f"{path}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}: write {better}")
sys.exit(found > 0)
