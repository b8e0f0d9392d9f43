"""The conformance suite against any URL: which of its rules hold there.

`locknut conformance` prints what a `Trial` finds. The suite itself, `locknut.testing.conformance`,
is not imported here: pytest has to be told first that it shall explain the assertions there.
"""

from __future__ import annotations

from locknut.testing.trial.rules import Failure, Rule, Verdict
from locknut.testing.trial.trial import Trial, Wanted

__all__ = ["Failure", "Rule", "Trial", "Verdict", "Wanted"]
