"""The functions that an expression may call: Spark's (a generated list) and Headrace's own aggregates.

`spark_functions.txt` is written by scripts/spark_functions.py from the installed Spark; it is read once
and never changed here.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from types import MappingProxyType

OWN_AGGREGATES = ("top_k",)
GRAMMAR = ("timestampadd", "timestampdiff", "try_cast")  # in Spark's grammar, not in its list

# Their value is another one at each run, so that a replay or the gate could never agree with it.
UNREPEATABLE = MappingProxyType(
    {
        "rand": "chance",
        "randn": "chance",
        "random": "chance",
        "randstr": "chance",
        "uniform": "chance",
        "shuffle": "chance",
        "uuid": "chance",
        "monotonically_increasing_id": "the cut into partitions",
        "spark_partition_id": "the cut into partitions",
        "input_file_name": "the cut into files",
        "input_file_block_start": "the cut into files",
        "input_file_block_length": "the cut into files",
        "now": "the clock",
        "current_timestamp": "the clock",
        "current_date": "the clock",
        "current_time": "the clock",
        "curdate": "the clock",
        "localtimestamp": "the clock",
    }
)


@cache
def groups() -> MappingProxyType[str, str]:
    """Function name in lower case -> Spark's group of it (`agg_funcs`, `window_funcs`, …)."""
    text = files("headrace.sql").joinpath("spark_functions.txt").read_text(encoding="utf-8")
    rows = (line.partition("\t") for line in text.splitlines() if not line.startswith("#"))
    found = {name: group for name, _, group in rows if name}
    return MappingProxyType(
        {**found, **dict.fromkeys(GRAMMAR, ""), **dict.fromkeys(OWN_AGGREGATES, "agg_funcs")}
    )


def is_known(name: str) -> bool:
    """Whether Spark or Headrace has the function, whatever the letter case."""
    return name.lower() in groups()


def is_aggregate(name: str) -> bool:
    """Whether the function takes many rows to one value."""
    return groups().get(name.lower()) == "agg_funcs"


def is_window(name: str) -> bool:
    """Whether the function is one of Spark's ranking and offset functions."""
    return groups().get(name.lower()) == "window_funcs"
