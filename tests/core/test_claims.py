"""A claim is made in one step, past its own constructor: it has every field all the same."""

from __future__ import annotations

import locknut
from locknut.core.lock_request import LockOptions
from locknut.core.values import Claim, Mode


def test_a_claim_says_what_its_terms_say() -> None:
    options = LockOptions(
        ttl=5.0, fair=True, owner="me", mode=Mode.SHARED, permits=3, hand_over=False
    )
    with locknut.connect("memory:", label="here") as locks:
        client = locks._client
        claim = client.claim(client.request("x", options), client.runtime.caller(), waits=False)
    assert claim == Claim(
        key="locknut:x", id=claim.id, ttl=5.0, mode=Mode.SHARED, permits=3, fair=True, owner="me",
        who=client.runtime.caller().sign(), label="here", waits=False, writer=True,
    )  # fmt: skip
    assert len(claim) == len(Claim._fields)
    assert len(claim.id) == 32
    assert claim.who.endswith(" thread MainThread")


def test_a_claim_says_whether_its_wait_may_be_broken() -> None:
    with locknut.connect("memory:", deadlocks="raise") as locks:
        client = locks._client
        claim = client.claim(client.request("x", LockOptions()), client.runtime.caller())
        assert claim.who == "!" + client.runtime.caller().signed[1:]
