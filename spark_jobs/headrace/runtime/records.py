"""How a record becomes a row: parsing by Spark's own readers, bad records marked, event time found.

One path for every connector, for a stream and for a re-read of its input, so that both judge a record
alike. DataFrame in, DataFrame out. What a connector delivers is a *raw* frame with
`_partition`, `_offset`, `_timestamp`, `__position` and either `__value` (text or bytes to parse) or typed columns.

A record is bad where its text is none (blank, not UTF-8), where the format's parser says so, where a value
does not fit its declared type, and where a NOT NULL column has none.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType

from headrace.errors import Refused
from headrace.runtime.fields import analysed
from headrace.runtime.filesource import WRITTEN
from headrace.sql.nodes import Stream

POSITION = ("_partition", "_offset", "_timestamp", "__position")
CORRUPT, OWN_TIME = "__corrupt", "__own_time"
BLANK, LINE_END = " \t\r\n", "\r\n"
# Options of Spark's readers that would change what a record is, or what becomes of a bad one.
NOT_PASSED = ("mode", "columnNameOfCorruptRecord", "multiLine", "lineSep", "encoding", "charset", "header")


def rows_of(raw: DataFrame, stream: Stream, header: tuple[str, ...] = ()) -> DataFrame:
    """The stream's rows: declared columns, system columns, `__bad`, `__raw` and, where missing event times
    are filled from the wall clock, OWN_TIME.

    `header` names the fields of a CSV record, where they stand in another order than declared.
    """
    parsed = _parsed(raw, stream, header) if "__value" in raw.columns else _checked(raw, stream)
    for column in stream.columns:
        if column.expression:
            text = f"CAST({column.expression} AS {column.type})" if column.type else column.expression
            parsed = analysed(
                partial(_with_column, name=column.name, text=text),
                parsed,
                column.place,
                f"column {column.name}",
            )
    return _with_event_time(parsed, stream)


def check_options(stream: Stream) -> None:
    """Refuse the pass-through options that are Headrace's own to set."""
    for name, _ in stream.options:
        prefix, _, option = name.partition(".")
        ours = {own.lower() for own in NOT_PASSED} - ({"header"} if stream.connector == "files" else set())
        if prefix in ("csv", "json") and option.lower() in ours:
            raise Refused(
                f"stream {stream.name}: the option {name!r} can't be set: a record is one line of UTF-8",
                hint="'on-bad-record' says what becomes of bad records",
                place=stream.place,
            )


def under_header(stream: Stream) -> bool:
    """Whether the stream's files are CSV whose first line names the columns."""
    return stream.option("format", "json") == "csv" and stream.option("csv.header", "false").lower() == "true"


def reader_options(stream: Stream) -> dict[str, str]:
    """The stream's options `csv.*` or `json.*` that go to Spark's parser as they are."""
    prefix = f"{stream.option('format', 'json')}."
    passed = {name.removeprefix(prefix): value for name, value in stream.options if name.startswith(prefix)}
    return {name: value for name, value in passed.items() if name not in ("header", "schema")}


def _with_column(frame: DataFrame, name: str, text: str) -> DataFrame:
    return frame.withColumn(name, F.expr(text))


