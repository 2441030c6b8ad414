"""What users call their own data, in everything that people read.

Specs name own images, labels and partitions by the digest of their content, so that their ids do
not depend on where a file lies. A title is no part of that: it is known to whoever reads the files,
and comes to every other process in a plan or in the description of a table or figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_titles: dict[str, str] = {}


def know(titles: Mapping[str, str]) -> None:
    """Take note of titles, by digest."""
    _titles.update(titles)


def title_of(sha256: str, otherwise: str = "") -> str:
    """The title of what has a digest, or something else if nobody has given one."""
    return _titles.get(sha256, otherwise)


def told_apart(titles: Mapping[str, str]) -> dict[str, str]:
    """Titles by digest, of which those that several digests have end with a part of the digest."""
    every = list(titles.values())
    return {
        sha256: title if every.count(title) == 1 else f"{title} {sha256[:4]}"
        for sha256, title in titles.items()
    }


def known_titles(digests: Iterable[str]) -> dict[str, str]:
    """The known titles of some digests."""
    return {one: _titles[one] for one in digests if one in _titles}
