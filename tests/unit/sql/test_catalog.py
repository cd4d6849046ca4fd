"""Words of the catalog and the values that they take."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.sql.catalog import (
    QUERY_OPTIONS,
    SETTINGS,
    SINKS,
    SOURCES,
    STREAM_OPTIONS,
    TABLE_SOURCES,
    bytes_of,
    duration_ms,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    {
        "0": 0,
        "30s": 30_000,
        "5m": 300_000,
        "10 minutes": 600_000,
        "1h 30m": 5_400_000,
        "1.5 Seconds": 1_500,
        "250ms": 250,
        "2 days": 172_800_000,
        "0s": 0,
    }.items(),
)
def test_a_duration_is_read(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "10", "-5s", "5 parsecs", "5s x", "1 month"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("512", 512), ("64 kB", 65_536), ("1.5MB", 1_572_864), ("2gb", 2**31)]
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "10 MiB", "1,000"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        bytes_of(text)


def test_what_a_connector_needs_is_one_of_its_options() -> None:
    for table in (SOURCES, TABLE_SOURCES, SINKS):
        for connector in table.values():
            assert set(connector.required) <= set(connector.options)


def test_every_check_says_something_about_a_wrong_value() -> None:
    checks = {**SETTINGS, **STREAM_OPTIONS, **QUERY_OPTIONS}
    for name, check in checks.items():
        assert check(
            "" if name in ("pipeline.name", "lake", "checkpoint") or name.endswith("bound") else "?!"
        ), name


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("state.partitions", "4"),
        ("time.zone", "Europe/Berlin"),
        ("trigger.interval", "0"),
        ("lake", "s3a://x"),
        ("lookup.redis", "redis://me:secret@cache.example:6379/0"),
        ("lookup.redis", "unix:///run/redis.sock?db=1"),
    ],
)
def test_a_right_value_is_accepted(setting: str, value: str) -> None:
    assert SETTINGS[setting](value) == ""


def test_the_language_page_names_every_setting_connector_and_option() -> None:
    page = (Path(__file__).parents[3] / "docs/language.md").read_text(encoding="utf-8")
    words = {*SETTINGS, *STREAM_OPTIONS, *QUERY_OPTIONS, *SOURCES, *SINKS}
    words |= {option for connector in SOURCES.values() for option in connector.options}
    assert [word for word in sorted(words) if word not in page] == []
