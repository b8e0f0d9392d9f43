"""The browser of the tests."""

from tests.dashboard.browsing import browser

__all__ = ["browser"]
