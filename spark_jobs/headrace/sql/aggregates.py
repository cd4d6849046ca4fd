"""The aggregates: how a call becomes the text of a native Spark aggregate, and which laws it keeps.

Rules: streaming queries can't run DISTINCT aggregates, and a FILTER is written as CASE, so that each
lowered call is one expression over the columns of the Aggregate's input. Types are those of the
arguments, as Spark's analyser names them (`bigint`, `double`, `decimal(9,2)`); without them the text is
right for all values but -0.0, sums that overflow on the way, and ties of MAX_BY.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlglot.tokenizer_core import Token, TokenType

from headrace.sql.dialect import tokens
from headrace.sql.functions import is_aggregate
from headrace.sql.nodes import TIME_ORDER, Call

ORDER = f"struct({', '.join(TIME_ORDER)})"
# A BIGINT is high * 2^22 + low. The lower ones' sum has room for 2^41 rows, the upper ones' for 2^22 rows of the
# largest values there are before others take them back; beyond that the sum fails, and is never wrong.
_LIMB_BITS = 22
_LIMB = 1 << _LIMB_BITS
_DIGITS = 18  # a wide decimal, taken as a whole number, is high * 10^18 + low
_WIDE = 28  # a decimal with more digits: its sum has no room for ten digits more

OVERFLOW = "overflow: "  # how the error of a sum begins

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")

Lower = Callable[[Call, Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Law:
    """One aggregate. `mergeable`: partial results of parts of the input merge to the whole's.

    `ordered`: the answer depends on the rows' event time; `bounded`: its state does not grow with the
    number of rows of a group. `type` tells the type of the value.
    """

    lower: Lower
    type: str
    mergeable: bool = True
    ordered: bool = False
    bounded: bool = True


def lower_call(call: Call, types: Sequence[str] = (), group: str = "") -> str:
    """The call as Spark SQL text of one aggregate expression; `types` are the arguments' types, or ().

    `group` is an expression that tells a group's key as text, for the error of a sum that overflows.
    """
    law = AGGREGATES.get(call.function)
    if call.function == "sum":
        return _sum(call, types, group)
    lower = law.lower if law else _native
    if call.distinct and law is None:
        raise ValueError(f"{call.function}(DISTINCT …) has no row in AGGREGATES")
    return lower(call, types)


def is_ordered(call: Call) -> bool:
    """Whether the call asks which of two rows is the earlier one, by TIME_ORDER."""
    law = AGGREGATES.get(call.function)
    return law is not None and law.ordered


def over(call: Call, types: Sequence[str], window: str) -> str:
    """The call as Spark SQL text over the rows of `window`, `(PARTITION BY … ROWS …)`."""
    if call.function == "sum" and not call.distinct and _type(types) == "bigint":
        value = _when(call, call.arguments[0])
        return f"CAST(sum(CAST({value} AS DECIMAL(38, 0))) OVER {window} AS BIGINT)"
    text = lower_call(call, types)
    for _, end in reversed(aggregate_spans(text)):
        text = f"{text[:end]} OVER {window}{text[end:]}"
    return text


def aggregate_spans(text: str) -> list[tuple[int, int]]:
    """Where the aggregate calls of a text stand, their WITHIN GROUP and FILTER included; the outermost ones, in order."""
    words = tokens(text)
    found: list[tuple[int, int]] = []
    index = 0
    while index < len(words) - 1:
        if is_aggregate(words[index].text) and words[index + 1].token_type == TokenType.L_PAREN:
            start = words[index].start
            index = _closing(words, index + 1)
            while index + 1 < len(words) and words[index + 1].text.upper() in ("WITHIN", "FILTER"):
                opening = next(
                    at for at in range(index + 1, len(words)) if words[at].token_type == TokenType.L_PAREN
                )
                index = _closing(words, opening)
            found.append((start, words[index].end + 1))
        index += 1
    return found


def _closing(words: Sequence[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(words)):
        kind = words[index].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if not depth:
            return index
    raise ValueError("a parenthesis is not closed")


def takes_distinct(function: str) -> bool:
    """Whether the function may be called with DISTINCT."""
    return function in ("count", "sum", "avg", "mean", "collect_list", "array_agg")


def _operand(text: str) -> str:
    """The text where something is tied to it: in parentheses unless it is a name or a literal."""
    return text if re.fullmatch(r"[\w.`']+", text) else f"({text})"


# ---- pieces ---------------------------------------------------------------------------------
def _when(call: Call, value: str) -> str:
    """The value where the FILTER holds, else NULL."""
    return f"CASE WHEN {call.where} THEN {value} END" if call.where else value


def _type(types: Sequence[str], index: int = 0) -> str:
    return types[index].lower() if index < len(types) else ""


def _equal(value: str, kind: str) -> str:
    """The value with -0.0 made 0.0, so that equal numbers are one."""
    if kind in ("double", "float"):
        return f"({_operand(value)} + CAST(0 AS {kind.upper()}))"
    return value


def _native(call: Call, _types: Sequence[str]) -> str:
    arguments = ", ".join(call.arguments) or "*"
    within = f" WITHIN GROUP ({call.within})" if call.within else ""
    condition = f" FILTER (WHERE {call.where})" if call.where else ""
    return f"{call.function}({arguments}){within}{condition}"


def _first_argument(call: Call, _types: Sequence[str]) -> str:
    """Aggregates that pass over NULLs: the FILTER moves into the first argument."""
    first, *others = call.arguments
    return f"{call.function}({', '.join([_when(call, first), *others])})"


def _count(call: Call, types: Sequence[str]) -> str:
    if call.distinct:
        return f"CAST(size({_set(call, types)}) AS BIGINT)"
    if not call.arguments:
        return f"count({_when(call, '1')})"
    if len(call.arguments) == 1:
        return f"count({_when(call, call.arguments[0])})"
    known = " AND ".join(f"{_operand(argument)} IS NOT NULL" for argument in call.arguments)
    return f"count({_when(call, f'CASE WHEN {known} THEN 1 END')})"


def _set(call: Call, types: Sequence[str]) -> str:
    """The set of values; several columns are one struct, and count where none of them is NULL."""
    values = [_equal(argument, _type(types, index)) for index, argument in enumerate(call.arguments)]
    if len(values) == 1:
        return f"collect_set({_when(call, values[0])})"
    known = " AND ".join(f"{_operand(argument)} IS NOT NULL" for argument in call.arguments)
    both = f"CASE WHEN {known} THEN struct({', '.join(values)}) END"
    return f"collect_set({_when(call, both)})"


def _sum(call: Call, types: Sequence[str], group: str = "") -> str:
    """Sums of BIGINT and of wide decimals are kept in two halves, so that only the final one can overflow."""
    kind = _type(types)
    scale = _wide_scale(kind)
    value = "x" if call.distinct else _when(call, call.arguments[0])
    if kind == "bigint":
        halves = limbs_of(value)
    elif scale is not None:
        halves = _halves(value, scale)
    else:
        return _sum_of_set(call, types) if call.distinct else f"sum({value})"
    if call.distinct:
        values = _set(call, types)
        high, low = (_added(f"transform({values}, x -> {half})", "DECIMAL(38, 0)") for half in halves)
        some = f"size({values}) > 0"
    else:
        high, low = (f"sum({half})" for half in halves)
        some = f"{high} IS NOT NULL"
    if scale is None:
        total = f"TRY_CAST(CAST({high} AS DECIMAL(38, 0)) * {_LIMB} + {low} AS BIGINT)"
    else:
        total = _whole(high, low, scale)
    named = literal(f"SUM({call.arguments[0]})")
    what = f"concat({named}, ' for ', {group})" if group else named
    error = f"raise_error(concat('{OVERFLOW}', {what}, ' does not fit into {_sum_type(kind)}'))"
    return f"CASE WHEN {some} THEN coalesce({total}, {error}) END"


def limbs_of(value: str) -> tuple[str, str]:
    """A BIGINT as high * _LIMB + low, 0 <= low < _LIMB."""
    return f"shiftright({value}, {_LIMB_BITS})", f"{_operand(value)} & {_LIMB - 1}"


def _wide_scale(kind: str) -> int | None:
    """The scale of a decimal whose sum has no room for ten digits more; None for any other type."""
    decimal = _DECIMAL.fullmatch(kind)
    return int(decimal.group(2)) if decimal and int(decimal.group(1)) > _WIDE else None


def _halves(value: str, scale: int) -> tuple[str, str]:
    """A decimal, taken as a whole number, as its upper digits and its lower eighteen; both have its sign.

    All quotients are whole numbers: the scale to which Spark rounds a quotient takes nothing away.
    """
    unit = _power_of_ten(_DIGITS - scale)
    rest = f"({_operand(value)} % {unit})"
    high = f"CAST(({_operand(value)} - {rest}) / {unit} AS DECIMAL(20, 0))"
    return high, f"CAST({rest} / {_power_of_ten(-scale)} AS DECIMAL({_DIGITS}, 0))"


def _whole(high: str, low: str, scale: int) -> str:
    """The decimal of two summed halves, or NULL where it does not fit; by text, as no product keeps 38 digits.

    The first attempt fails too where the halves' signs differ and the upper one alone does not fit: then
    one unit of it is lent to the lower one.
    """
    unit = _power_of_ten(_DIGITS)
    upper, lower = f"({high} + {low} DIV {unit})", f"({low} % {unit})"
    lent = f"CASE WHEN {upper} > 0 THEN 1 ELSE -1 END"
    plain = f"try_add(try_multiply({upper}, {unit}), {lower})"
    lending = f"try_add(try_multiply({upper} - {lent}, {unit}), {lower} + {lent} * {unit})"
    return f"TRY_CAST(concat(coalesce({plain}, {lending}), 'E-{scale}') AS DECIMAL(38, {scale}))"


def _power_of_ten(exponent: int) -> str:
    return f"CAST('1E{exponent}' AS DECIMAL({max(exponent + 1, -exponent)}, {max(-exponent, 0)}))"


def literal(text: str) -> str:
    """The text as a SQL string."""
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def _sum_of_set(call: Call, types: Sequence[str]) -> str:
    values = _set(call, types)
    return f"CASE WHEN size({values}) > 0 THEN {_added(values, _sum_type(_type(types)))} END"


def _added(values: str, kind: str) -> str:
    """The sum of an array."""
    return f"aggregate({values}, CAST(0 AS {kind}), (total, x) -> CAST(total + x AS {kind}))"


def _sum_type(kind: str) -> str:
    """The type of a sum over values of a type (SEMANTICS 5)."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return f"DECIMAL({min(38, int(decimal.group(1)) + 10)}, {decimal.group(2)})"
    return "DOUBLE" if kind in ("double", "float", "string") else "BIGINT"


