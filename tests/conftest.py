"""Options of the test runs."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--accept` writes the golden files anew (make accept)."""
    parser.addoption("--accept", action="store_true", help="write the golden files anew; read their diff")
