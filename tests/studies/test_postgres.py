"""A study on a real PostgreSQL server, started on loopback (issue 7, 5)."""

from collections.abc import Iterator

import pytest

from rnnlab import StudyRecord, list_studies, load_study, run_study, study_status
from tests.studies.small_specs import assert_same_results, spec
from tests.tuning.postgres import ABSENT, postgres_server, server_programs

PROGRAMS = server_programs()
pytest.importorskip("psycopg", reason="psycopg is not installed (pip install rnnlab[postgres])")
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason=ABSENT)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    assert PROGRAMS is not None
    with postgres_server(PROGRAMS) as url:
        yield url


def test_study_on_a_server_is_the_study_in_a_file(
    server: str, done: StudyRecord, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert list_studies(server) == ()
    folder = tmp_path_factory.mktemp("checkpoints")
    record = run_study(spec(), store=server, population=4, checkpoints=folder)
    assert record.is_complete
    assert_same_results(record, done)
    assert study_status("small", server).is_complete
    assert [entry.name for entry in list_studies(server)] == ["small"]
    assert len(load_study("small", server)) == 14
    assert run_study("small", store=server) == record
