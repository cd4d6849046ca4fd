"""The demo's report: one HTML file that needs no network, no script and no other file.

Light or dark follows the reader's system. Every chart has its numbers below it as a table, for those who can't
see it or want to copy them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from headrace.demo import course, figures
from headrace.demo.figures import Figure
from headrace.demo.record import Demo, Proof

# Colours 0 to 2 are the airports, 3 is a single series, 4 the watermark; all but 4 the queries. Hues after Okabe and
# Ito's palette for colour-blind readers, shifted until each has a contrast of 3:1 or more with its background.
STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #1b2330; --soft: #5a6575; --rule: #dfe3e9;
  --c0: #0067a8; --c1: #c2410c; --c2: #00795a; --c3: #5b5fc7; --c4: #1b2330; --c5: #a8437f; --c6: #7a5c00;
  --good: #00704f; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --page: #10141b; --card: #181e28; --ink: #e7ebf1; --soft: #9ba7b8;
  --rule: #2c3543; --c0: #5db4ee; --c1: #f2955c; --c2: #3ecf9f; --c3: #a3a6f5; --c4: #e7ebf1; --c5: #e79ac6;
  --c6: #d9b84a; --good: #3ecf9f; --bad: #ff8a80; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif }
main { max-width: 1200px; margin: 0 auto; padding: 40px 24px 64px }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px } h2 { font-size: 20px; margin: 44px 0 4px }
h3 { font-size: 16px; margin: 0 } p { margin: 4px 0; color: var(--soft); max-width: 78ch }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 14px; margin: 26px 0 0 }
.fact, figure, .proof { background: var(--card); border: 1px solid var(--rule); border-radius: 10px }
.fact { padding: 14px 16px } .fact b { display: block; font-size: 26px; line-height: 1.2; font-weight: 650 }
.fact span { color: var(--soft); font-size: 14px } .good b { color: var(--good) } .bad b { color: var(--bad) }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 500px), 1fr)); gap: 16px;
  margin-top: 14px; align-items: start }
.three { grid-template-columns: repeat(auto-fit, minmax(min(100%, 260px), 1fr)) }
figure { margin: 0; padding: 16px 18px 12px } figcaption p { font-size: 14px } svg { display: block; width: 100%;
  height: auto; margin-top: 10px; overflow: visible }
.proof { padding: 6px 18px 14px; margin-top: 14px }
text { fill: var(--ink); font-size: 13px } .tick, .label { fill: var(--soft) } .strong { font-weight: 600 }
.start { text-anchor: start } .middle { text-anchor: middle } .end { text-anchor: end }
.grid-line { stroke: var(--rule) } .axis { stroke: var(--soft) }
path { fill: none; stroke-width: 2.2; stroke-linejoin: round }
.c0 { stroke: var(--c0) } .c1 { stroke: var(--c1) } .c2 { stroke: var(--c2) } .c3 { stroke: var(--c3) }
.c4 { stroke: var(--c4) } .c5 { stroke: var(--c5) } .c6 { stroke: var(--c6) }
.f0, .t0 { fill: var(--c0) } .f1, .t1 { fill: var(--c1) } .f2, .t2 { fill: var(--c2) }
.f3, .t3 { fill: var(--c3) } .f4, .t4 { fill: var(--c4) } .f5, .t5 { fill: var(--c5) } .f6, .t6 { fill: var(--c6) }
.t0, .t1, .t2, .t3, .t4, .t5, .t6 { font-weight: 600 }
circle:hover { r: 6 } rect:hover { opacity: .75 }
details { margin-top: 8px; font-size: 14px } summary { cursor: pointer; color: var(--soft) }
table { border-collapse: collapse; font-size: 14px; margin: 8px 0; font-variant-numeric: tabular-nums }
th, td { padding: 3px 18px 3px 0; text-align: right; white-space: nowrap } th { color: var(--soft); font-weight: 500 }
th:first-child, td:first-child { text-align: left } tr + tr td { border-top: 1px solid var(--rule) }
.scroll { overflow-x: auto } pre { overflow-x: auto; font-size: 13px; line-height: 1.45; margin: 12px 0 0 }
code { font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace }
"""


def write_report(demo: Demo, path: Path) -> None:
    """Write the report."""
    path.write_text(page(demo), encoding="utf-8")


