"""A rule of the contract, and what became of it: one test of the suite, in all its colours."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple


class Verdict(enum.Enum):
    """What a rule came to."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_DECLARED = "not declared"
    NOT_TRIED = "not tried"
    """The time was over."""


class Failure(NamedTuple):
    """What happened in one run of a rule."""

    run: str
    """The colour, and what else was varied."""
    message: str
    """The first sentence of it."""
    detail: str
    """All that the test framework says."""


class Rule:
    """One rule. It is judged when all of its runs are over."""

    def __init__(self, part: str, sentence: str, needs: tuple[str, ...]):
        self.part = part
        self.sentence = sentence
        self.needs = needs
        """The capabilities that it is about."""
        self.to_come = 0
        """Runs that are not over yet."""
        self.failures: list[Failure] = []
        self.skipped = ""
        """Why the engine need not keep it."""

    @property
    def verdict(self) -> Verdict:
        if self.failures:
            return Verdict.FAILS
        if self.to_come:
            return Verdict.NOT_TRIED
        return Verdict.NOT_DECLARED if self.skipped else Verdict.HOLDS

    @property
    def facts(self) -> dict[str, object]:
        """The rule for programs."""
        return {
            "part": self.part,
            "rule": self.sentence,
            "needs": list(self.needs),
            "verdict": self.verdict.value,
            "failures": [{"run": each.run, "message": each.message} for each in self.failures],
        }


def spelled(name: str) -> str:
    """`LeaseLossOnALoop` and `test_raw_numbers_grow`, in words."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("test_"))
    return words.replace("_", " ").lower()


def first_words(message: str) -> str:
    """The part of an error's text that people read, on one line: what is behind it is detail."""
    line = next((each for each in message.splitlines() if each.strip()), "no reason given")
    error, colon, rest = line.partition(": ")
    short = error.rpartition(".")[2] if colon and " " not in error else error
    return f"{short}{colon}{rest}".strip()
