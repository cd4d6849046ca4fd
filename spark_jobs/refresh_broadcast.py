"""`spark-submit spark_jobs/refresh_broadcast.py TABLE --from PATH …`: `headrace refresh` on a Spark that was submitted.

Arguments and exit codes are those of `headrace refresh --help`.
"""

from __future__ import annotations

import sys

from headrace.cli import main
from headrace.runtime import submitted

if __name__ == "__main__":
    submitted.join()
    main(["refresh", *sys.argv[1:]])