def _average(call: Call, types: Sequence[str]) -> str:
    if not call.distinct:
        return f"avg({_when(call, call.arguments[0])})"
    values = _set(call, types)
    decimal = _DECIMAL.fullmatch(_type(types))
    if decimal:
        digits, scale = (min(38, int(number) + 4) for number in decimal.groups())
        return f"CAST({_sum(call, types)} / size({values}) AS DECIMAL({digits}, {scale}))"
    total = f"aggregate({values}, CAST(0 AS DOUBLE), (total, x) -> total + CAST(x AS DOUBLE))"
    return f"CASE WHEN size({values}) > 0 THEN {total} / size({values}) END"


def _collect_list(call: Call, types: Sequence[str]) -> str:
    return _set(call, types) if call.distinct else f"collect_list({_when(call, call.arguments[0])})"


def _by_time(call: Call, _types: Sequence[str]) -> str:
    """FIRST_VALUE and LAST_VALUE: by event time, then partition, then offset."""
    value, *flag = call.arguments
    condition = call.where
    if flag and flag[0].upper() == "TRUE":
        known = f"{_operand(value)} IS NOT NULL"
        condition = f"({condition}) AND {known}" if condition else known
    order = f"CASE WHEN {condition} THEN {ORDER} END" if condition else ORDER
    return f"{'max_by' if call.function.startswith('last') else 'min_by'}({value}, {order})"


