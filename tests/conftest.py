"""Options of the test runs, and how two processes share the tests (`make test`)."""

from __future__ import annotations

import pytest

# One by one; of any other file all tests run in one process, which keeps its fixtures.
SHARED_OUT = "test_cases.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--accept` writes the golden files anew (make accept)."""
    parser.addoption("--accept", action="store_true", help="write the golden files anew; read their diff")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests by file for `--dist loadgroup`; the long files first, so that none is left for the end."""
    for item in items:
        if item.path.name != SHARED_OUT:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if item.get_closest_marker("system"):
        return 0
    return 2 if item.path.name == SHARED_OUT else 1
