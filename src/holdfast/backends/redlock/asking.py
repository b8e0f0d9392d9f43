"""How the nodes are asked: all at once, until a majority has decided, and whose answer counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from hiredis import ReplyError

from holdfast.backends.redis import wire
from holdfast.backends.redlock import ballots
from holdfast.backends.redlock.ballots import VOTES, Round
from holdfast.backends.redlock.nodes import Set
from holdfast.backends.redlock.questions import Question
from holdfast.backends.redlock.recipe import Recipe, Words
from holdfast.errors import BackendUnavailable, HoldfastError
from holdfast.runtimes.clock import now

Heard = Callable[[Question, Any, float], bool]
"""Told an answer (or an error) and when it was asked; answers whether it is decided now."""
Until = Callable[[], float]
"""How long to wait for those who have not answered: less once a majority has."""
PATIENCE: Final = 2.0
"""Seconds that a majority may take to answer: a machine may be busy for a moment."""


class Asking(ABC):
    """What all verbs have in common. A colour adds how to send to all nodes."""

    name = "redlock"

    def __init__(self, nodes: Set, recipe: Recipe, limit: float):
        self._set = nodes
        self._recipe = recipe
        self.limit = limit
        self.max_ttl = recipe.max_ttl
        self.default_ttl: float | None = min(30.0, recipe.max_ttl)
        self._all = range(len(nodes.nodes))

    @abstractmethod
    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        """Send all of them together; return when `heard` says so, or at `until()`.

        What comes later is still told to `heard`, where somebody is there to hear it.
        """

    @abstractmethod
    def _eras(self) -> Sequence[object | None]:
        """The connection to each node, while there is one: on it everything arrives in order."""

    @abstractmethod
    def _tell(self, questions: Sequence[Question]) -> None:
        """Send behind what was sent before, and do not wait. Unanswered, it is a node's debt."""

    async def _round(
        self,
        words: Words,
        decided: Callable[[Round], bool],
        nodes: Sequence[int] | None = None,
        *,
        plain: bool = False,
    ) -> Round:
        asked = self._all if nodes is None else nodes
        answers = Round(asked, len(self._all))
        heard = self._hears(answers, decided, plain=plain)
        await self._ask([Question(at, words) for at in asked], heard, self._until(answers))
        return answers

    def _until(self, *rounds: Round) -> Until:
        began = now()

        def until() -> float:
            answered = all(len(each.answers) >= each.needed for each in rounds)
            return began + (self.limit if answered else PATIENCE)

        return until

    def _hears(
        self, answers: Round, decided: Callable[[Round], bool], *, plain: bool = False
    ) -> Heard:
        """Fills a round. Unless it is plain, a vote of a node with a wrong clock does not count."""

        def heard(question: Question, answer: Any, sent: float) -> bool:
            at = question.node
            if isinstance(answer, ReplyError):
                answer = wire.failed(answer)
            if isinstance(answer, BaseException):
                answers.failures[at] = answer
            elif plain:
                answers.answers[at] = answer
            else:
                what, number, clock = answer
                believed = self._set.heard(at, clock, sent, now(), self.max_ttl)
                if not believed and what in VOTES:
                    what = ballots.NOT_COUNTED
                answers.answers[at] = (what, number)
            return decided(answers)

        return heard

    def _too_few(self, answers: Round) -> HoldfastError:
        """Why a majority could not be had, node by node."""
        for error in answers.failures.values():
            if isinstance(error, HoldfastError) and not isinstance(error, BackendUnavailable):
                return error
        told = []
        for node in self._set.nodes:
            place, at = node.name, node.at
            if at in answers.failures:
                told.append(f"{place}: {answers.failures[at]}")
            elif at in answers.out or at not in answers.asked:
                told.append(f"{place}: no answer")
            elif answers.answers[at][0] == ballots.QUARANTINED:
                left = answers.answers[at][1] / 1000
                told.append(
                    f"{place}: it lost its data or is new, and gives no vote for {left:.0f} s "
                    "(`holdfast redlock init` for new nodes)"
                )
            elif answers.answers[at][0] == ballots.NOT_COUNTED:
                told.append(f"{place}: its clock is wrong, or was set")
            else:
                told.append(f"{place}: {answers.answers[at]}")
        message = f"no majority of {len(self._all)} nodes: {'; '.join(told)}"
        return BackendUnavailable(message, backend=self.name)