def page(demo: Demo) -> str:
    """The whole report as HTML."""
    run, results = demo.streamed, demo.results
    said = [figures.delay_by_hour(results["hourly"]), figures.cancellations(results["daily"])]
    parts = [
        "<header><h1>Every flight from New York in 2013, as a stream</h1>",
        f"<p>{_story(demo)}</p></header>",
        _facts(demo),
        _section("What the results say", "Read from the Delta tables that the pipeline maintains.", said),
        _grid([figures.carriers(results["carrier_totals"])]),
        _grid(
            [
                figures.made_up(results["flown"], results["carrier_totals"]),
                figures.visibility(results["by_visibility"]),
            ]
        ),
        _section(
            "How the run went",
            "",
            [course.throughput(run), course.speed(run), course.marks(run), course.lags(run)],
        ),
        _heading(
            "Balance over the hash partitions",
            f"Each key lives in one of {demo.partitions} partitions, by the hash of its value. Rows of state when "
            "the query held most of them, at the end of a batch; a window leaves the state when it closes, a flight "
            "when it has arrived or can't arrive in time. (What waits for the weather lies in a Delta table.)",
        ),
        _grid(course.balance(run), "grid three"),
        _proof(demo.proof),
        _heading("The pipeline", "All of it: the SQL that was compiled and run."),
        f"<figure><pre><code>{escape(demo.sql)}</code></pre></figure>",
    ]
    head = f'<meta charset="utf-8"><title>Headrace on real flights</title><style>{STYLE}</style>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f'<!doctype html>\n<html lang="en"><head>{head}{view}</head><body><main>\n{"".join(parts)}\n</main></body></html>\n'


def _story(demo: Demo) -> str:
    told = (
        f"{demo.streamed.rows:,} departures, arrivals and readings of the weather came from three airports in "
        f"{demo.deliveries} deliveries, LaGuardia's departures always a day behind the others', and went through "
        f"{len(demo.results)} queries of one SQL file on Spark, with {demo.partitions} hash partitions of state."
    )
    if (new := demo.streamed.refreshed) is not None:
        told += f" In mid-run the table of planes was refreshed: version {new.version}, {new.rows:,} rows."
    return told


def _facts(demo: Demo) -> str:
    run = demo.streamed
    late = run.metrics.get("late_rows", 0)
    facts = [
        ("", f"{run.rows:,}", "rows in"),
        (
            "",
            f"{run.rows_per_second:,.0f}",
            f"rows/s, each through all queries that read it; {run.seconds:.0f} s in all",
        ),
        ("good" if not late else "bad", f"{late:,}", "rows late by the watermark per partition"),
    ]
    if demo.plain is not None:
        told = "departures that plain Spark's global watermark dropped on the same input"
        facts.append(("bad" if demo.plain.dropped else "good", f"{demo.plain.dropped:,}", told))
    if demo.proof is not None:
        good = demo.proof.outcome == "equal"
        facts.append(("good" if good else "bad", demo.proof.outcome, "the gate's verdict, row by row"))
    cards = (
        f'<div class="fact {kind}"><b>{escape(big)}</b><span>{escape(small)}</span></div>'
        for kind, big, small in facts
    )
    return f'<div class="facts">{"".join(cards)}</div>'


def _proof(proof: Proof | None) -> str:
    if proof is None:
        return ""
    rows = [(name, outcome, f"{count:,}") for name, outcome, count in proof.results]
    told = (
        "The same SQL, run as one plain Spark batch over the same input at one partition, and compared with each "
        f"table row by row; floats within a relative {proof.tolerance:g}."
    )
    return (
        _heading("The gate", told)
        + f'<div class="proof">{_table(("result", "verdict", "rows compared"), rows)}</div>'
    )


def _section(title: str, told: str, shown: Iterable[Figure]) -> str:
    return _heading(title, told) + _grid(shown)


def _heading(title: str, told: str) -> str:
    return f"<h2>{escape(title)}</h2>" + (f"<p>{escape(told)}</p>" if told else "")


def _grid(shown: Iterable[Figure], kind: str = "grid") -> str:
    return f'<div class="{kind}">{"".join(_figure(one) for one in shown)}</div>'


def _figure(figure: Figure) -> str:
    numbers = ""
    if figure.rows:
        numbers = f'<details><summary>Numbers</summary><div class="scroll">{_table(figure.columns, figure.rows)}</div></details>'
    caption = f"<figcaption><h3>{escape(figure.title)}</h3><p>{escape(figure.caption)}</p></figcaption>"
    return f"<figure>{caption}{figure.svg}{numbers}</figure>"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
