"""`spark-submit spark_jobs/quality_gate.py PIPELINE [--since T] …`: `headrace gate` on a Spark that was submitted.

Arguments and exit codes are those of `headrace gate --help`.
"""

from __future__ import annotations

import sys

from headrace.cli import main
from headrace.runtime import submitted

if __name__ == "__main__":
    submitted.join()
    main(["gate", *sys.argv[1:]])
