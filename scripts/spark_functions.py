"""Write spark_jobs/headrace/sql/spark_functions.txt: name and group of every function of the installed Spark.

Run it after a new version of Spark and commit what it wrote; the compiler reads the file, never Spark.
"""

from __future__ import annotations

from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

TARGET = Path(__file__).parents[1] / "spark_jobs" / "headrace" / "sql" / "spark_functions.txt"


def group(spark: SparkSession, name: str) -> str:
    """The group that Spark's documentation lists the function in: agg_funcs, window_funcs, …"""
    jvm = spark._jvm
    assert jvm is not None
    try:
        info = (
            spark._jsparkSession.sessionState()
            .catalog()
            .lookupFunctionInfo(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
        )
    except Py4JJavaError:  # an operator that has no entry of its own
        return ""
    return str(info.getGroup() or "")


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    lines = [f"# functions of Spark {spark.version}, written by scripts/spark_functions.py"]
    for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        name = row[0]
        lines.append(f"{name}\t{group(spark, name)}")
    TARGET.write_text("\n".join(lines) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
