"""The report's charts of the results: from result tables to what `charts` draws. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa

from headrace.demo import charts
from headrace.demo.charts import Axis, Bar, Series, number_axis
from headrace.demo.data import AIRPORTS

NEW_YORK = ZoneInfo("America/New_York")
DAY_BEGINS = 4  # the hour at which New York is quietest
FEW = 0.0025  # an hour of the day with less than this share of an airport's departures is not drawn
MOST_CARRIERS = 16
SIGHT = ("10 miles", "3 to 10", "1 to 3", "under 1", "not told")  # as flights.sql calls them


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its heading, what it shows, and its numbers as a table (names, rows of text)."""

    title: str
    caption: str
    svg: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def delay_by_hour(hourly: pa.Table) -> Figure:
    """Mean delay by New York's hour of the day: a line for each airport."""
    sums: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    local = {at: at.astimezone(NEW_YORK).hour for at in set(hourly["window_start"].to_pylist())}
    for row in hourly.select(["origin", "window_start", "departures", "mean_delay"]).to_pylist():
        if row["departures"]:
            cell = sums[row["origin"], local[row["window_start"]]]
            cell[0] += row["departures"] * row["mean_delay"]
            cell[1] += row["departures"]
    total = {airport: sum(n for (name, _), (_, n) in sums.items() if name == airport) for airport in AIRPORTS}
    means = {key: delay / n for key, (delay, n) in sums.items() if n > FEW * total[key[0]]}
    hours = sorted({hour for _, hour in means}, key=_in_day) or [DAY_BEGINS, DAY_BEGINS - 1]
    series = [
        Series(
            airport,
            tuple((_in_day(hour), means[airport, hour]) for hour in hours if (airport, hour) in means),
            tuple(
                f"{hour}:00 to {hour}:59, {means[airport, hour]:.1f} min, {sums[airport, hour][1]:,.0f} departures"
                for hour in hours
                if (airport, hour) in means
            ),
            colour,
        )
        for colour, airport in enumerate(AIRPORTS)
    ]
    ticks = tuple((_in_day(hour), f"{hour}:00") for hour in hours[::3])
    x = Axis("hour of departure, New York time", _in_day(hours[0]), _in_day(hours[-1]), ticks)
    y = number_axis("mean delay, minutes", list(means.values()) or [0.0])
    rows = tuple(
        (f"{hour}:00", *(f"{means[a, hour]:.1f}" if (a, hour) in means else "–" for a in AIRPORTS))
        for hour in hours
    )
    return Figure(
        "Delay by hour and airport",
        "Delays pile up through the day, and the latest departures are late ones: an hour counts when the plane "
        "left. Hours with hardly any departure are left out. From the table hourly.",
        charts.lines(series, x, y, "Mean delay by hour of the day for three airports"),
        ("hour", *AIRPORTS),
        rows,
    )


def carriers(totals: pa.Table) -> Figure:
    """Mean delay of each carrier, the busiest first."""
    ordered = totals.sort_by([("departures", "descending")]).slice(0, MOST_CARRIERS).to_pylist()
    bars = [
        Bar(
            row["name"],
            row["mean_delay"] or 0.0,
            f"{row['mean_delay'] or 0.0:.1f}",
            f"{row['departures']:,} departures, {row['cancellations']:,} cancelled",
        )
        for row in ordered
    ]
    columns = (
        *("carrier", "departures", "cancelled", "mean delay", "largest delay"),
        *("seats flown", "by planes that were not known"),
    )
    rows = tuple(
        (
            row["name"],
            f"{row['departures']:,}",
            f"{row['cancellations']:,}",
            f"{row['mean_delay'] or 0.0:.1f}",
            f"{row['largest_delay'] or 0:,}",
            f"{row['seats_flown'] or 0:,}",
            f"{row['unknown_planes']:,}",
        )
        for row in ordered
    )
    return Figure(
        "Mean delay by carrier, minutes",
        "The busiest carrier first. From the table carrier_totals, which every batch brings up to date.",
        charts.bars(bars, "Mean delay by carrier in minutes", colour=3, width=1100),
        columns,
        rows,
    )


