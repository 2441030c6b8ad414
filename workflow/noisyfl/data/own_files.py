"""A user's own files: images, labels, and which client has which sample.

They are read when a scale is planned, and kept in the results folder under the digest of their
content, which is all that specs say of them. So a spec does not depend on where a file lies or what
format it has, and a job needs no file but those that are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisyfl.core.artifacts import (
    DamagedArtifact,
    Results,
    read_json,
    read_table,
    to_numpy,
    write_json,
    write_table,
)
from noisyfl.core.options import BadInput, within
from noisyfl.data.datasets.classes import alike
from noisyfl.data.datasets.dataset import OWN, Dataset, dataset
from noisyfl.data.datasets.own_data import (
    OwnContent,
    RequestedData,
    fingerprint,
    image_names,
    read_data,
)
from noisyfl.data.datasets.own_images import RequestedImages
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.parts import metadata_of, read_part, table_of_pixels
from noisyfl.data.image_names import ImageNames
from noisyfl.data.noise.agreement import doubt
from noisyfl.data.noise.human_labels import check_order, digest, label_files, load_columns
from noisyfl.data.own_assignment import read_assignment
from noisyfl.data.roots import Roots, Stamp, places_of, stamp_of
from noisyfl.data.titles import know, told_apart

RECORD = "images.json"
"""Beside the parts of a user's own dataset: what is known of it, and what it was read from.

