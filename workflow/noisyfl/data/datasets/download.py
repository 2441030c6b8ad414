"""Downloads that resume where they broke off, and are checked before they get their final name."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from noisyfl.core.artifacts import NO_ROOM
from noisyfl.core.text import reason

CHUNK = 2**20
"""Bytes that are read at once."""

TIMEOUT = 60
"""Seconds without a byte after which a connection is given up."""

TRIES = 5
"""The maximum number of connections to an address, while each of them brings further bytes."""

ROUNDS = 3
"""The maximum number of rounds over all addresses, if one's error may be temporary."""

PAUSE_SECONDS = 5.0
"""The pause before the second of these rounds; it is twice as long before the third."""


class NotDownloaded(OSError):
    """No address gave the file."""


def fetch(addresses: Sequence[str], path: Path, md5: str) -> None:
    """Download a file from the first address that gives it whole.

    What was received before a connection broke stays beside the file, as ``<name>.part``, and is
    not requested again, in this call or a later one.

    Args:
        addresses: where the file may be had, in the order in which they are tried.

    Raises:
        NotDownloaded: no address gave the file; the message says what went wrong with each.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for number in range(ROUNDS):
        time.sleep(number * PAUSE_SECONDS)
        problems, passing = [], False
        for address in addresses:
            try:
                _complete(address, part)
            except (OSError, http.client.HTTPException) as error:
                problems.append(f"{address}: {reason(error)}")
                passing |= _is_transient(error)
                continue
            with part.open("rb") as file:
                found = hashlib.file_digest(file, "md5").hexdigest()
            if found == md5:
                part.replace(path)
                return
            part.unlink()
            problems.append(f"{address}: the file is corrupted (MD5 {found}, expected {md5})")
        if not passing:
            break
    raise NotDownloaded("; ".join(problems))


def _is_transient(error: Exception) -> bool:
    """Whether an error may be temporary, as a full disk or a file that is gone is not."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500
    return not (isinstance(error, OSError) and error.errno in NO_ROOM)


def _complete(address: str, part: Path) -> None:
    """Download until a part has the length that the server states; raise OSError if it cannot."""
    for _ in range(TRIES):
        before = part.stat().st_size if part.exists() else 0
        expected = _go_on(address, part, before)
        size = part.stat().st_size
        if expected is None or size >= expected:
            return
        if size <= before:
            break
    raise OSError(f"the connection was closed after {size:,} of {expected:,} bytes")


def _go_on(address: str, part: Path, begin: int) -> int | None:
    """Append what follows the first ``begin`` bytes; return the file's length if stated."""
    headers = {"User-Agent": "noisyfl"} | ({"Range": f"bytes={begin}-"} if begin else {})
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(address, headers=headers), timeout=TIMEOUT
        )
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:  # nothing is left to ask for
            return None
        raise
    with response:
        resumed = response.status == http.client.PARTIAL_CONTENT
        length = response.headers.get("Content-Length")
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
    return None if length is None else int(length) + (begin if resumed else 0)
