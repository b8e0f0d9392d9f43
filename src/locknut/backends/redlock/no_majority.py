"""The errors for a missing majority, and for clients that do not agree about the set."""

from __future__ import annotations

from typing import Final

from locknut.backends.redlock.ballots import (
    NOT_COUNTED,
    OTHER_SET,
    QUARANTINED,
    UNSURE,
    Round,
    other_holders,
)
from locknut.backends.redlock.nodes import NodeSet, in_words
from locknut.backends.redlock.recipe import GUARD
from locknut.errors import BackendUnavailable, ConfigurationError, LocknutError

_NAME: Final = "redlock"


def too_few(nodes: NodeSet, answers: Round) -> LocknutError:
    """Why there was no majority, node by node."""
    for error in answers.failures.values():
        if isinstance(error, LocknutError) and not isinstance(error, BackendUnavailable):
            return error
    lines = []
    for node in nodes.nodes:
        place, at = node.name, node.at
        if at in answers.failures:
            lines.append(f"{place}: {in_words(answers.failures[at])}")
        elif at in answers.unanswered or at not in answers.asked:
            lines.append(f"{place}: no answer")
        elif answers.answers[at][0] == QUARANTINED:
            left = answers.answers[at][1] / 1000
            lines.append(f"{place}: it is new or lost its data, and does not vote for {left:.0f} s")
        elif answers.answers[at][0] == NOT_COUNTED:
            lines.append(f"{place}: its clock is wrong, or was set")
        elif answers.answers[at][0] == UNSURE:
            lines.append(f"{place}: it answers too slowly to know its clock")
        else:
            lines.append(f"{place}: it answered")
    message = f"no majority of {len(nodes.nodes)} nodes: {'; '.join(lines)}"
    if answers.said(QUARANTINED):
        message += (
            " (if this set is new and nobody holds a lock in it, do not wait: "
            "`locknut redlock init -u URL` once, or locknut.redlock.begin(url))"
        )
    return BackendUnavailable(message, backend=_NAME)


def not_attached(nodes: NodeSet, taken: Round, max_ttl: float) -> LocknutError | None:
    """Why it is not known what became of a detached hold; None if it is certainly gone.

    When several clients attach it at once, none of them may get a majority: all give it back, and
    try again after a random delay.
    """
    if differences := nodes.differences():
        return differs(*differences[0], max_ttl)
    others = other_holders(taken)
    if max(others.values(), default=0) >= taken.needed:
        return None
    if taken.said(QUARANTINED):
        return too_few(nodes, taken)
    if not taken.said(1) and len(others) == 1:
        return None
    message = "somebody else is attaching the same text at this moment"
    return BackendUnavailable(message, backend=_NAME)


def differs(what: int, number: int, max_ttl: float) -> ConfigurationError:
    """Other clients of a node use other settings: then majorities need not overlap, or a node that
    restarts does not know how long it must not vote.
    """
    if what == OTHER_SET:
        message = (
            "other clients of these nodes use another list of nodes: two majorities might have "
            "no node in common; give all clients the same list, or, where they know the same "
            "nodes by different addresses, the same set_name=; if the list was changed on "
            "purpose, see `locknut redlock init --help`"
        )
    else:
        message = (
            f"other clients of these nodes use max_ttl={number / 1000 - GUARD:g}, this one "
            f"{max_ttl:g}: a node that restarts could not know how long it must not vote; "
            "give all clients the same max_ttl"
        )
    return ConfigurationError(message, backend=_NAME)
