"""The papers' claims, checked against numbers.

1. A claim is a function in ``fedcni.py``, ``fedcorr.py``, ...; its decorator (``declaration.py``)
   names the numbers that it gets, as queries (``query.py``).
2. A :class:`~noisyfl.claims.sources.ClaimSide` answers queries: that of the papers from published
   numbers, ours from rows of ``cells.csv`` (``our_cells.py``) and, for figures and costs, from runs
   (``artifacts.py``), which it finds by the cells of tables and lines of figures (``lines.py``).
3. The answer is :class:`~noisyfl.claims.numbers.Numbers`: each has labels (``labels.py``), its
   place, and draws of what it would be with other seeds (``trials.py``).
4. The function computes with them, compares them (``comparisons.py``), and yields checks. Each
   comparison is a case that holds, fails, or is undecided.
5. The checks are a :class:`~noisyfl.claims.findings.Finding`, which has the verdict.
   ``judgement.py`` makes and stores those of both sides; ``needs.py`` says what claims need.

``leads.py`` is separate: it compares each paper's method with FedAvg, by rows of ``cells.csv``.
"""
