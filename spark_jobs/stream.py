"""`spark-submit spark_jobs/stream.py PIPELINE [--until-idle | --flush] …`: `headrace run` on a Spark that was submitted.

Arguments and exit codes are those of `headrace run --help`.
"""

from __future__ import annotations

import sys

from headrace.cli import main
from headrace.runtime import submitted

if __name__ == "__main__":
    submitted.join()
    main(["run", *sys.argv[1:]])