Each of the ``sources`` has its ``options``, the ``fingerprint`` of its files, the digest of the
``given`` labels among them, whether its classes are ``numbered``, and ``remarks`` on the images and
``doubts`` about the given labels.
"""


class OwnFiles:
    """Reads a user's own files, and keeps what they hold.

    Args:
        roots: the data folders, in which they lie.
        results: the folder of all artifacts, in which they are kept.

    Attributes:
        stamps: of every file of labels or clients that was looked for, there or not, and of every
            file that is kept, by path.
        fingerprints: of every user's own dataset that was read, by the JSON of its options.
        remarks: what a user should know of images and of labels, by their digests.
        titles: what people are shown of each file's content, by digest.
        doubts: what is odd about files of labels. Whether this is known depends on what is prepared
            already, so that no table may depend on it.
    """

    def __init__(self, roots: Roots, results: Path) -> None:
        self.roots = roots
        self.results = Results(results)
        self.stamps: dict[str, Stamp] = {}
        self.fingerprints: dict[str, str] = {}
        self.remarks: dict[str, list[str]] = {}
        self.titles: dict[str, str] = {}
        self.doubts: list[str] = []
        self._known: dict[tuple[Any, ...], Any] = {}
        self._asked: dict[str, str] = {}

    def stale(self, stamps: Mapping[str, Stamp], fingerprints: Mapping[str, str]) -> bool:
        """Whether a file has changed, by what an :class:`OwnFiles` has noted."""
        return any(stamp_of(Path(path)) != stamp for path, stamp in stamps.items()) or any(
            not self._unchanged(options, found) for options, found in fingerprints.items()
        )

    # Images and vectors.

    def read(self, wanted: RequestedData) -> Dataset:
        """What is known of a user's own dataset, with the digest of its given labels if it names
        some; it is read and prepared if it is new.
        """
        options = json.dumps(wanted.options(), sort_keys=True)
        if ("dataset", options) not in self._known:
            found = fingerprint(wanted, self.roots)
            read, source = self._recorded(options, found) or self._prepared(wanted, options, found)
            self.fingerprints[options] = found
            self._watch(self._record(read.name))
            sha256 = str((read.own or {})["sha256"])
            self.remarks[sha256] = source["remarks"]
            self._call(sha256, wanted.shown_as)
            if given := source["given"]:
                self.remarks[given] = source["doubts"]
                self._call(given, f"{wanted.shown_as}: {wanted.given}")
                self._watch(self.results.own_file(given))
            self._known["dataset", options] = replace(
                read,
                given=given or "",
                numbered=source["numbered"],
                whole=source["whole"] if wanted.validation else 0,
            )
        facts: Dataset = self._known["dataset", options]
        self._asked[facts.name] = options
        return facts

    def image_names(self, name: str) -> ImageNames | None:
        """What the images of a user's own dataset are called; None if this is not known, or its
        files hold something else by now.

        Args:
            name: of the dataset, with the first digits of its digest.
        """
        for source in self._sources(name):
            options = source["options"]
            with suppress(BadInput):
                if not self._unchanged(options, source["fingerprint"]):
                    self._read_again(name, options)
                return image_names(_wanted(options), self.roots)
        return None

    def _names_of(self, facts: Dataset) -> ImageNames | None:
        """As :meth:`image_names`; :class:`BadInput` if they are not known, and nobody can tell
        without them which images are held out for validation.
        """
        noted = ("names", facts.name, self._asked.get(facts.name))
        if noted not in self._known:
            self._known[noted] = self.image_names(facts.name)
        found: ImageNames | None = self._known[noted]
        if facts.whole and (found is None or len(found.rows) != facts.whole):
            raise BadInput(f"{facts.title}: its files have changed; plan its scale again")
        return found

    def prepare_again(self, name: str) -> None:
        """Make the parts of a user's own dataset again, as they were.

        Args:
            name: of the dataset, with the first digits of its digest.

        Raises:
            BadInput: nothing is known of it here, or its files hold something else by now.
        """
        path = self._record(name)
        problem = BadInput(
            f"{name}: a user's own dataset, and there is no {path}; plan its scale again, "
            f"or copy the folder {path.parent} from where it was planned"
        )
        for source in self._sources(name):
            try:
                self._write(self._read_again(name, source["options"]))
                return
            except BadInput as error:
                problem = error
        raise problem

    def _read_again(self, name: str, options: str) -> OwnContent:
        """The content of a user's own dataset; :class:`BadInput` if it is another by now."""
        with within(name):
            content = read_data(_wanted(options), self.roots)
        if dataset(content.known).name != name:
            raise BadInput(
                f"{name}: its files hold something else than when it was planned; plan its scale "
                "again, which makes other runs of it"
            )
        return content

    def _sources(self, name: str) -> list[dict[str, Any]]:
        """What a user's own dataset was read from: first what was asked for last, then what has not
        changed since, and then what was read last.
        """
        path = self._record(name)
        sources = read_json(path)["sources"] if path.is_file() else []
        sources.reverse()

        def order(source: Mapping[str, Any]) -> tuple[bool, bool]:
            options = source["options"]
            unchanged = self._unchanged(options, source["fingerprint"])
            return options != self._asked.get(name), not unchanged

        return sorted(sources, key=order)

    def _unchanged(self, options: str, found: str) -> bool:
        with suppress(BadInput):
            return fingerprint(_wanted(options), self.roots) == found
        return False

    def _recorded(self, options: str, found: str) -> tuple[Dataset, dict[str, Any]] | None:
        """What is known of files that were read before and have not changed since, and their entry
        among the sources; an entry without ``remarks`` is of an older version, which took numbers
        for positions.
        """
        folder = self.results.root / "data"
        for path in sorted(path for name in OWN for path in folder.glob(f"{name}*/{RECORD}")):
            with suppress(DamagedArtifact):
                record = read_json(path)
                for source in record["sources"]:
                    same = (source["options"], source["fingerprint"]) == (options, found)
                    if same and "remarks" in source:
                        return dataset(record["known"]), source
        return None

    def _prepared(
        self, wanted: RequestedData, options: str, found: str
    ) -> tuple[Dataset, dict[str, Any]]:
        """Read files, prepare the parts, and note both; returns what :meth:`_recorded` does."""
        content = read_data(wanted, self.roots)
        facts = self._write(content)
        given, odd = None, ""
        if content.given is not None:
            given = self._keep(digest(content.given), {"label": content.given})
            odd = doubt(content.given, content.train[1]) if wanted.true_labels else ""
        path = self._record(facts.name)
        before = read_json(path)["sources"] if path.is_file() else []
        source = {
            "options": options,
            "fingerprint": found,
            "given": given,
            "numbered": content.numbered,
            "whole": content.whole,
            "remarks": content.remarks,
            "doubts": [f"{wanted.source}, {wanted.given}: {odd}"] if odd else [],
        }
        others = [one for one in before if one["options"] != options]
        write_json(path, {"known": content.known, "sources": [*others, source]})
        return facts, source

    def _write(self, content: OwnContent) -> Dataset:
        facts = dataset(content.known)
        for part, arrays in (("train", content.train), ("test", content.test)):
            metadata = metadata_of(facts, part, facts.shape)
            if content.scaling is not None:
                metadata["scaling"] = content.scaling
            write_table(self.results.data(facts.name, part), table_of_pixels(*arrays), metadata)
        return facts

    def _record(self, name: str) -> Path:
        return self.results.data(name, "train").with_name(RECORD)

    # Labels.

    def labels(
        self, path: str | None, key: str | None, facts: Dataset, title: str | None = None
    ) -> str:
        """The digest of the labels in a file, which are kept.

        Args:
            path: of the file in a data folder; None: the human labels that are known of the
                dataset, which are not kept.
            key: name of the array or column; None if the file is a single array.
            title: what people are shown; None: as the file is called.

        Raises:
            BadInput: the file is not there, or does not fit the dataset.
        """
        noted = ("labels", path, key, facts.name, facts.numbered, facts.whole)
        if noted not in self._known:
            self._watch(*label_files(path, facts.name, self.roots))
            names = partial(self._names_of, facts)
            labels, clean = load_columns(path, key, facts, self.roots, names)
            true = self._true_labels(facts)
            where = path or "human labels"
            if clean is not None and true is not None:
                check_order(clean, true, where, facts.title)
            sha256 = digest(labels)
            if path is not None:
                columns = {"label": labels} | ({} if clean is None else {"clean_label": clean})
                self._keep(sha256, columns)
                self._call(sha256, title or Path(path).name + (f": {key}" if key else ""))
            true = clean if true is None else true
            if true is not None and (odd := doubt(labels, true)):
                self.doubts.append(f"{where}{f', {key}' if key else ''}: {odd}")
            self._known[noted] = sha256
        found: str = self._known[noted]
        return found

    def _true_labels(self, facts: Dataset) -> np.ndarray | None:
        """The true labels of the training part; None if nobody knows them, or the part is not made
        yet or damaged: then whoever makes the partition looks at them.
        """
        with suppress(FileNotFoundError, DamagedArtifact):
            if facts.true_labels:
                return read_part(self.results.data(facts.name, "train")).labels[: facts.task_size]
        return None

    def remarks_on(self, spec: Mapping[str, Any]) -> list[str]:
        """What a user should know of the images and labels that a noisy partition is made from."""
        parts = [spec[key] for key in ("dataset", "label_noise")]
        digests = [part.get("sha256", "") for part in parts if isinstance(part, Mapping)]
        return [remark for one in digests for remark in self.remarks.get(one, [])]

    # Clients.

    def clients(
        self, path: str, facts: Dataset, column: str = "client", title: str | None = None
    ) -> tuple[str, int, int]:
        """The digest of a user's own partition, which is kept; its clients and samples.

        Args:
            path: of the file in a data folder.
            column: that has the clients.
            title: what people are shown; None: as the file is called.

        Raises:
            BadInput: there is no such file, or it is no partition of the dataset.
        """
        noted = ("clients", path, column, facts.name, facts.whole)
        if noted not in self._known:
            self._watch(*places_of(path, self.roots))
            names = partial(self._names_of, facts)
            client, sample, called = read_assignment(path, column, self.roots, facts, names)
            content = client.astype("<i8").tobytes() + sample.astype("<i8").tobytes()
            columns = {"client": client, "sample": sample}
            sha256 = self._keep(hashlib.sha256(content).hexdigest(), columns)
            self._call(sha256, title or Path(path).name)
            self.doubts += [f"{path}, {column}: {odd}" for odd in alike(called, "clients")]
            if called:
                write_json(self._names_file(sha256), {"names": called})
            self._known[noted] = (sha256, int(client[-1]) + 1, len(sample))
        found: tuple[str, int, int] = self._known[noted]
        return found

    def client_names(self, partition: Mapping[str, Any]) -> list[str]:
        """What the clients of a partition are called, by number; none if its file had numbers.

        Args:
            partition: of a canonical spec.
        """
        path = self._names_file(partition.get("sha256", ""))
        names: list[str] = read_json(path)["names"] if path.is_file() else []
        return names

    def _names_file(self, sha256: str) -> Path:
        return self.results.own_file(sha256).with_suffix(".clients.json")

    # What is kept.

    def _call(self, sha256: str, title: str) -> None:
        """Note a title; the first of several wins, so that it does not change within a plan."""
        self.titles.setdefault(sha256, title)
        know(told_apart(self.titles))

    def _watch(self, *paths: Path) -> None:
        """Note the stamps of files, so that a change of them is noticed."""
        self.stamps.update({str(path): stamp_of(path) for path in paths})

    def _keep(self, sha256: str, columns: Mapping[str, np.ndarray]) -> str:
        path = self.results.own_file(sha256)
        table = pa.table(dict(columns))
        there = None
        with suppress(FileNotFoundError, DamagedArtifact):
            there = read_table(path)[0]
        if there is None or not there.equals(table):
            write_table(path, table, {"sha256": sha256})
        self._watch(path)
        return sha256

    def load(self, sha256: str) -> dict[str, np.ndarray]:
        """The columns that are kept under a digest, int64 [n] each.

        Raises:
            BadInput: nothing is.
            DamagedArtifact: the file is damaged.
        """
        path = self.results.own_file(sha256)
        if not path.is_file():
            raise BadInput(
                f"there is no {path}, with what a user's file held; plan the scale again, or "
                "copy it from where it was planned",
                "sha256",
            )
        table, _ = read_table(path)
        return {name: to_numpy(table[name].combine_chunks()) for name in table.column_names}


def _wanted(options: str) -> RequestedData:
    given = json.loads(options)
    return KINDS[given.pop("name", RequestedImages.name)].read(given)
