"""The engines and the gate for the handlers of real servers."""

from tests.contrib.starlette.served import gate, url

__all__ = ["gate", "url"]
