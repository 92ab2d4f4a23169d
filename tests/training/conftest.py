"""Tests that train for a minute are left out unless asked for: `pytest -m slow`."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: trains a network for a minute or so (pytest -m slow tests/training)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="trains for a minute or so: pytest -m slow tests/training"))
