"""The layouts that people have public datasets in, and downloads that break off."""

import errno
import gzip
import http.client
import http.server
import threading
import urllib.error

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyfl.core.options import BadInput
from noisyfl.data.datasets import download, hub, sources
from noisyfl.data.datasets.download import NotDownloaded, fetch
from noisyfl.data.datasets.hub import find_parquet
from own_sets import png
from small_files import assert_holds, digests, fill, md5, prepare_in, shrink, small_arrays


def as_parquet(folder, arrays, image="image", label="label", struct=True, shards=2, flat=False):
    """A dataset as a hub has it: encoded images, and files whose names say their part."""
    for part, (images, labels) in arrays.items():
        encoded = [png(image) for image in images]
        column = [{"bytes": e, "path": None} for e in encoded] if struct else encoded
        table = pa.table({image: column, label: labels, "extra": labels})
        size = -(-len(labels) // shards)
        for i in range(shards):
            name = f"{part}-{i:05d}-of-{shards:05d}.parquet" if flat else f"{part}/{i:04d}.parquet"
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.slice(i * size, size), path)


@pytest.fixture
def known(monkeypatch):
    """Small arrays for a dataset, whose contents are what the official files are known to hold."""

    def make(name, shape):
        shrink(monkeypatch, name)
        arrays = small_arrays(shape)
        if name == "cifar100":
            labels = {"train": np.arange(100).repeat(1), "test": np.arange(100)}
            rng = np.random.default_rng(1)
            arrays = {
                part: (rng.integers(256, size=(100, *shape), dtype=np.uint8), rng.permutation(y))
                for part, y in labels.items()
            }
            shrink(monkeypatch, name, 100, 100)
        monkeypatch.setitem(hub.CONTENTS, name, digests(arrays))
        return arrays

    return make


@pytest.mark.parametrize(
    ("name", "shape", "columns"),
    [
        ("mnist", (28, 28, 1), {}),
        ("fashion_mnist", (28, 28, 1), {"flat": True}),
        ("cifar10", (32, 32, 3), {"image": "img", "shards": 1}),
        ("cifar10", (32, 32, 3), {"struct": False}),
        ("cifar100", (32, 32, 3), {"image": "img", "label": "fine_label", "flat": True}),
    ],
)
def test_parquet_of_a_hub_is_read(tmp_path, known, monkeypatch, name, shape, columns):
    arrays = known(name, shape)
    monkeypatch.setattr(sources, "PACKAGED", {})
    as_parquet(tmp_path / name / "data", arrays, **columns)
    assert_holds(prepare_in(tmp_path, name, tmp_path), arrays)


def test_parquet_with_other_pixels_labels_or_order_is_refused(tmp_path, known, monkeypatch):
    arrays = known("cifar10", (32, 32, 3))
    images, labels = arrays["train"]
    swapped = np.r_[1, 0, 2:60]
    for other, kind in (
        ((images[swapped], labels[swapped]), "images"),
        ((images, labels[::-1]), "labels"),
    ):
        as_parquet(tmp_path / "cifar10", {**arrays, "train": other})
        message = f"the {kind} in .* are not those of the official train part in its order"
        with pytest.raises(BadInput, match=message):
            prepare_in(tmp_path, "cifar10", tmp_path)
    as_parquet(tmp_path / "cifar10", arrays, label="coarse_label")
    with pytest.raises(BadInput, match="has image, coarse_label, extra, expected 'label'"):
        prepare_in(tmp_path, "cifar10", tmp_path)
    (tmp_path / "cifar10" / "train" / "0001.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "cifar10" / "train" / "0000.parquet").unlink()
    with pytest.raises(BadInput, match=r"cifar10: .*cannot read .*0001\.parquet"):
        prepare_in(tmp_path, "cifar10", tmp_path)


def test_the_part_of_a_parquet_file_is_what_its_path_says(tmp_path):
    wanted = {
        "train": ["latest/train-0.parquet", "train/a.parquet"],
        "test": ["contest/test-0.parquet", "test/0.parquet"],
    }
    for path in (*wanted["train"], *wanted["test"], "attest/0.parquet"):
        (tmp_path / "cifar10" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cifar10" / path).touch()
    found = find_parquet("cifar10", tmp_path)
    assert {
        part: [str(path.relative_to(tmp_path / "cifar10")) for path in paths]
        for part, paths in found.items()
    } == wanted


def test_official_files_go_before_parquet_and_parquet_before_a_download(tmp_path, mnist, known):
    contents, arrays = mnist
    other = known("mnist", (28, 28, 1))
    as_parquet(tmp_path / "mnist", {part: (255 - x, y) for part, (x, y) in other.items()})
    with pytest.raises(BadInput, match="not those of the official"):
        prepare_in(tmp_path, "mnist", tmp_path, download=True)
    fill(tmp_path / "mnist", contents, packed=True)
    assert_holds(prepare_in(tmp_path, "mnist", tmp_path), arrays)


def test_files_of_debians_package_are_found_without_being_asked_for(tmp_path, mnist, monkeypatch):
    contents, arrays = mnist
    shrink(monkeypatch, "fashion_mnist")
    monkeypatch.setitem(hub.CONTENTS, "fashion_mnist", hub.CONTENTS["mnist"])
    monkeypatch.setitem(sources.PACKAGED, "fashion_mnist", tmp_path / "share")
    for file, content in contents.items():
        (tmp_path / "share").mkdir(exist_ok=True)
        packed = gzip.compress(content, compresslevel=9, mtime=1)
        (tmp_path / "share" / f"{file}.gz").write_bytes(packed)
    assert_holds(prepare_in(tmp_path, "fashion_mnist", tmp_path / "data"), arrays)


def test_cifar_is_found_in_a_folder_of_its_name(tmp_path, cifar):
    archive, arrays = cifar
    for content in ("cifar-10-batches-py", archive.name):
        folder = tmp_path / content / "cifar10"
        folder.mkdir(parents=True)
        (archive.parent / content).rename(folder / content)
        assert_holds(prepare_in(tmp_path, "cifar10", folder.parent), arrays)


@pytest.fixture
def breaking():
    """A server of one file that closes the connection after some bytes, and can go on from there:
    its address, what it was asked for, and how it behaves.
    """
    content = np.random.default_rng(0).bytes(50_000)
    state = {"content": content, "limit": 20_000, "ranges": True, "asked": []}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            state["asked"].append(wanted)
            begin = 0
            if wanted and state["ranges"]:
                begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if begin >= len(state["content"]):
                    self.send_error(416)
                    return
                self.send_response(206)
            else:
                self.send_response(200)
            body = state["content"][begin:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state["limit"]])

        def log_message(self, *arguments):
            pass

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}/file", state
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0)


