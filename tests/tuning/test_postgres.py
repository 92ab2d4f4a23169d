"""The same claims about stores on a real PostgreSQL server, started on loopback (issue 7, 5)."""

from collections.abc import Iterator

import pytest

from rnnlab import TuningError
from rnnlab.tuning.store import Store
from tests.tuning.postgres import ABSENT, postgres_server, server_programs
from tests.tuning.small_studies import STUDY, arm
from tests.tuning.store_contract import StoreContract

PROGRAMS = server_programs()
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (pip install rnnlab[postgres])")
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason=ABSENT)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    assert PROGRAMS is not None
    with postgres_server(PROGRAMS) as url:
        yield url


@pytest.fixture
def place(server: str) -> str:
    """The database, emptied."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server


class TestPostgres(StoreContract):
    """Every claim about stores, on a server."""


def test_password_is_not_shown(place: str) -> None:
    store = Store(place.replace("rnnlab@", "rnnlab:secret@"))
    assert store.place.startswith("postgresql://rnnlab:***@127.0.0.1:")


def test_database_that_is_not_there_is_one_clear_error(place: str) -> None:
    with pytest.raises(TuningError, match='database "nowhere" does not exist') as raised:
        Store(place.rpartition("/")[0] + "/nowhere")
    assert "\n" not in str(raised.value)


def test_server_that_goes_away_is_one_clear_error() -> None:
    assert PROGRAMS is not None
    with postgres_server(PROGRAMS) as url:
        store = Store(url)
        store.add_study(STUDY, [arm()])
    with pytest.raises(TuningError, match=r"postgresql://rnnlab@127.0.0.1:\d+/postgres: .*[Cc]onnection refused"):
        store.arms(STUDY)
