"""Locks in FastAPI: a dependency that holds a lock for the function of the route.

    app = FastAPI(lifespan=lifespan("redis://cache.example.org"))

    @app.post("/orders/{order_id}/pay", dependencies=[locked("order:{order_id}")])
    async def pay(order_id: int): ...

The rest, and what happens on a loss, is that of `locknut.contrib.starlette`.
"""
# Annotations are no texts here: FastAPI reads them, and they name what only a closure has.

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Unpack

from locknut import ConfigurationError, aio
from locknut.contrib.disconnects import CancelOnDisconnect
from locknut.contrib.request_lock import RequestLock, Template, Words
from locknut.contrib.starlette import (
    answered,
    holding,
    idempotency_key,
    lifespan,
    locks_of,
    ready,
    runs_in_a_thread,
    streams,
    values_of,
)

try:
    import fastapi
    from fastapi import Depends, Request, params
    from pydantic import TypeAdapter, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import PydanticUndefined
except ImportError as error:
    message = 'FastAPI is not installed; get it with: pip install "locknut[fastapi]"'
    raise ImportError(message) from error
if [int(part) for part in fastapi.__version__.split(".")[:2]] < [0, 122]:
    # Before 0.121.1 it forgot the scope of a dependency of the route, and answered too early.
    message = f"locknut.contrib.fastapi needs FastAPI 0.122 or newer, not {fastapi.__version__}"
    raise ImportError(message)

__all__ = ["CancelOnDisconnect", "idempotency_key", "lifespan", "locked", "locks_of", "ready"]


def locked(key: str | Callable[..., Any], **words: Unpack[Words]) -> Any:
    """Return a dependency that holds a lock: `dependencies=[locked("order:{order_id}")]`.

    `key` is a template over path and query, or a dependency of your own that makes the name. As a
    parameter, `Annotated[aio.Lease, locked(...)]` gives the lease to the function. Others get
    `on_busy` with a Retry-After, at once or after `timeout`. The lock is free again when the client
    has the answer.
    """
    asked = RequestLock(**words).checked()
    naming = _from_template(Template(key)) if isinstance(key, str) else key

    async def hold(
        request: Request, name: Annotated[Any, Depends(naming)]
    ) -> AsyncIterator[aio.Lease | None]:
        endpoint = request.scope["endpoint"]
        if inspect.isgeneratorfunction(endpoint) or inspect.isasyncgenfunction(endpoint):
            raise ConfigurationError(streams(endpoint))
        threaded = runs_in_a_thread(endpoint)
        async with holding(locks_of(request), name, asked, threaded=threaded) as lease:
            yield lease

    return Depends(hold, scope="function")  # it ends before the answer is sent


def _from_template(template: Template) -> Callable[[Request], Any]:
    async def name(request: Request) -> str:
        values = values_of(request)
        for field in template.fields:
            parameter = _parameter(request.scope["endpoint"], field)
            if parameter is not None:
                parameter.see(values)
        with answered():
            return template.name(values)

    return name


class _Parameter(NamedTuple):
    """A parameter of the function that a template names."""

    field: str
    kind: TypeAdapter[Any]
    default: Any

    def see(self, values: dict[str, Any]) -> None:
        """Put in what the function gets: 7 for "007", else one order had several locks and a client
        could choose; and the default for what was left out.
        """
        if self.field in values:
            with suppress(ValidationError):  # FastAPI refuses the request itself
                values[self.field] = self.kind.validate_python(values[self.field])
        elif self.default is not PydanticUndefined:
            values[self.field] = self.default
        if isinstance(values.get(self.field), Enum):
            values[self.field] = values[self.field].value


@lru_cache(maxsize=1024)
def _parameter(endpoint: Callable[..., Any], field: str) -> _Parameter | None:
    """Return the parameter that clients know by this name, unless a dependency makes its value."""
    for each in inspect.signature(endpoint, eval_str=True).parameters.values():
        described = [*getattr(each.annotation, "__metadata__", ()), each.default]
        fields = [one for one in described if isinstance(one, FieldInfo)]
        names = [one.alias for one in fields if one.alias] or [each.name]
        if field not in names or any(isinstance(one, params.Depends) for one in described):
            continue
        if fields and each.default is fields[-1]:
            default = fields[-1].get_default(call_default_factory=True)
        else:
            default = PydanticUndefined if each.default is each.empty else each.default
        kind = Any if each.annotation is each.empty else each.annotation
        return _Parameter(field, TypeAdapter(kind), default)
    return None
