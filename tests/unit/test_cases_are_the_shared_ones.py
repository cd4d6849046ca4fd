"""The case files of this repository: copies, to the byte, of the ones in the shared folder beside a checkout."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from headrace.cases.pending import pending_beside

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
SHARED = ROOT.parent / "shared" / "cases"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.yaml"))}


def case_names() -> Iterator[tuple[str, str]]:
    """Pairs of file and name, one a case."""
    for file, text in contents(CASES).items():
        for document in yaml.safe_load_all(text):
            yield file, document["name"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared folder lies beside this checkout")
def test_the_case_files_are_the_shared_ones_to_the_byte() -> None:
    ours, theirs = contents(CASES), contents(SHARED)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []


def test_no_two_cases_have_one_name() -> None:
    names = [name for _, name in case_names()]
    assert len(names) > 100
    assert sorted(set(names)) == sorted(names)


def test_every_pending_case_exists() -> None:
    pending = pending_beside(CASES / "windows.yaml")
    assert sorted(pending.keys() - set(case_names())) == []