def _extreme_by(call: Call, types: Sequence[str]) -> str:
    """MIN_BY and MAX_BY: of equal extremes the smallest value is taken."""
    value, by, *count = call.arguments
    if count or _type(types).startswith(("map", "variant")):
        return f"{call.function}({value}, {_when(call, by)}{''.join(f', {one}' for one in count)})"
    order = by if call.function == "min_by" else _descending(by, _type(types, 1))
    if not order:
        return f"max_by({value}, {_when(call, by)})"
    pair = f"CASE WHEN {_operand(by)} IS NOT NULL THEN struct({order} AS o, {value} AS v) END"
    return f"min({_when(call, pair)}).v"


def _descending(value: str, kind: str) -> str:
    """An expression that falls where the value rises; '' where the type has none."""
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return f"~{_operand(value)}"
    if kind.startswith("decimal"):
        return f"-{_operand(value)}"
    if kind in ("double", "float"):
        return f"struct(NOT isnan({value}), -({_equal(value, kind)}))"
    if kind == "timestamp":
        return f"~unix_micros({value})"
    if kind == "date":
        return f"~unix_date({value})"
    if kind == "boolean":
        return f"NOT ({value})"
    if kind in ("string", "binary"):  # the bytes turned round; 'G' ends a text behind those it begins
        return f"concat(translate(hex({value}), '0123456789ABCDEF', 'FEDCBA9876543210'), 'G')"
    return ""


