"""Golden files: blocks of `=== name`, a statement, `---`, and the exact answer. `--accept` writes them anew.

A statement that begins with SELECT or WITH stands behind PRELUDE, on line 2 of the pipeline; any other one
is a pipeline of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PRELUDE = (
    "CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, arr ARRAY<BIGINT>, st STRUCT<a: INT>, "
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND); "
    "CREATE STREAM o (k STRING, t2 TIMESTAMP, v BIGINT, WATERMARK FOR t2 AS t2); "
    "CREATE STREAM bare (k STRING, x TIMESTAMP); "
    "CREATE TABLE ref (k STRING, label STRING, price BIGINT, PRIMARY KEY (k)); "
    "CREATE VIEW big AS SELECT k, ts, v FROM s WHERE v > 10; "
    "CREATE TABLE r AS\n"
)
Check = Callable[[Path, str, str], None]


def blocks(path: Path) -> dict[str, tuple[str, str]]:
    """Name -> (statement, answer) of every block of a golden file."""
    found = {}
    for block in path.read_text(encoding="utf-8").split("=== ")[1:]:
        name, _, rest = block.partition("\n")
        statement, _, answer = rest.partition("\n---\n")
        found[name] = (statement.strip(), answer.strip())
    return found


def pipeline_text(statement: str) -> str:
    """The pipeline that a block's statement means."""
    is_query = statement.upper().startswith(("SELECT", "WITH"))
    return f"{PRELUDE}{statement};" if is_query else statement


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per block of the files in the folder that the test names."""
    if "block" in metafunc.fixturenames:
        folder = metafunc.function.folder
        found = [(path, name) for path in sorted((HERE / folder).glob("*.txt")) for name in blocks(path)]
        metafunc.parametrize("block", found, ids=[f"{path.stem}: {name}" for path, name in found])


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Check:
    """Compare an answer with its block's, or write it there."""

    def compare(path: Path, name: str, answer: str) -> None:
        known = blocks(path)
        statement, wanted = known[name]
        if request.config.getoption("--accept"):
            known[name] = (statement, answer)
            parts = [f"=== {one}\n{text}\n---\n{said}\n" for one, (text, said) in known.items()]
            path.write_text("\n".join(parts), encoding="utf-8")
            return
        assert answer == wanted

    return compare