# ---- text --------------------------------------------------------------------------------------
def _parsed(raw: DataFrame, stream: Stream, header: tuple[str, ...]) -> DataFrame:
    """`__value` parsed by the stream's format."""
    form = stream.option("format", "json")
    text = F.col("__value").cast("string")
    options = {**reader_options(stream), "columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}
    written = F.coalesce(F.col(WRITTEN), text) if WRITTEN in raw.columns else text
    match form:
        case "json":
            record = F.from_json(text, _schema(stream), options)
            bad = [_no_text(written), _more_than_one(text)]
        case "csv":
            record = F.from_csv(F.rtrim(text, F.lit(LINE_END)), _csv_schema(stream, header), options)
            bad = [_no_text(text), ~F.is_valid_utf8(written)]
        case "avro":
            return _avro(raw, stream)
        case other:
            raise Refused(f"format {other!r} can't be read from {stream.connector}", place=stream.place)
    kept = raw.select(
        *POSITION,
        F.make_valid_utf8(written).alias("__raw"),
        reduce(or_, bad).alias("__none"),
        record.alias("__record"),
    )
    opened = kept.select(*POSITION, "__raw", "__none", "__record.*")
    flawed = [F.col("__none"), F.col(CORRUPT).isNotNull(), *_missing(stream)]
    names = [F.col(_quoted(c.name)) for c in stream.physical]
    return opened.select(*POSITION, *names, reduce(or_, flawed).alias("__bad"), "__raw")


def _no_text(text: Column) -> Column:
    return text.isNull() | (F.trim(text, F.lit(BLANK)) == "") | ~F.is_valid_utf8(text)


def _more_than_one(text: Column) -> Column:
    """Whether more follows behind the first JSON value, which Spark's parser would pass over in silence.

    Only a text that looks like it is scanned a second time, as the one element that it should be.
    """
    suspect = ~F.endswith(F.rtrim(text, F.lit(BLANK)), F.lit("}"))
    for seam in ("}{", "} {", "},{", "}, {"):
        suspect = suspect | text.contains(seam)
    return suspect & ~F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(1)


def _schema(stream: Stream) -> str:
    fields = [f"{_quoted(c.name)} {c.type}" for c in stream.physical]
    return ", ".join([*fields, f"{CORRUPT} STRING"])


def _csv_schema(stream: Stream, header: tuple[str, ...]) -> str:
    """CSV fields go by position: a header's names give the order, and undeclared ones are text."""
    if not header:
        return _schema(stream)
    columns = {c.name.casefold(): c for c in stream.physical}
    fields = []
    for number, name in enumerate(header):
        column = columns.pop(name.casefold(), None)
        fields.append(f"{_quoted(column.name)} {column.type}" if column else f"__field{number} STRING")
    return ", ".join([*fields, f"{CORRUPT} STRING"])


def _avro(raw: DataFrame, stream: Stream) -> DataFrame:
    schema = stream.option("avro.schema")
    if not schema:
        raise Refused(
            f"stream {stream.name}: format avro needs the option 'avro.schema', the writer's schema as JSON",
            place=stream.place,
        )
    record = from_avro("__value", schema, {"mode": "PERMISSIVE"})
    opened = analysed(
        lambda frame: frame.select(*POSITION, "__value", record.alias("__record")),
        raw,
        stream.place,
        f"stream {stream.name}: avro.schema",
    )
    # Spark gives a record of NULLs alone for bytes that don't fit the schema.
    names = opened.schema["__record"].dataType.fieldNames()  # type: ignore[attr-defined]
    none = reduce(and_, [F.col("__record")[name].isNull() for name in names])
    kept = opened.select(
        *POSITION,
        F.when(none, F.base64("__value")).otherwise(F.to_json("__record")).alias("__raw"),
        none.alias("__none"),
        "__record.*",
    )
    typed = _typed(kept, stream, "avro.schema")
    return typed.withColumn("__bad", F.col("__none") | F.col("__bad")).drop("__none")


# ---- typed columns -----------------------------------------------------------------------------
def _checked(raw: DataFrame, stream: Stream) -> DataFrame:
    names = [F.col(_quoted(name)) for name in raw.columns if name not in POSITION]
    return _typed(raw.withColumn("__raw", F.to_json(F.struct(*names))), stream, stream.option("path") or "it")


def _typed(frame: DataFrame, stream: Stream, whence: str) -> DataFrame:
    """The declared columns by name and type, `__bad` where a value does not fit; `frame` has `__raw`."""
    own = {field.name.casefold(): field.name for field in frame.schema.fields}
    lacking = [column for column in stream.physical if column.name.casefold() not in own]
    if lacking:
        having = ", ".join(name for name in frame.columns if not name.startswith(("_", "__")))
        raise Refused(
            f"stream {stream.name}: {whence} has no column {lacking[0].name}",
            hint=f"it has: {having}",
            place=lacking[0].place,
        )
    kept = [name for name in ("__none",) if name in frame.columns]
    columns, flaws = [], [F.lit(False)]
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    for column in stream.physical:
        name = own[column.name.casefold()]
        value = F.col(_quoted(name))
        fitted = value
        if column.type and kinds[name] != DataType.fromDDL(column.type):
            fitted = value.try_cast(column.type)
            flaws.append(value.isNotNull() & fitted.isNull())
        if column.not_null:
            flaws.append(value.isNull())
        columns.append(fitted.alias(column.name))
    bad = reduce(or_, flaws).alias("__bad")
    return analysed(
        lambda f: f.select(*POSITION, *kept, *columns, bad, "__raw"),
        frame,
        stream.place,
        f"stream {stream.name}",
    )


def _missing(stream: Stream) -> list[Column]:
    return [F.col(_quoted(c.name)).isNull() for c in stream.physical if c.not_null]


# ---- event time --------------------------------------------------------------------------------
def _with_event_time(parsed: DataFrame, stream: Stream) -> DataFrame:
    if stream.watermark is None:
        return parsed.withColumn("_event_time", F.lit(None).cast("timestamp"))
    own = F.when(~F.col("__bad"), F.col(_quoted(stream.watermark.column)).cast("timestamp"))
    if stream.option("event-time.on-missing") != "wall-clock":
        return parsed.withColumn("_event_time", own)
    return parsed.withColumn(OWN_TIME, own).withColumn("_event_time", F.coalesce(own, F.col("_timestamp")))


def own_time(rows: DataFrame) -> Column:
    """The event time that a record itself carries, by which marks move: NULL where it has none or is bad."""
    return F.col(OWN_TIME if OWN_TIME in rows.columns else "_event_time")


def _quoted(name: str) -> str:
    return f"`{name}`"
