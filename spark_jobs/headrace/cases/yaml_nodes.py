"""The text of a YAML file -> its nodes, and the pieces that case files are made of, each with its place.

Scalars mean what YAML 1.2 says: `yes`, `on`, `10:30` and unquoted dates are strings. A key may stand once
in a map. Errors are `BadCase` with line and column. Pure: no file is opened here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn

import yaml

from headrace.cases.case import BadCase, Value
from headrace.errors import Place, nearest

_SCALARS: Final = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+", tuple("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        tuple("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    """PyYAML's composer with the scalars of YAML 1.2."""

    yaml_implicit_resolvers = {}  # noqa: RUF012


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), list(_first))


@dataclass(frozen=True, slots=True)
class Spot:
    """A YAML node and the text that it stands in."""

    node: yaml.Node
    text: str

    @property
    def place(self) -> Place:
        start, end = self.node.start_mark, self.node.end_mark
        length = end.index - start.index if end.line == start.line else 1
        return Place(start.line + 1, start.column + 1, max(1, length))

    def bad(self, message: str, hint: str = "") -> NoReturn:
        raise BadCase(message, hint=hint, place=self.place, text=self.text)


def documents(text: str) -> tuple[Spot, ...]:
    """The documents of a YAML text that are not empty."""
    try:
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else None
        raise BadCase(f"not YAML: {error.problem}", place=place, text=text) from error
    except yaml.YAMLError as error:
        raise BadCase(f"not YAML: {error}", text=text) from error
    return tuple(Spot(node, text) for node in nodes if node is not None and not _is_null(node))


def entries(spot: Spot, what: str) -> dict[str, tuple[Spot, Spot]]:
    """The entries of a map: its keys as text -> where the key stands, and its value."""
    if not isinstance(spot.node, yaml.MappingNode):
        spot.bad(f"{what} must be a map")
    found: dict[str, tuple[Spot, Spot]] = {}
    for key_node, value_node in spot.node.value:
        key = Spot(key_node, spot.text)
        if not isinstance(key_node, yaml.ScalarNode):
            key.bad(f"a key of {what} must be a word")
        if key_node.value in found:
            key.bad(f"{key_node.value!r} stands twice in {what}")
        found[key_node.value] = (key, Spot(value_node, spot.text))
    return found


def check_known(keys: dict[str, tuple[Spot, Spot]], known: Iterable[str], what: str) -> None:
    """Refuses a key that is none of `known`, with the nearest of them."""
    words = tuple(known)
    for word, (key, _) in keys.items():
        if word not in words:
            near = nearest(word, words)
            key.bad(
                f"unknown key {word!r} in {what}",
                f"did you mean {near!r}?" if near else f"known: {', '.join(words)}",
            )


def is_map(spot: Spot) -> bool:
    return isinstance(spot.node, yaml.MappingNode)


def is_list(spot: Spot) -> bool:
    return isinstance(spot.node, yaml.SequenceNode)


def items(spot: Spot, what: str) -> tuple[Spot, ...]:
    """The items of a list."""
    if not isinstance(spot.node, yaml.SequenceNode):
        spot.bad(f"{what} must be a list")
    return tuple(Spot(node, spot.text) for node in spot.node.value)


def word(spot: Spot, what: str) -> str:
    """A string, as it is written."""
    if not isinstance(spot.node, yaml.ScalarNode) or _is_null(spot.node):
        spot.bad(f"{what} must be text")
    return str(spot.node.value)


def whole(spot: Spot, what: str, least: int = 0) -> int:
    """A whole number, not less than `least`."""
    number = value(spot)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        spot.bad(f"{what} must be a whole number, {least} or more")
    return number


def value(spot: Spot) -> Value:
    """A value of a row: a scalar, a list or a map with text for keys."""
    match spot.node:
        case yaml.SequenceNode():
            return [value(item) for item in items(spot, "an array")]
        case yaml.MappingNode():
            return {name: value(inner) for name, (_, inner) in entries(spot, "a value").items()}
        case _:
            return _scalar(spot)


def _scalar(spot: Spot) -> Value:
    text = str(spot.node.value)
    match spot.node.tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return text.casefold() == "true"
        case "int":
            return int(text)
        case "float":
            return float(text.casefold().replace(".inf", "inf").replace(".nan", "nan"))
        case "str":
            return text
        case tag:
            spot.bad(f"a value can't be a {tag}")


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
