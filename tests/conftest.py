import linecache
import os

from hypothesis import HealthCheck, settings

# how many examples each property tries: RNNLAB_TESTS=dev (default), ci or nightly
settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), max_examples=200, derandomize=True)
settings.register_profile("nightly", parent=settings.get_profile("dev"), max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("RNNLAB_TESTS", "ci" if os.environ.get("CI") else "dev"))

check_sources = linecache.checkcache


def check_sources_again(filename: str | None = None) -> None:
    """For doctest: what SQLAlchemy made up leaves the cache when it is garbage, also while that is gone through."""
    try:
        check_sources(filename)
    except KeyError:
        check_sources(filename)


linecache.checkcache = check_sources_again
