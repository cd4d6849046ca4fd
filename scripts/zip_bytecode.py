"""Puts byte code beside the sources in PySpark's own archives, in which each of Spark's Python workers looks first.

Python keeps no byte code of what it imports from an archive, so that each worker would compile PySpark anew.
"""

from __future__ import annotations

import compileall
import os
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode


def archives() -> list[Path]:
    """Of the PySpark of this Python."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("zip_bytecode: there is no PySpark in this environment")
    return sorted(Path(spec.origin).parent.glob("python/lib/*.zip"))


def compile_in(archive: Path) -> None:
    """Write the archive anew, with byte code that no clock or time zone invalidates."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        sources, new = Path(folder, "sources"), Path(folder, archive.name)
        with zipfile.ZipFile(archive) as old:
            old.extractall(sources)
        compileall.compile_dir(
            sources,
            maxlevels=None,
            force=True,
            quiet=1,
            legacy=True,
            workers=0,
            stripdir=str(sources),
            prependdir=str(archive),
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
        with zipfile.ZipFile(new, "w") as zipped:
            for path in sorted(sources.rglob("*")):
                kind = (
                    zipfile.ZIP_STORED if path.suffix == ".pyc" else zipfile.ZIP_DEFLATED
                )  # read often, or never
                zipped.write(path, path.relative_to(sources), compress_type=kind)
        os.replace(new, archive)  # the package manager may share the old one with other environments


if __name__ == "__main__":
    for one in archives():
        compile_in(one)
