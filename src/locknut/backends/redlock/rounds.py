"""How a round of questions goes: all nodes at once, until a majority has decided.

It ends when `decided` says so (see `ballots`); or when every node has answered or failed; or when
its time is over, which is short once a majority has answered and longer before. In a guarded round
a vote counts only if the node's clock is right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from hiredis import ReplyError

from locknut.backends.redlock import ballots
from locknut.backends.redlock.ballots import VOTES, Round
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question, Words
from locknut.backends.redlock.recipe import Recipe
from locknut.core.ports import Runtime
from locknut.drivers.redis import wire
from locknut.errors import BackendUnavailable
from locknut.runtimes.deadlines import time_left

Heard = Callable[[Question, Any, float], bool]
"""Called with an answer (or an error) and its time of sending; returns whether that decides it."""
OnAnswer = Callable[[int, Sequence[int]], None]
"""Called with each node's answer, whether it comes in time or late."""
Until = Callable[[], float]
"""Until when to wait for the silent nodes: less long once a majority has answered."""
PATIENCE: Final = 2.0
"""Seconds that a majority may take to answer: a machine may be busy for a moment. A node that was
silent for this long in total is not waited for again until it has answered."""
TRYING: Final = 0.6
"""The same for votes, so that a non-blocking attempt ends within a second and can name the silent
nodes. A caller with more time asks again."""


def _ignored(_node: int, _answer: Sequence[int]) -> None:
    """Nothing in the answer is needed by a later round."""


class RoundsBackend(ABC):
    """What all verbs have in common. Each colour adds how to send to all nodes."""

    name = "redlock"

    def __init__(self, nodes: NodeSet, recipe: Recipe, limit: float, runtime: Runtime):
        self.now = runtime.now
        self.chance = runtime.random
        self._set = nodes
        self._recipe = recipe
        self.limit = limit
        self.max_ttl = recipe.max_ttl
        self.default_ttl: float | None = min(30.0, recipe.max_ttl)
        self._all = range(len(nodes.nodes))

    @abstractmethod
    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        """Send all of them together. Return when `heard` says so, or at `until()`.

        `heard` is still called with later answers, if anybody reads them.
        """

    @abstractmethod
    def _tell(self, questions: Sequence[Question]) -> None:
        """Send after what was sent before, and do not wait. Unanswered, it is a node's debt."""

    async def _round(  # noqa: PLR0913  # each by name
        self,
        words: Words,
        decided: Callable[[Round], bool],
        nodes: Sequence[int] | None = None,
        *,
        plain: bool = False,
        guarded: bool = True,
        on_answer: OnAnswer = _ignored,
        patience: float = PATIENCE,
    ) -> Round:
        asked = self._all if nodes is None else nodes
        answers = Round(asked, len(self._all))
        heard = self._hears(answers, decided, plain=plain, guarded=guarded, on_answer=on_answer)
        questions = [Question(at, words) for at in asked]
        await self._ask(questions, heard, self._until(answers, patience=patience))
        if guarded and not plain and not answers.decided:
            self._doubt(answers)
        return answers

    def _until(self, *rounds: Round, patience: float = PATIENCE) -> Until:
        began = self.now()
        try:
            most = began + time_left(patience)
        except TimeoutError as error:
            raise BackendUnavailable(str(error), backend=self.name) from error

        def until() -> float:
            first = next((each for each in rounds if len(each.answers) < each.needed), None)
            if first is None or self._set.silent(first):
                return min(most, began + self.limit)
            if self.now() >= most:
                self._set.waited_in_vain(first.unanswered, most - began, PATIENCE)
            return most

        return until

    def _hears(
        self,
        answers: Round,
        decided: Callable[[Round], bool],
        *,
        plain: bool = False,
        guarded: bool = True,
        on_answer: OnAnswer = _ignored,
    ) -> Heard:
        """Return what fills a round. In a guarded round a vote of a node with a wrong clock does
        not count. That is known only when other nodes have answered, so it is checked when all
        seems decided.
        """
        # Fewer answers than this can decide nothing, whatever they are.
        soonest = max(1, min(answers.needed, len(answers.asked) - answers.needed + 1))

        def heard(question: Question, answer: Any, sent: float) -> bool:
            at = question.node
            if type(answer) is list and not plain:
                self._set.heard(at, answer.pop(2), sent, self.now())
                answers.answers[at] = answer
                on_answer(at, answer)
            elif isinstance(answer, ReplyError):
                answers.failures[at] = wire.failed(answer)
            elif isinstance(answer, BaseException):
                answers.failures[at] = answer
            else:
                answers.answers[at] = answer
            if answers.decided:  # this one came late: it is only noted
                return True
            if len(answers.answers) + len(answers.failures) < soonest or not decided(answers):
                return False
            answers.decided = plain or not guarded or self._stands(answers, decided)
            return answers.decided

        return heard

    def _stands(self, answers: Round, decided: Callable[[Round], bool]) -> bool:
        """Whether it is decided even without the votes of nodes whose clocks are wrong. A clock
        that is not known yet may be known when the others have answered.
        """
        voters = answers.said(*VOTES)
        if self._set.in_step(voters):
            return True
        doubts = {at: self._set.doubts(at) for at in voters}
        unsure = [at for at, instead in doubts.items() if instead == ballots.UNSURE]
        if unsure and answers.unanswered and not decided(answers.without(unsure)):
            return False
        self._doubt(answers)
        return decided(answers)

    def _doubt(self, answers: Round) -> None:
        """Take away the votes of nodes whose clocks are wrong or not known."""
        voters = answers.said(*VOTES)
        if self._set.in_step(voters):
            return
        for at in voters:
            instead = self._set.doubts(at)
            if instead:
                answers.answers[at] = (instead, answers.answers[at][1])
