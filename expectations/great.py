"""Great Expectations: runs the checks of `suites.py` on Spark frames and writes Data Docs.

The one module that imports it; the import takes some 15 seconds, so the gate imports this module in a
thread while Spark computes. Never decides anything: it reports which check held.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from expectations.suites import Suite
from expectations.verdict import Check

os.environ["GX_ANALYTICS_ENABLED"] = "False"
logging.getLogger("great_expectations").setLevel(logging.ERROR)

import great_expectations as gx  # noqa: E402
from great_expectations.checkpoint import Checkpoint, UpdateDataDocsAction  # noqa: E402
from great_expectations.core.validation_definition import ValidationDefinition  # noqa: E402
from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: E402
from great_expectations.expectations import UnexpectedRowsExpectation  # noqa: E402

SITE = "gate"


class NoRowSpeaksAgainst(UnexpectedRowsExpectation):
    """A check of the gate: its query over {batch} must give no row. The query runs once (GX's own runs it twice)."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("unexpected_rows_query.table",)

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        rows = metrics["unexpected_rows_query.table"]
        return {
            "success": not rows,
            "result": {"observed_value": len(rows), "details": {"unexpected_rows": rows}},
        }


def run_suites(suites: Sequence[Suite], docs: Path) -> dict[str, tuple[Check, ...]]:
    """Run all suites, write Data Docs to `docs`; gives the outcome of each check, in its suite's order, by result."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.add_data_docs_site(site_name=SITE, site_config=_site(docs))
    source = context.data_sources.add_spark("lake")
    found: dict[str, tuple[Check, ...]] = {}
    for suite in suites:
        outcomes = _run(context, source, suite)
        found[suite.result] = tuple(outcomes[check.name] for check in suite.checks)
    return found


def _site(docs: Path) -> Any:
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs)}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": store,
        "site_index_builder": index,
    }


def _run(context: Any, source: Any, suite: Suite) -> dict[str, Check]:
    """The checks of a suite as one checkpoint."""
    name = suite.result
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("whole")
    expectations = context.suites.add(gx.ExpectationSuite(name=name))
    for check in suite.checks:
        expectations.add_expectation(
            NoRowSpeaksAgainst(unexpected_rows_query=check.query, description=check.name)
        )
    definition = context.validation_definitions.add(
        ValidationDefinition(name=name, data=batch, suite=expectations)
    )
    action = UpdateDataDocsAction(name="docs", site_names=[SITE])
    checkpoint = context.checkpoints.add(
        Checkpoint(name=name, validation_definitions=[definition], actions=[action])
    )
    report = checkpoint.run(batch_parameters={"dataframe": suite.frame})
    results = [result for run in report.run_results.values() for result in run.results]
    return {check.name: check for check in map(_outcome, results)}


def _outcome(result: Any) -> Check:
    """A check that could not run at all does not hold, and says why."""
    name = str(result.expectation_config.description)
    errors = [str(info.get("exception_message", "")) for info in _exceptions(result.exception_info)]
    if errors:
        return Check(name, holds=False, detail=errors[0].splitlines()[0][:300])
    against = int(result.result.get("observed_value") or 0)
    return Check(name, holds=bool(result.success), against=against)


def _exceptions(info: dict[str, Any]) -> list[dict[str, Any]]:
    """GX gives one exception, or one for each metric."""
    several = [info] if "raised_exception" in info else list(info.values())
    return [one for one in several if isinstance(one, dict) and one.get("raised_exception")]
