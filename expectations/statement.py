"""The views of a pipeline's text, found by its words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from expectations.words import Word, read


def view_texts(text: str) -> Mapping[str, str]:
    """`CREATE [OR REPLACE] [TEMPORARY] VIEW name AS SELECT …;` as name (lower case): SELECT text, in order."""
    words = read(text)
    found: dict[str, str] = {}
    start = 0
    for stop in [i for i, word in enumerate(words) if word.says == ";"] + [len(words)]:
        name, body = _view(words[start:stop])
        if name:
            found[name] = text[words[start + body].start : words[stop - 1].end]
        start = stop + 1
    return found


def _view(words: tuple[Word, ...]) -> tuple[str, int]:
    """A view's name and the index of the first word of its query; ('', 0) for another statement."""
    says = [word.says for word in words[:4]]
    if not words or says[0] != "CREATE" or "VIEW" not in says:
        return "", 0
    at = says.index("VIEW") + 1
    body = next(index for index in range(at, len(words)) if words[index].says == "AS") + 1
    return words[at].name, body
