"""Reads as much of PromQL as our dashboard and alert rules use, and refuses all the rest.

There is no Prometheus in the tests. What this reads is a valid expression; what it refuses may be
one too, and has to be added here first.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FUNCTIONS = {"rate": True, "increase": True, "min_over_time": True, "histogram_quantile": False}
"""Whether its last argument is a range."""
AGGREGATIONS = {"sum", "min", "max"}
OPERATORS = {"/", "*", "+", "-", ">", "<", ">=", "<=", "==", "!=", "unless", "and", "or"}
_PIECE = re.compile(
    r"""\s*(?:(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])"""
    r"""|(?P<text>"[^"]*")|(?P<duration>\d+[smhd]\b)|(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_:][\w:]*)"""
    r"""|(?P<mark>=~|!~|!=|==|>=|<=|[=<>(){},/*+-]))"""
)


class Selector(NamedTuple):
    """One metric that an expression asks for."""

    metric: str
    labels: tuple[str, ...]
    ranged: str = ""
    """How far it looks back from there, as `1h`; empty: it does not."""
    offset: str = ""
    """How long ago it looks."""


class Expression:
    """What was found while reading."""

    def __init__(self, text: str):
        self.selectors: list[Selector] = []
        self.grouped: list[str] = []
        """Labels that something is summed by."""
        self._pieces = list(_pieces(text))
        self._at = 0
        self._binary()
        if self._at != len(self._pieces):
            raise ValueError(f"more than an expression, at {self._next()!r}: {text}")

    def _next(self) -> str:
        return self._pieces[self._at][1] if self._at < len(self._pieces) else ""

    def _take(self, *wanted: str) -> str:
        found = self._next()
        if not found or (wanted and found not in wanted):
            raise ValueError(f"{found!r} where {wanted} should be")
        self._at += 1
        return found

    def _kind(self) -> str:
        return self._pieces[self._at][0] if self._at < len(self._pieces) else ""

    def _binary(self) -> None:
        self._operand()
        while self._next() in OPERATORS:
            self._take()
            self._operand()

    def _operand(self) -> None:
        if self._kind() == "number":
            self._take()
        elif self._next() == "(":
            self._take("(")
            self._binary()
            self._take(")")
        elif self._kind() != "name":
            raise ValueError(f"{self._next()!r} is not an operand")
        elif self._next() in AGGREGATIONS:
            self._aggregation()
        elif self._next() in FUNCTIONS:
            self._function()
        else:
            self._selector(ranged=False)

    def _aggregation(self) -> None:
        self._take(*AGGREGATIONS)
        if self._next() == "by":
            self._take("by")
            self.grouped += self._list()
        self._take("(")
        self._binary()
        self._take(")")

    def _function(self) -> None:
        ranged = FUNCTIONS[self._take()]
        self._take("(")
        if ranged:
            self._selector(ranged=True)
        else:
            self._binary()
            while self._next() == ",":
                self._take(",")
                self._binary()
        self._take(")")

    def _selector(self, *, ranged: bool) -> None:
        metric, labels = self._take(), []
        if self._next() == "{":
            self._take("{")
            while self._next() != "}":
                labels.append(self._take())
                self._take("=", "!=", "=~", "!~")
                if self._kind() != "text":
                    raise ValueError(f"{self._next()!r} is not a text")
                self._take()
                if self._next() == ",":
                    self._take(",")
            self._take("}")
        if (self._kind() == "range") is not ranged:
            raise ValueError(f"{metric}: a range is {'missing' if ranged else 'too much'}")
        length = self._take().strip("[]") if ranged else ""
        self.selectors.append(Selector(metric, tuple(labels), length, self._offset()))

    def _offset(self) -> str:
        if self._next() != "offset":
            return ""
        self._take("offset")
        if self._kind() != "duration":
            raise ValueError(f"{self._next()!r} is not a duration")
        return self._take()

    def _list(self) -> list[str]:
        self._take("(")
        names = [self._take()]
        while self._next() == ",":
            self._take(",")
            names.append(self._take())
        self._take(")")
        return names


def _pieces(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _PIECE.match(text, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"not PromQL, at {text[at:]!r}")
        found.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    return found
