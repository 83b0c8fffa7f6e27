"""The engine of a cluster: worker processes over TLS give what this process gives, to the bit, also where one of them is killed."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dprelease.arrays import PieceMap
from dprelease.errors import DataRefused, InvalidInput, PeerUnavailable
from dprelease.privatization import privatize
from party_node.cluster.engine import Cluster, engine
from party_node.settings import ClusterSettings, PartySettings
from party_node.source.reader import record_batches
from party_node.source.scan import Scan, scan
from party_node.source.table import Rules
from tests.party_node.tables import GRID_BITS, KEY, settings
from tests.support.clusters import authority, kill_one, member, two_workers
from tests.support.noise import SeededNoise
from tests.support.specs import TWO_PARTIES, build_spec, random_rows

ROWS, PIECE = 3000, 100
COLUMNS: dict[str, dict[str, Any]] = {
    "x": {"kind": "numeric", "lower": -1, "upper": 1},
    "c": {"kind": "categorical", "levels": ["u", "v"]},
    "age": {"derived": {"age": ["born", "seen"]}, "lower": 0, "upper": 120},
    "born": {"kind": "date"},
    "seen": {"kind": "date"},
}
NOBODY = {"address": "tcp://127.0.0.1:1", "connect_seconds": 0.1}


def table(folder: Path, name: str = "rows.parquet", **more: Any) -> Path:
    random = np.random.default_rng(5)
    days = np.sort(random.integers(0, 18_000, (ROWS, 2)), axis=1).astype("datetime64[D]")
    columns = {
        "id": np.char.add("patient-", np.arange(ROWS).astype(str)),
        "x": pa.array(random.normal(size=ROWS), mask=random.random(ROWS) < 0.1),
        "c": random.choice(["u", "v", "other words"], ROWS),
        "born": pa.array(days[:, 0]),
        "seen": pa.array(days[:, 1]),
        **more,
    }
    path = folder / name
    pa.parquet.write_table(pa.table(columns), path)
    return path


def on_cluster(here: PartySettings, cluster: ClusterSettings) -> PartySettings:
    return here.model_copy(update={"engine": "dask", "cluster": cluster})


def read(here: PartySettings, run: PieceMap | None = None) -> Scan:
    columns = here.declarations()
    with patch("party_node.source.limits.MOST_ROWS", PIECE), engine(here) as own:
        return scan(here, KEY, columns, GRID_BITS, None, run or own)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSettings]:
    with two_workers(tmp_path_factory.mktemp("cluster")) as (address, files):
        yield ClusterSettings(address=address, connect_seconds=100, **files)


def test_a_reading_is_the_same_to_the_bit_also_where_a_worker_is_killed(
    cluster: ClusterSettings, tmp_path: Path
) -> None:
    here = settings(table(tmp_path), COLUMNS)
    local, opened = read(here), Cluster(cluster)
    killed: list[int] = []

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return opened.map(function, killing(items))

    def killing(items: Iterable[Any]) -> Iterator[Any]:
        for place, item in enumerate(items):
            if place == ROWS // PIECE // 2:
                killed.append(kill_one(opened._client))
            yield item

    found = read(here, run)
    opened.close()
    assert len(killed) == 1
    assert np.array_equal(found.codes, local.codes)
    assert np.array_equal(found.names, local.names)
    assert found.findings == local.findings
    assert local.findings["x"].missing > 0


@pytest.mark.parametrize("mixing", ["bernoulli", "buckets"])
def test_mixtures_are_the_same_to_the_bit(cluster: ClusterSettings, tmp_path: Path, mixing: str) -> None:
    spec = build_spec(TWO_PARTIES, rows=400, outputs=5, mixing=mixing)
    rows = random_rows(spec, "north")
    (local,) = privatize(rows, spec, "north", SeededNoise(3))
    with (
        patch("dprelease.arrays.PIECE_BYTES", 512),
        engine(on_cluster(settings(tmp_path / "rows.csv"), cluster)) as run,
    ):
        (found,) = privatize(rows, spec, "north", SeededNoise(3), run=run)
    assert len(list(rows.pieces())) == 1
    assert np.array_equal(found.values, local.values)


def test_trouble_of_the_source_stays_trouble_of_the_source(cluster: ClusterSettings, tmp_path: Path) -> None:
    """Also where a worker finds it: the type of a column is not that of its declaration."""
    here = settings(table(tmp_path, x=pa.array([[1.0]] * ROWS)), COLUMNS)
    with pytest.raises(DataRefused, match="column x holds list"):
        read(on_cluster(here, cluster))


def test_another_authority_is_refused(cluster: ClusterSettings, tmp_path: Path) -> None:
    foreign = ClusterSettings(address=cluster.address, connect_seconds=1, **member(tmp_path, "foreign", authority()))
    with pytest.raises(
        PeerUnavailable, match=rf"^the cluster at {cluster.address} does not serve .*certificates are right"
    ):
        read(on_cluster(settings(table(tmp_path), COLUMNS), foreign))


def test_a_cluster_that_is_away_is_told_apart_from_a_source(tmp_path: Path) -> None:
    here = on_cluster(settings(table(tmp_path), COLUMNS), ClusterSettings(**NOBODY))
    with pytest.raises(PeerUnavailable, match=r"the cluster at tcp://127\.0\.0\.1:1 does not serve"):
        read(here)
    (tmp_path / "rows.parquet").write_bytes(b"no table")
    with pytest.raises(DataRefused, match="not a well-formed parquet"):
        read(here)


def test_without_the_extra_nothing_is_read(tmp_path: Path) -> None:
    here = on_cluster(settings(tmp_path / "absent.csv"), ClusterSettings(**NOBODY))
    with (
        patch("dprelease.files.extras.find_spec", return_value=None),
        pytest.raises(InvalidInput, match=r"dprelease\[dask\]"),
    ):
        read(here)


def test_workers_are_told_no_identifier_no_key_and_no_place(tmp_path: Path) -> None:
    here = settings(table(tmp_path), COLUMNS)
    rules = Rules.of(here, here.declarations(), GRID_BITS)
    batch = next(record_batches(here.source, ["x"]))
    assert b"patient-17" in pickle.dumps(batch)
    sent: list[bytes] = []

    def seen(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            sent.append(pickle.dumps((function, item)))
            yield function(item)

    read(here, seen)
    assert len(sent) == ROWS // PIECE
    assert b"other words" in sent[0]
    for secret in (b"patient-", KEY, str(tmp_path).encode()):
        assert not [each for each in sent if secret in each]
    assert rules.source.path is None


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no TLS beyond this machine": ({"address": "tcp://10.0.0.5:8786"}, "over TLS alone"),
    "no files": ({"address": "tls://scheduler:8786"}, "needs ca, certificate and key"),
    "files of no use": ({"address": "tcp://127.0.0.1:8786", "ca": "ca.pem"}, "belong to tls://"),
    "no scheduler": ({"address": "scheduler:8786"}, "address is that of the scheduler"),
}


@pytest.mark.parametrize(("cluster", "says"), SETTINGS.values(), ids=SETTINGS)
def test_settings_of_a_cluster_are_refused(tmp_path: Path, cluster: dict[str, Any], says: str) -> None:
    described = settings(tmp_path / "rows.csv").model_dump(include={"name", "roster", "columns"})
    source = {"path": tmp_path / "rows.csv", "subject": "id"}
    with pytest.raises(ValueError, match=says):
        PartySettings.model_validate({**described, "source": source, "engine": "dask", "cluster": cluster})


def test_the_engine_needs_a_cluster(tmp_path: Path) -> None:
    described = settings(tmp_path / "rows.csv").model_dump(include={"name", "roster", "columns"})
    source = {"path": tmp_path / "rows.csv", "subject": "id"}
    with pytest.raises(ValueError, match="needs the address of a cluster"):
        PartySettings.model_validate({**described, "source": source, "engine": "dask"})
    assert PartySettings.model_validate({**described, "source": source, "cluster": NOBODY}).engine == "local"
