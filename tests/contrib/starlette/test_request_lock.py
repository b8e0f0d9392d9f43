"""Wrong words are refused where a handler is decorated, by every framework in the same way."""

from __future__ import annotations

from typing import Any

import pytest

from locknut import ConfigurationError
from locknut.contrib.request_lock import Refusal, RequestLock, Template, idempotency_name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"on_busy": 200}, "on_busy must be 409 or 423, got 200"),
        ({"retry_after": 0.5}, "retry_after must be whole seconds"),
        ({"retry_after": -1}, "retry_after must be whole seconds"),
        ({"timeout": "soon"}, "timeout"),
        ({"ttl": -1}, "ttl"),
        ({"max_hold": 0}, "max_hold"),
    ],
)
def test_wrong_words_are_refused(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RequestLock(**words).checked()


@pytest.mark.parametrize("template", ["order:{", "order:{}", "order:{a.b}", "order:{a[0]}", ""])
def test_wrong_templates_are_refused(template: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a valid template"):
        Template(template)


def test_a_template_is_filled_from_the_request() -> None:
    template = Template("order:{order_id}:{step:>3}")
    assert template.fields == ["order_id", "step"]
    assert template.name({"order_id": 7, "step": "2", "more": ""}) == "order:7:  2"
    with pytest.raises(Refusal, match="'step' is neither in the path nor in the query") as refused:
        template.name({"order_id": 7})
    assert refused.value.status == 400


def test_an_idempotency_key_belongs_to_its_path() -> None:
    assert idempotency_name("/pay", "1") != idempotency_name("/refund", "1")
    for missing in (None, ""):
        with pytest.raises(Refusal, match="Idempotency-Key is missing"):
            idempotency_name("/pay", missing)
