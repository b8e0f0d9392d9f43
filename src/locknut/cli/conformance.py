"""The verb `conformance`: which rules of the contract hold at an engine, for people and for CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from locknut import Capability, __version__
from locknut.cli import arguments
from locknut.cli.exit_codes import Exit, of_signal
from locknut.cli.messages import as_json, plain, span
from locknut.errors import ConfigurationError
from locknut.testing.trial import Failure, Rule, Trial, Verdict, Wanted
from locknut.testing.trial.trial import NAMESPACE

if TYPE_CHECKING:
    from locknut.cli.arguments import Options

_WIDTH = 14
_LONGEST = 300
"""Characters of a reason: some servers repeat the whole command."""


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code; errors are reported as for every verb."""
    options = arguments.of("conformance", argv)
    url = options.address or options.url
    if url is None:
        raise ConfigurationError("which engine? give its URL: locknut conformance redis://host")
    began = time.monotonic()
    namespace = options.namespace or NAMESPACE
    trial = Trial(url, Wanted(options.only, options.colour, options.wait, namespace))
    report = _Report(trial, options)
    report.begin(namespace)
    trial.run(report.judged)
    report.end(time.monotonic() - began)
    return _code(trial)


def _code(trial: Trial) -> int:
    verdicts = {rule.verdict for rule in trial.rules}
    if Verdict.FAILS in verdicts:
        return Exit.BROKEN
    if trial.interrupted:
        return of_signal(2)
    return Exit.BUSY if Verdict.NOT_TRIED in verdicts else Exit.OK


def _reason(failure: Failure) -> str:
    """What happened, without the lock that it happened to."""
    said, bracket, rest = failure.message.rpartition(" [")
    return plain(_cut(said if bracket and rest.endswith("]") else failure.message))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class _Report:
    """What is printed while the rules are tried, and in the end."""

    def __init__(self, trial: Trial, options: Options):
        self._trial = trial
        self._json = options.json
        self._quiet = options.quiet
        self._verbose = options.verbose
        self._part = ""
        self._reasons: dict[str, int] = {}
        """Why rules failed, numbered as they came."""

    def begin(self, namespace: str) -> None:
        known = (self._trial.place, self._trial.server, f"Locknut {__version__}")
        self._say(", ".join(plain(each) for each in known if each))
        self._say(f"The suite keeps to namespaces that begin with {namespace}-.")

    def judged(self, rule: Rule) -> None:
        """One rule is judged: a line for it, and one for each way in which it failed."""
        fails = rule.verdict is Verdict.FAILS
        if rule.part != self._part and (fails or not self._quiet):
            self._part = rule.part
            self._line(f"\n{rule.part}")
        words = rule.verdict.value.upper() if fails else rule.verdict.value
        self._say(f"  {words:<{_WIDTH}}{rule.sentence}", always=fails)
        for reason, failures in groupby(rule.failures, key=_reason):
            self._explain(reason, list(failures))

    def _explain(self, reason: str, failures: list[Failure]) -> None:
        """In full where it is new: what is wrong with a server is often the same for many rules."""
        known = reason in self._reasons
        number = self._reasons.setdefault(reason, len(self._reasons) + 1)
        runs = ", ".join(dict.fromkeys(plain(each.run) for each in failures))
        more = "" if known else f": {reason}"
        self._line(f"  {'':<{_WIDTH}}{_cut(runs)}: reason {number}{more}")
        if self._verbose:
            self._line(failures[0].detail)

    def end(self, seconds: float) -> None:
        if self._json:
            sys.stdout.write(as_json(self._facts(seconds)) + "\n")
            return
        if not self._quiet and len(self._trial.rules) > 1:
            self._line("\ncapabilities")
            for capability in Capability:
                self._line(f"  {capability.value:<{_WIDTH}}{self._of(capability)}")
        for reason, number in self._reasons.items():
            rules = [rule for rule in self._trial.rules if reason in map(_reason, rule.failures)]
            self._line(f"\nreason {number}, in {len(rules)} rules: {reason}")
        self._line(f"\n{self._counts()}, in {span(seconds)}")
        if self._trial.left_behind:
            count = self._trial.left_behind
            self._line(f"{count} namespaces could not be cleared; their locks end with their ttl")
        self._line(self._conclusion())

    def _of(self, capability: Capability) -> str:
        if capability not in self._trial.capabilities:
            return "not declared"
        about = [rule for rule in self._trial.rules if capability.value in rule.needs]
        tried = [rule for rule in about if rule.verdict is not Verdict.NOT_TRIED]
        failed = sum(rule.verdict is Verdict.FAILS for rule in tried)
        if not about:
            return "declared; no rule that was chosen is about it"
        if failed:
            return f"FAILS in {failed} of {len(tried)} rules"
        return f"holds in {len(tried)} rules" if tried else "not tried"

    def _counts(self) -> str:
        verdicts = [rule.verdict for rule in self._trial.rules]
        named = {
            "hold": Verdict.HOLDS,
            "fail": Verdict.FAILS,
            "not declared": Verdict.NOT_DECLARED,
            "not tried": Verdict.NOT_TRIED,
        }
        counts = [f"{verdicts.count(each)} {word}" for word, each in named.items()]
        return f"{len(verdicts)} rules: {', '.join(counts)}"

    def _conclusion(self) -> str:
        verdicts = {rule.verdict for rule in self._trial.rules}
        if verdicts == {Verdict.FAILS} and len(self._trial.rules) == 1:
            return "Locknut does not work there, so the other rules were not tried."
        if Verdict.FAILS in verdicts:
            return "Locknut is not safe there: a rule that it relies on does not hold."
        if Verdict.NOT_TRIED in verdicts:
            return "Nothing failed, but not everything was tried: give it more time."
        return (
            "Every rule that was tried holds there. What the server does when it is killed, cut "
            "off or full was not tried."
        )

    def _facts(self, seconds: float) -> dict[str, object]:
        trial = self._trial
        return {
            "backend": trial.backend,
            "place": trial.place,
            "server": trial.server,
            "locknut": __version__,
            "holds": _code(trial) == Exit.OK,
            "seconds": round(seconds, 1),
            "left_behind": trial.left_behind,
            "capabilities": {each.value: self._of(each) for each in Capability},
            "rules": [rule.facts for rule in trial.rules],
        }

    def _say(self, line: str, *, always: bool = False) -> None:
        if always or not self._quiet:
            self._line(line)

    def _line(self, line: str) -> None:
        if not self._json:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
