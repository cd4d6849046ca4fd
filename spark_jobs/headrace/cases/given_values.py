"""The values of `given` -> what a source delivers, and what a reference table holds. Pure.

A stream's value that does not fit its column is delivered as it stands: whether it is a bad record is the
runtime's to judge. A reference table's value must fit.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from headrace.cases.case import Value
from headrace.cases.instants import iso_of, micros_of


def delivered(value: Value, kind: pa.DataType) -> Value:
    """The value as JSON holds it: instants as ISO 8601 with microseconds, decimals as strings."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return _iso(value, "Z" if kind.tz else "")
    if pa.types.is_decimal(kind) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(Decimal(repr(value)))
    if pa.types.is_floating(kind) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if pa.types.is_list(kind) and isinstance(value, list):
        return [delivered(item, kind.value_type) for item in value]
    if pa.types.is_map(kind) and isinstance(value, dict):
        return {key: delivered(item, kind.item_type) for key, item in value.items()}
    if pa.types.is_struct(kind) and isinstance(value, dict):
        known = {field.name: field.type for field in kind}
        return {key: delivered(item, known[key]) if key in known else item for key, item in value.items()}
    return value


def held(value: Value, kind: pa.DataType) -> object:
    """The value as pyarrow takes it. Raises ValueError where it does not fit the type."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return _moment(value, kind)
    if pa.types.is_date(kind) and isinstance(value, str):
        return date.fromisoformat(value)
    if pa.types.is_decimal(kind) and isinstance(value, (str, int, float)):
        return _decimal(value)
    if pa.types.is_binary(kind) and isinstance(value, str):
        return value.encode()
    if pa.types.is_list(kind) and isinstance(value, list):
        return [held(item, kind.value_type) for item in value]
    if pa.types.is_map(kind) and isinstance(value, dict):
        return [(key, held(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: held(value.get(field.name), field.type) for field in kind}
    if pa.types.is_string(kind) and not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _iso(value: Value, suffix: str) -> Value:
    micros = micros_of(value)
    if micros is None:
        return value
    try:
        return iso_of(micros).removesuffix("Z") + suffix
    except OverflowError:
        return value


def _moment(value: Value, kind: pa.DataType) -> datetime:
    micros = micros_of(value)
    if micros is None:
        raise ValueError(f"{value!r} is no time")
    try:
        moment = datetime.fromisoformat(iso_of(micros))
    except OverflowError as error:
        raise ValueError(f"{value!r} is beyond the years 1 to 9999") from error
    return moment if kind.tz else moment.replace(tzinfo=None)


def _decimal(value: str | int | float) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(f"{value!r} is no number") from error
