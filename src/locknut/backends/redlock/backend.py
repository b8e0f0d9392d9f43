"""The verbs of Redlock, the same in both colours: ask all nodes at once, a majority decides.

What the votes of an attempt come to (`ballots` says what each node may answer):

1. A majority voted and accepted the number: granted. Late votes of the others are kept (L2).
2. A majority voted, but some know a larger number: the voters are asked to take a higher one (S2).
3. A majority knows the hold of the same owner by one number: the co-owner joins with that number.
4. There are votes, but no majority: they are given back, and every client asks again after a random
   delay.
5. There are no votes because somebody holds the lock: we ask again when the hold has run out on a
   majority, or when the nodes ring.
6. Too few nodes say who holds it, or a node has other settings: the attempt fails with an error.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from locknut.backends.redlock import ballots
from locknut.backends.redlock.ballots import UNSURE, VOTES, Ballot, Round, late_ones, missed
from locknut.backends.redlock.debts import RepayingBackend
from locknut.backends.redlock.majority_view import InspectingBackend
from locknut.backends.redlock.no_majority import differs, not_attached, too_few
from locknut.backends.redlock.node_rings import RedlockWatch, WaitingClaim
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.quarantine import watch_questions
from locknut.backends.redlock.questions import UNSAID, Packed, Question, Route, Words
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.rounds import TRYING
from locknut.core.base import BaseBackend
from locknut.core.ports import Runtime, Signal
from locknut.core.values import Answer, Broken, Busy, Capability, Claim, Granted, Notice, Renewal
from locknut.errors import BackendUnavailable

CAPABILITIES: Final = frozenset(Capability) - {
    Capability.FAIR,
    Capability.PERMITS,
    Capability.SESSION,
    Capability.DURABLE,
    Capability.NO_EVICTION,
    Capability.HISTORY,
}
_SPLIT: Final = 0.005
_SPLITS: Final = 7
"""After a split vote every client asks again after a random delay, whose upper bound starts at
twice `_SPLIT` seconds and doubles up to `_SPLITS` times."""
_BATCH: Final = 500
_ROUNDS: Final = 3
"""How many numbers are proposed to the voters: one is enough, unless voters fail or late ones know
a larger one."""


class RedlockBackend(InspectingBackend, RepayingBackend, BaseBackend):
    """Each colour adds how to send to all nodes, and how to be rung by them."""

    name = "redlock"
    capabilities = CAPABILITIES
    default_ttl: float | None = 30.0
    min_ttl = 2.0
    passes_notes = True
    closed = False
    """Whether only claims that waited are still withdrawn, by their own callers."""

    def __init__(self, nodes: NodeSet, recipe: Recipe, limit: float, runtime: Runtime):
        super().__init__(nodes, recipe, limit, runtime)
        self._waiting: dict[str, WaitingClaim] = {}

    @abstractmethod
    def _signal(self, waiting: WaitingClaim, plain: Signal) -> Signal:
        """What a waiting caller sleeps on."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        ballot = self._set.ballots.get(claim.id)
        if ballot is None:
            ballot = self._set.ballots[claim.id] = Ballot(time.time_ns() // 1000)
        number = ballot.raw or self._set.propose(time.time_ns() // 32_000)  # again: the same
        waiting = self._waiting.get(claim.id)
        ring = b"" if waiting is None else waiting.channel()
        ballot.tries += 1
        words = self._voting(claim, ballot, number, ring)
        decided = ballots.decided if ballot.raw is None else ballots.decided_again
        waited_for = set(self._set.quarantined)
        votes = await self._vote(words, decided)
        differences = self._set.differences()
        if not (votes.enough(*VOTES) or differences) and (
            # The connections are open now, so an answer is faster and tells more about a clock.
            votes.enough(*VOTES, UNSURE)
            # We did not know yet that these are in quarantine and need the time from us.
            or not waited_for.issuperset(votes.said(ballots.QUARANTINED))
        ):
            ballot.attempted(votes)
            votes = await self._vote(words, decided)
        ballot.attempted(votes)
        differences = self._set.differences()
        raw = None if differences else await self._number(claim, votes, number)
        if raw is not None:
            ballot.raw, ballot.splits = raw, 0
            self._waiting.pop(claim.id, None)
            return Granted(raw)
        self._give_back(claim, ballot, votes, stay=bool(ring))
        if differences:
            raise differs(*differences[0], self.max_ttl)
        return self._refused(ballot, votes)

    async def _vote(self, words: Words, decided: Callable[[Round], bool]) -> Round:
        self._watch_quarantined()
        return await self._round(words, decided, on_answer=self._set.voted, patience=TRYING)

    def _watch_quarantined(self) -> None:
        if self._set.quarantined:
            self._tell(watch_questions(self._set, self._recipe))

    def _voting(self, claim: Claim, ballot: Ballot, number: int, ring: bytes) -> Words:
        vote = self._recipe.vote(claim, number, ballot.since, ring, ballot.tries)
        under_way = self._set.ballots

        def words(route: Route) -> Packed:
            ballot.goes_by(route)
            return vote(route) if claim.id in under_way else UNSAID

        return words

    async def _number(self, claim: Claim, votes: Round, number: int) -> int | None:
        """The number that a majority accepted; None without a majority of votes."""
        if votes.enough(ballots.VOTED):
            self._set.seen(number)
            return number
        joined = ballots.joined_number(votes)
        # A co-owner takes the hold's number, or waits until it has one: it never makes its own.
        if joined is not None or votes.said(ballots.JOINED) or not votes.enough(*VOTES):
            return joined
        # A node whose vote is under way gets this after it, or it would report another number.
        voters = [*votes.said(*VOTES), *votes.unanswered]
        for _ in range(_ROUNDS):
            self._set.seen(votes.largest())
            number = self._set.propose(0)
            words = self._recipe.raise_to(claim, number)
            votes = await self._round(words, ballots.agreed, voters, patience=TRYING)
            if votes.enough(1):
                self._set.seen(number)
                return number
            if not votes.enough(1, 2):  # too few nodes still have our vote
                break
        self._set.seen(votes.largest())
        return None

    def _give_back(self, claim: Claim, ballot: Ballot, votes: Round, *, stay: bool) -> None:
        """Take back the votes of this try, also from nodes that did not answer and may have voted.

        The claim lives on, so it leaves no tombstone yet: its release does, where a vote may still
        arrive. This command itself may come late: it carries the count of tries, so that it takes
        nothing away from the next try.
        """
        late = late_ones(votes)
        ballot.doubt(late)
        words = self._recipe.withdraw(claim, outcome_unknown=False, stay=stay, tries=ballot.tries)
        for at in late.union(votes.said(*VOTES, ballots.NOT_COUNTED, UNSURE)):
            self._tell([Question(at, words)])

    def _refused(self, ballot: Ballot, votes: Round) -> Busy:
        """When to ask again, or an error if that is of no use."""
        if not votes.enough(*ballots.KNOW_THE_HOLDER):
            raise too_few(self._set, votes)
        if votes.said(*VOTES, UNSURE):
            ballot.splits = min(ballot.splits + 1, _SPLITS)
            return Busy(self.chance() * _SPLIT * 2**ballot.splits)
        self._learn(votes)
        waits = sorted(votes.answers[at][1] for at in votes.said(ballots.HELD_BY_ANOTHER))
        return Busy(waits[min(len(waits), votes.needed) - 1] / 1000 if waits else 1.0)

    def _learn(self, votes: Round) -> None:
        """Note the number to beat when our turn comes. The number of a node with a wrong clock is
        ignored: the others may refuse it as absurd.
        """
        for at in votes.said(ballots.HELD_BY_ANOTHER):
            if not self._set.doubts(at):
                self._set.seen(max(votes.answers[at][2:], default=0))

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self._waiting.pop(claim.id, None)
        ballot = self._set.ballots.pop(claim.id, None)  # first: a vote that waits is not sent now
        self._set.attaching.discard(claim.id)
        ended = Round(self._all, len(self._all))
        # After `close` nobody repays a debt: a node that is slower than the others is waited for.
        decided = ballots.answered_by_all if self.closed else ballots.ended
        heard = self._hears(ended, decided, guarded=False)
        if ballot is None or outcome_unknown:
            words = self._recipe.withdraw(claim, outcome_unknown=True)
        else:
            words = self._ending(claim, ballot)
        questions = [Question(at, words, owed=claim) for at in self._all]
        await self._ask(questions, heard, self._until(ended))
        if len(ended.answers) < ended.needed:
            raise too_few(self._set, ended)
        return not missed(ended)

    def _ending(self, claim: Claim, ballot: Ballot) -> Words:
        """The release, with a tombstone where a vote may still arrive. None is needed where every
        command was answered, nor where the release goes by the connection that all of them went by.
        That is decided when it is sent, because a connection may break until then.
        """
        late = ballot.unsettled()
        plain = self._recipe.withdraw(claim, outcome_unknown=False)

        def words(route: Route) -> Packed:
            if route.node not in late or ballot.went_by(route):
                return plain(route)
            return self._recipe.withdraw(claim, outcome_unknown=True)(route)

        return words

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        answers: list[Notice] = []
        for start in range(0, len(claims), _BATCH):
            answers += await self._renew(claims[start : start + _BATCH], None)
        return answers

    async def _renew(self, claims: Sequence[Claim], detached_for: float | None) -> list[Notice]:
        rounds = [Round(self._all, len(self._all)) for _ in claims]
        questions = []
        for about, claim in enumerate(claims):
            ballot = self._set.ballots.get(claim.id)
            missing = set() if ballot is None else ballot.missing()  # set anew, not counted (L2)
            raw = ballot.raw or 0 if ballot else 0
            words = self._recipe.extend(claim, raw, anew=False, detached_for=detached_for)
            mend = self._recipe.extend(claim, raw, anew=True, detached_for=detached_for)
            if ballot is not None:
                ballot.mended |= missing
            questions += [Question(at, mend if at in missing else words, about) for at in self._all]
        self._watch_quarantined()
        # A node that still has the key never dropped it, whatever its clock did.
        hears = [
            self._hears(each, ballots.renewed, guarded=False, on_answer=self._set.voted)
            for each in rounds
        ]
        decided: set[int] = set()

        def heard(question: Question, answer: Any, sent: float) -> bool:
            if hears[question.about](question, answer, sent):
                decided.add(question.about)
            return len(decided) == len(rounds)

        await self._ask(questions, heard, self._until(*rounds))
        for claim, each in zip(claims, rounds, strict=True):
            ballot = self._set.ballots.get(claim.id)
            if ballot is not None:
                ballot.renewal = each
        return [_renewal(each) for each in rounds]

    async def detach(self, claim: Claim, ttl: float) -> bool:
        (kept,) = await self._renew([claim], min(ttl, self.max_ttl))
        if kept is Renewal.UNKNOWN:
            raise BackendUnavailable(
                "fewer than a majority of the nodes answered", backend=self.name
            )
        self._set.ballots.pop(claim.id, None)  # the lease that attaches it gets its own
        return kept is Renewal.HELD

    async def downgrade(self, claim: Claim) -> bool:
        kept = await self._round(self._recipe.downgrade(claim), ballots.ended, guarded=False)
        if len(kept.answers) < kept.needed:
            raise too_few(self._set, kept)
        return not missed(kept)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        attaching = self._set.attaching
        attaching.add(claim.id)
        self._watch_quarantined()
        words = self._recipe.attach(detached, claim)
        taken = await self._round(words, ballots.attached, on_answer=self._set.voted)
        if len(taken.answers) < taken.needed:
            raise too_few(self._set, taken)
        raws = [taken.answers[at][1] for at in taken.said(1)]
        wanted = claim.id in attaching  # if not, it was released meanwhile, which leaves tombstones
        attaching.discard(claim.id)
        if not taken.enough(1):
            back = self._recipe.attach(claim, detached, back=True)
            self._tell([Question(at, back) for at in taken.asked])
            if why := not_attached(self._set, taken, self.max_ttl):
                raise why
            return None
        ballot = Ballot(time.time_ns() // 1000)
        ballot.raw = max(raws)
        ballot.attempted(taken)  # a late answer may come after the release
        if wanted:
            self._set.ballots[claim.id] = ballot
        return Granted(ballot.raw)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        waiting = self._waiting[claim.id] = WaitingClaim(claim.id, len(self._all))
        return RedlockWatch(waiting, self._signal(waiting, signal()))

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def forked(self) -> None:
        """In a forked child: forget the parent's connections, without a word to the nodes."""


def _renewal(answers: Round) -> Notice:
    """Lost only if that is known, with the reason if any node knows it."""
    if answers.enough(1):
        return Renewal.HELD
    if not missed(answers):
        return Renewal.UNKNOWN
    notes = (answers.answers[at][1] for at in answers.said(0))
    note = next((each for each in notes if isinstance(each, bytes)), None)
    return Renewal.LOST if note is None else Broken(note.decode(errors="replace"))