def _top_k(call: Call, _types: Sequence[str]) -> str:
    """Of no values an empty list, as COLLECT_LIST gives, where `max_by` gives NULL."""
    value, count = call.arguments
    value = _when(call, value)
    return f"coalesce(max_by({value}, {value}, {count}), array())"


def _collect_set(call: Call, types: Sequence[str]) -> str:
    return _set(call, types)


_LISTED = "ARRAY of the argument's type"

AGGREGATES: Mapping[str, Law] = MappingProxyType(
    {
        "count": Law(_count, "BIGINT"),
        "count_if": Law(_first_argument, "BIGINT"),
        "sum": Law(_sum, "BIGINT for integers, DECIMAL(min(38, p+10), s), DOUBLE"),
        "try_sum": Law(_first_argument, "as SUM"),
        "avg": Law(_average, "DOUBLE, or DECIMAL(p+4, s+4)"),
        "mean": Law(_average, "as AVG"),
        "min": Law(_first_argument, "the argument's"),
        "max": Law(_first_argument, "the argument's"),
        "stddev": Law(_first_argument, "DOUBLE"),
        "std": Law(_first_argument, "DOUBLE"),
        "stddev_samp": Law(_first_argument, "DOUBLE"),
        "stddev_pop": Law(_first_argument, "DOUBLE"),
        "variance": Law(_first_argument, "DOUBLE"),
        "var_samp": Law(_first_argument, "DOUBLE"),
        "var_pop": Law(_first_argument, "DOUBLE"),
        "skewness": Law(_first_argument, "DOUBLE"),
        "kurtosis": Law(_first_argument, "DOUBLE"),
        "first_value": Law(_by_time, "the argument's", ordered=True),
        "any_value": Law(_by_time, "the argument's", ordered=True),
        "first": Law(_by_time, "the argument's", ordered=True),
        "last_value": Law(_by_time, "the argument's", ordered=True),
        "last": Law(_by_time, "the argument's", ordered=True),
        "min_by": Law(_extreme_by, "the first argument's"),
        "max_by": Law(_extreme_by, "the first argument's"),
        "collect_list": Law(_collect_list, _LISTED, bounded=False),
        "array_agg": Law(_collect_list, _LISTED, bounded=False),
        "collect_set": Law(_collect_set, _LISTED, bounded=False),
        "top_k": Law(_top_k, _LISTED),
        "approx_count_distinct": Law(_first_argument, "BIGINT"),
        "approx_percentile": Law(_first_argument, "the argument's"),
        "percentile_approx": Law(_first_argument, "the argument's"),
        "bool_and": Law(_first_argument, "BOOLEAN"),
        "every": Law(_first_argument, "BOOLEAN"),
        "bool_or": Law(_first_argument, "BOOLEAN"),
        "any": Law(_first_argument, "BOOLEAN"),
        "some": Law(_first_argument, "BOOLEAN"),
        "bit_and": Law(_first_argument, "the argument's"),
        "bit_or": Law(_first_argument, "the argument's"),
        "bit_xor": Law(_first_argument, "the argument's"),
    }
)
