"""Fetch once the jars that Spark needs beside its own, into .jars/; Spark is offline afterwards.

Spark's own resolver works out the closure of conf/jars.in in a folder that is thrown away. Of what it finds,
only artifacts that the pyspark package does not hold already are kept, whatever their version: two versions
of one library on one class path is what this file must never bring about.

conf/jars.lock holds the SHA-256 of each jar, in the form of `sha256sum`. A jar that differs from it, is
missing from it or is no longer found ends the run with exit status 1, and .jars/ stays as it was.
`--lock` writes conf/jars.lock from what was found instead; the review reads the difference.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
WANTED = ROOT / "conf" / "jars.in"
LOCK = ROOT / "conf" / "jars.lock"
KEPT = ROOT / ".jars"
IVY = KEPT / "ivy"

# Artifacts whose classes an own jar of Spark's holds under another name.
WITHIN_SPARK = frozenset({"shims"})  # org.roaringbitmap:shims is inside RoaringBitmap since its 1.0

JAR_NAME = re.compile(r"(?P<artifact>.+?)-(?P<version>\d[^/]*)\.jar")


def coordinates(text: str) -> list[str]:
    """The lines of conf/jars.in without comments and blanks."""
    stripped = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in stripped if line]


def artifact(jar_name: str) -> str:
    """`slf4j-api` of `slf4j-api-2.0.13.jar`; the Scala version stays part of the name."""
    match = JAR_NAME.fullmatch(jar_name)
    return match["artifact"] if match else jar_name


def resolve(wanted: Iterable[str]) -> list[Path]:
    """Let Spark fetch `wanted` and all they depend on; the paths of the jars, named GROUP_ARTIFACT-VERSION.jar."""
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars.packages", ",".join(wanted))
        .config("spark.jars.ivy", str(IVY))
        .getOrCreate()
    )
    session.stop()
    return sorted((IVY / "jars").glob("*.jar"))


def beside_spark(found: Iterable[Path], own: Iterable[str]) -> dict[str, Path]:
    """The jars of `found` whose artifact is not among Spark's `own` jars, by name without the group."""
    held = {artifact(name) for name in own} | WITHIN_SPARK
    named = {path.name.split("_", 1)[1]: path for path in found}
    return {name: path for name, path in sorted(named.items()) if artifact(name) not in held}


def lock_text(jars: dict[str, Path]) -> str:
    """One line a jar, as `sha256sum` prints it."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n" for name, path in jars.items()
    )


def differences(locked: str, found: str) -> list[str]:
    """What to tell a user whose jars are not the locked ones; empty where they are."""
    before, now = set(locked.splitlines()), set(found.splitlines())
    missing = [f"locked, but not found: {line}" for line in sorted(before - now)]
    return missing + [f"found, but not locked: {line}" for line in sorted(now - before)]


def main() -> int:
    """Fetch, compare with the lock, and only then put the jars in their place."""
    KEPT.mkdir(exist_ok=True)
    own = (path.name for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    jars = beside_spark(resolve(coordinates(WANTED.read_text())), own)
    text = lock_text(jars)
    if sys.argv[1:] == ["--lock"]:
        LOCK.write_text(text)
    elif wrong := differences(LOCK.read_text(), text):
        shutil.rmtree(IVY)  # one of them may be damaged: the next try starts from nothing
        print("\n".join(["the jars differ from conf/jars.lock:", *wrong]), file=sys.stderr)
        return 1
    for old in KEPT.glob("*.jar"):
        old.unlink()
    for name, path in jars.items():
        shutil.copyfile(path, KEPT / name)
    shutil.rmtree(IVY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
