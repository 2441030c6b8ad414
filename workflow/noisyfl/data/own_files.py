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
from noisyfl.data.client_files import read_partition_file
from noisyfl.data.datasets.dataset import Dataset, dataset
from noisyfl.data.datasets.own_images import (
    OwnContent,
    RequestedImages,
    fingerprint,
    read_images,
    training_names,
)
from noisyfl.data.datasets.parts import metadata_of, read_part, table_of_pixels
from noisyfl.data.noise.agreement import doubt
from noisyfl.data.noise.human_labels import (
    check_order,
    digest,
    label_files,
    load_columns,
)
from noisyfl.data.roots import Roots, Stamp, each, stamp_of
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
        self._known: dict[str, Any] = {}
        self._sources: dict[str, dict[str, Any]] = {}  # as in a record, by the JSON of the options

    def stale(self, stamps: Mapping[str, Stamp], fingerprints: Mapping[str, str]) -> bool:
        """Whether a file has changed, by what an :class:`OwnFiles` has noted."""
        if any(stamp_of(Path(path)) != stamp for path, stamp in stamps.items()):
            return True
        try:
            return any(
                fingerprint(RequestedImages.read(json.loads(options)), self.roots) != found
                for options, found in fingerprints.items()
            )
        except BadInput:
            return True

    # Images.

    def images(self, wanted: RequestedImages) -> dict[str, Any]:
        """What specs have of a user's own dataset, which is read and prepared if it is new.

        Raises:
            BadInput: see :func:`noisyfl.data.datasets.own_images.read_images`.
        """
        options = json.dumps(wanted.options(), sort_keys=True)
        if options not in self._known:
            found = fingerprint(wanted, self.roots)
            known, source = self._record(options, found) or self._prepared(wanted, options, found)
            self.fingerprints[options] = found
            self._known[options], self._sources[options] = known, source
            self.remarks[known["sha256"]] = source["remarks"]
            self._call(known["sha256"], wanted.shown_as)
            if source["given"]:
                self._call(source["given"], f"{wanted.shown_as}: {wanted.given}")
                self.remarks[source["given"]] = source["doubts"]
        return dict(self._known[options])

    def facts(self, wanted: RequestedImages) -> Dataset:
        """What is known of a user's own dataset, with the digest of its given labels if it names
        some; see :meth:`images`.
        """
        known = dataset(self.images(wanted))
        source = self._sources[json.dumps(wanted.options(), sort_keys=True)]
        return replace(known, given=source["given"] or "", numbered=source["numbered"])

    def training_names(self, name: str) -> list[str] | None:
        """What the training images of a user's own dataset are called, in its order; None if it
        is not known, or its files have changed since they were read.

        Args:
            name: of the dataset, with the first digits of its digest.
        """
        path = self._folder(name) / RECORD
        for source in read_json(path)["sources"] if path.is_file() else []:
            wanted = RequestedImages.read(json.loads(source["options"]), name)
            with suppress(BadInput):
                if fingerprint(wanted, self.roots) == source["fingerprint"]:
                    return training_names(wanted, self.roots)
        return None

    def prepare_again(self, name: str) -> None:
        """Make the parts of a user's own dataset again, as they were.

        Args:
            name: of the dataset, with the first digits of its digest.

        Raises:
            BadInput: nothing is known of it here, or its files hold something else by now.
        """
        path = self._folder(name) / RECORD
        if not path.is_file():
            raise BadInput(
                f"{name}: a user's own dataset, and there is no {path}; plan its scale again, "
                f"or copy the folder {path.parent} from where it was planned"
            )
        source = read_json(path)["sources"][-1]
        content = read_images(RequestedImages.read(json.loads(source["options"]), name), self.roots)
        if dataset(content.known).name != name:
            raise BadInput(
                f"{name}: its files hold something else than when it was planned; plan its scale "
                "again, which makes other runs of it"
            )
        self._write(content)

    def _record(self, options: str, found: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """What is known of files that were read before and have not changed since, and their entry
        among the sources; an entry without ``remarks`` is of an older version, which took numbers
        for positions.
        """
        for path in sorted(self._folder("").glob(f"images_*/{RECORD}")):
            try:
                record = read_json(path)
            except DamagedArtifact:
                continue
            for source in record["sources"]:
                same = (source["options"], source["fingerprint"]) == (options, found)
                if same and "remarks" in source:
                    self._watch(path)
                    return record["known"], source
        return None

    def _prepared(
        self, wanted: RequestedImages, options: str, found: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read files, prepare the parts, and note both; returns what :meth:`_record` does."""
        content = read_images(wanted, self.roots)
        self._write(content)
        given, found_odd = None, ""
        if content.given is not None:
            given = self._keep_labels(content.given)
            found_odd = doubt(content.given, content.train[1]) if wanted.true_labels else ""
        path = self._folder(dataset(content.known).name) / RECORD
        before = read_json(path)["sources"] if path.is_file() else []
        source = {
            "options": options,
            "fingerprint": found,
            "given": given,
            "numbered": content.numbered,
            "remarks": content.remarks,
            "doubts": [f"{wanted.source}, {wanted.given}: {found_odd}"] if found_odd else [],
        }
        others = [one for one in before if one["options"] != options]
        write_json(path, {"known": content.known, "sources": [*others, source]})
        self._watch(path)
        return content.known, source

    def _write(self, content: OwnContent) -> None:
        facts = dataset(content.known)
        for part, arrays in (("train", content.train), ("test", content.test)):
            path = self.results.data(facts.name, part)
            write_table(path, table_of_pixels(*arrays), metadata_of(facts, part, facts.shape))

    def _folder(self, name: str) -> Path:
        return self.results.data(name, "train").parent

    # Labels.

    def _call(self, sha256: str, title: str) -> None:
        """Note a title; the first of several wins, so that it does not change within a plan."""
        self.titles.setdefault(sha256, title)
        know(told_apart(self.titles))

    def labels(
        self, path: str | None, key: str | None, facts: Dataset, title: str | None = None
    ) -> str:
        """The digest of given labels, which are kept.

        Args:
            path: of the file in a data folder; None: the given labels of a user's own dataset.
            key: name of the array or column; None if the file is a single array.
            facts: about the dataset.
            title: what people are shown; None: as the file is called.

        Raises:
            BadInput: there are none, or they do not fit the dataset.
        """
        if path is not None:
            sha256 = self._labels(path, key, facts)
            self._call(sha256, title or ": ".join([Path(path).name, *([key] if key else [])]))
            return sha256
        if not facts.given:
            raise BadInput(
                f"got null, expected a file, since {facts.name} has no given labels of its own "
                "(the option given of images names them)",
                "path",
            )
        self._watch(self.results.own_file(facts.given))
        return facts.given

    def human_labels(self, key: str | None, facts: Dataset) -> str:
        """The digest of the human labels that are known of a dataset, which are not kept.

        Args:
            key: name of the array.
            facts: about the dataset.

        Raises:
            BadInput: their file is not there, or does not fit the dataset.
        """
        return self._labels(None, key, facts)

    def _labels(self, path: str | None, key: str | None, facts: Dataset) -> str:
        noted = json.dumps(["labels", path, key, facts.name, facts.numbered])
        if noted not in self._known:
            self._watch(*label_files(path, facts.name, self.roots))
            labels, clean = load_columns(path, key, facts, self.roots)
            true = self._true_labels(facts)
            if path is not None and clean is not None and true is not None:
                check_order(clean, true, path, facts.name)
            keep = path is not None
            self._known[noted] = self._keep_labels(labels, clean) if keep else digest(labels)
            true = clean if true is None else true
            found = "" if true is None else doubt(labels, true)
            where = ", ".join(word for word in (path or "human labels", key) if word)
            self.doubts += [f"{where}: {found}"] if found else []
        sha256: str = self._known[noted]
        return sha256

    def _watch(self, *paths: Path) -> None:
        """Note the stamps of files, so that a change of them is noticed."""
        self.stamps.update({str(path): stamp_of(path) for path in paths})

    def _true_labels(self, facts: Dataset) -> np.ndarray | None:
        """The true labels of the training part; None if nobody knows them, or the part is not made
        yet or damaged: then whoever makes the partition looks at them.
        """
        with suppress(FileNotFoundError, DamagedArtifact):
            if facts.true_labels:
                return read_part(self.results.data(facts.name, "train")).labels[: facts.task_size]
        return None

    def remarks_on(self, spec: Mapping[str, Any]) -> list[str]:
        """What a user should know of the images and labels that a noisy partition is made from.

        Args:
            spec: of the noisy partition, canonical.
        """
        parts = [spec[key] for key in ("dataset", "label_noise")]
        digests = [part.get("sha256", "") for part in parts if isinstance(part, Mapping)]
        return [remark for one in digests for remark in self.remarks.get(one, [])]

    def _keep_labels(self, labels: np.ndarray, clean: np.ndarray | None = None) -> str:
        columns = {"label": labels} | ({} if clean is None else {"clean_label": clean})
        return self._keep(digest(labels), columns)

    # Clients.

    def clients(self, path: str, facts: Dataset, title: str | None = None) -> tuple[str, int, int]:
        """The digest of a user's own partition, which is kept; its clients and samples.

        Args:
            path: of the file in a data folder.
            facts: about the dataset.
            title: what people are shown; None: as the file is called.

        Raises:
            BadInput: there is no such file, or it is no partition of the dataset.
        """
        noted = json.dumps(["clients", path, facts.name])
        if noted not in self._known:
            found = [root / path for root in each(self.roots)]
            self._watch(*found)
            client, sample = read_partition_file(found, facts)
            content = client.astype("<i8").tobytes() + sample.astype("<i8").tobytes()
            sha256 = self._keep(
                hashlib.sha256(content).hexdigest(), {"client": client, "sample": sample}
            )
            self._known[noted] = (sha256, int(client[-1]) + 1, len(sample))
        kept: tuple[str, int, int] = self._known[noted]
        self._call(kept[0], title or Path(path).name)
        return kept

    # What is kept.

    def _keep(self, sha256: str, columns: Mapping[str, np.ndarray]) -> str:
        path = self.results.own_file(sha256)
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        try:
            there = read_table(path)[0]
        except (FileNotFoundError, DamagedArtifact):
            there = None
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
        with within("sha256"):
            table, _ = read_table(path)
        return {name: to_numpy(table[name].combine_chunks()) for name in table.column_names}