def test_a_download_goes_on_where_the_connection_broke(tmp_path, breaking):
    address, state = breaking
    path = tmp_path / "new" / "file"
    fetch([address], path, md5(state["content"]))
    assert path.read_bytes() == state["content"]
    assert state["asked"] == [None, "bytes=20000-", "bytes=40000-"]
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_later_call_goes_on_too(tmp_path, breaking):
    address, state = breaking
    path = tmp_path / "file"
    (tmp_path / "file.part").write_bytes(state["content"][:45_000])
    fetch([address], path, md5(state["content"]))
    assert state["asked"] == ["bytes=45000-"]
    path.rename(tmp_path / "file.part")
    fetch([address], path, md5(state["content"]))
    assert path.read_bytes() == state["content"]


def test_a_server_that_cannot_go_on_begins_again(tmp_path, breaking):
    address, state = breaking
    state.update(ranges=False, limit=10**9)
    (tmp_path / "file.part").write_bytes(b"x" * 100)
    fetch([address], tmp_path / "file", md5(state["content"]))
    assert (tmp_path / "file").read_bytes() == state["content"]


def test_a_corrupted_file_is_thrown_away_and_the_next_address_asked(tmp_path, breaking):
    address, state = breaking
    state["limit"] = 10**9
    (tmp_path / "file.part").write_bytes(b"x" * 100)
    fetch([address, address], tmp_path / "file", md5(state["content"]))
    assert state["asked"] == ["bytes=100-", None]
    with pytest.raises(NotDownloaded, match=r"corrupted \(MD5 .*, expected 0"):
        fetch([address], tmp_path / "other", "0" * 32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_server_that_gives_nothing_is_given_up(tmp_path, breaking):
    address, state = breaking
    state["limit"] = 0
    with pytest.raises(NotDownloaded, match="closed after 0 of 50,000 bytes"):
        fetch(["http://127.0.0.1:1/", address], tmp_path / "file", md5(state["content"]))
    assert len(state["asked"]) == download.ROUNDS


def test_a_connection_that_fails_once_is_tried_again(tmp_path, breaking, monkeypatch):
    address, state = breaking
    complete, tries = download._complete, []

    def fail_once(*arguments):
        tries.append(arguments)
        if len(tries) == 1:
            raise OSError("the network is down")
        complete(*arguments)

    monkeypatch.setattr(download, "_complete", fail_once)
    fetch([address], tmp_path / "file", md5(state["content"]))
    assert (tmp_path / "file").read_bytes() == state["content"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), "404"])
def test_a_full_disk_and_a_file_that_is_gone_are_not_tried_again(tmp_path, monkeypatch, error):
    tries = []
    gone = urllib.error.HTTPError("http://x", 404, "Not Found", http.client.HTTPMessage(), None)

    def fail(*arguments):
        tries.append(arguments)
        raise gone if error == "404" else error

    monkeypatch.setattr(download, "_complete", fail)
    with pytest.raises(NotDownloaded):
        fetch(["http://x"], tmp_path / "file", "0" * 32)
    assert len(tries) == 1
