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
        who="thread MainThread", label="here", waits=False, writer=True,
    )  # fmt: skip
    assert len(claim) == len(Claim._fields)
    assert len(claim.id) == 32