def cancellations(daily: pa.Table) -> Figure:
    """Cancelled flights of each day."""
    days = daily.sort_by("window_start").to_pylist()
    first = days[0]["window_start"] if days else datetime(2013, 1, 1, tzinfo=UTC)
    at = [(row["window_start"] - first).days for row in days]
    values = [
        (
            float(day),
            float(row["cancellations"]),
            f"{row['window_start']:%d %b %Y}: {row['cancellations']:,} cancelled, {row['departures']:,} departed",
        )
        for day, row in zip(at, days, strict=True)
    ]
    ticks = tuple(
        (day, f"{row['window_start']:%b}") for day, row in zip(at, days, strict=True) if _first(row)
    )
    x = Axis("day", -1, (at[-1] if at else 0) + 1, ticks)
    y = number_axis("cancelled flights", [value for _, value, _ in values] or [0.0])
    worst = max(days, key=lambda row: row["cancellations"], default=None)
    mark = (
        f"{worst['window_start']:%d %b}: {worst['cancellations']:,} of {_planned(worst):,}" if worst else ""
    )
    return Figure(
        "Cancelled flights by day",
        "All airports and carriers together, merged from the partial sums of each task. From the table daily.",
        charts.columns(values, x, y, "Cancelled flights of each day of the year", mark=mark),
        ("day", "departed", "cancelled"),
        tuple(
            (f"{row['window_start']:%d %b}", f"{row['departures']:,}", f"{row['cancellations']:,}")
            for row in sorted(days, key=lambda row: -row["cancellations"])[:10]
        ),
    )


def made_up(flown: pa.Table, totals: pa.Table) -> Figure:
    """Mean minutes that each carrier made up between its departure and its arrival, the most first."""
    names = dict(zip(totals["carrier"].to_pylist(), totals["name"].to_pylist(), strict=True))
    wanted = [("made_up", "mean"), ("minutes", "mean"), ("departed", "count"), ("arrived", "count")]
    found = flown.group_by("carrier").aggregate(wanted).sort_by([("made_up_mean", "descending")]).to_pylist()
    lost = [row["departed_count"] - row["arrived_count"] for row in found]
    bars = [
        Bar(
            names[row["carrier"]],
            row["made_up_mean"] or 0.0,
            f"{row['made_up_mean'] or 0.0:.1f}",
            f"{row['departed_count']:,} departures, {never:,} never arrived",
        )
        for row, never in zip(found, lost, strict=True)
    ]
    return Figure(
        "Minutes made up on the way",
        "By how much less late a flight arrived than it left, on average. From the table flown, in which each departure "
        f"meets its arrival; {sum(lost):,} never arrived.",
        charts.bars(bars, "Mean minutes made up on the way by carrier", colour=2),
        ("carrier", "departures", "never arrived", "mean minutes", "made up"),
        tuple(
            (
                names[row["carrier"]],
                f"{row['departed_count']:,}",
                f"{never:,}",
                f"{row['minutes_mean'] or 0.0:.0f}",
                f"{row['made_up_mean'] or 0.0:.1f}",
            )
            for row, never in zip(found, lost, strict=True)
        ),
    )


def visibility(months: pa.Table) -> Figure:
    """Mean delay by what one could see at the departure, over all months, the clearest first."""
    rows = months.select(["visibility", "departures", "mean_delay"]).to_pylist()
    counts = {name: sum(row["departures"] for row in rows if row["visibility"] == name) for name in SIGHT}
    means = {
        name: sum(row["departures"] * row["mean_delay"] for row in rows if row["visibility"] == name) / count
        for name, count in counts.items()
        if count
    }
    bars = [Bar(name, mean, f"{mean:.1f}", f"{counts[name]:,} departures") for name, mean in means.items()]
    return Figure(
        "Mean delay by visibility, minutes",
        "In miles, by the newest reading at the airport when the plane left, none older than three hours. From the table "
        "by_visibility, which has it by month.",
        charts.bars(bars, "Mean delay by visibility", colour=1),
        ("miles", "departures", "mean delay"),
        tuple((name, f"{counts[name]:,}", f"{mean:.1f}") for name, mean in means.items()),
    )


def _in_day(hour: int) -> int:
    """The hour's place in a day that begins at DAY_BEGINS."""
    return (hour - DAY_BEGINS) % 24


def _first(row: Mapping[str, datetime]) -> bool:
    return row["window_start"].day == 1


def _planned(row: Mapping[str, int]) -> int:
    return row["departures"] + row["cancellations"]
