"""The verb `doctor`: what makes locks unsafe or slow at an engine, for people and for CI."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from locknut import Finding, Severity, __version__
from locknut.cli import arguments, target
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import as_json, plain

if TYPE_CHECKING:
    from locknut.cli.arguments import Options

_WORDS = {
    Severity.OK: "ok",
    Severity.WARN: "WARN",
    Severity.FAIL: "FAIL",
    Severity.UNKNOWN: "unknown",
}
_LINE = 100


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code; errors are reported as for every verb."""
    options = arguments.of("doctor", argv)
    options.url = options.address or options.url
    with target.locks(options) as locks:
        found = locks.doctor(options.wait, ttl=options.ttl)
        backend, place = locks.backend, locks.place
    code = _code(found, options)
    if options.json:
        facts = {
            "backend": backend,
            "place": place,
            "locknut": __version__,
            "exit_code": int(code),
            "findings": [_facts(each, options) for each in found],
        }
        sys.stdout.write(as_json(facts) + "\n")
    else:
        shown = [each for each in found if not options.quiet or _counts(each, options)]
        sys.stdout.write("".join(_text(plain(place), shown, found, options)))
    return code


def _facts(finding: Finding, options: Options) -> dict[str, object]:
    return {**finding._asdict(), "ignored": finding.code in options.ignore}


def _counts(finding: Finding, options: Options) -> bool:
    """Whether somebody has to look at it."""
    return finding.severity is not Severity.OK and finding.code not in options.ignore


def _code(found: Iterable[Finding], options: Options) -> Exit:
    """That of an engine which cannot be used wins: nothing else says much then."""
    bad = {each.code: each.severity for each in found if _counts(each, options)}
    if bad.get("reachable") is Severity.FAIL:
        return Exit.UNAVAILABLE
    if bad.get("usable") is Severity.FAIL:
        return Exit.REFUSED
    if Severity.FAIL in bad.values() or (options.strict and bad):
        return Exit.BROKEN
    return Exit.OK


def _text(
    place: str, shown: Sequence[Finding], found: Sequence[Finding], options: Options
) -> Iterable[str]:
    if not options.quiet:
        yield f"{place}, Locknut {__version__}\n\n"
    width = max((len(each.code) for each in shown), default=0)
    for each in shown:
        yield _entry(each, width, ignored=each.code in options.ignore)
    if not options.quiet:
        counts = {word: sum(each.severity is it for each in found) for it, word in _WORDS.items()}
        said = ", ".join(f"{count} {word.lower()}" for word, count in counts.items())
        yield f"\n{len(found)} checks: {said}\n"


def _entry(finding: Finding, width: int, *, ignored: bool) -> str:
    """The verdict and the code on the left, what was found on the right, what to do below it."""
    word = (
        "ignored" if ignored and finding.severity is not Severity.OK else _WORDS[finding.severity]
    )
    left = f"  {word:<9}{finding.code:<{width}}  "
    lines = textwrap.wrap(plain(finding.found), max(40, _LINE - len(left)))
    if finding.advice:
        lines += textwrap.wrap(plain(finding.advice), max(40, _LINE - len(left)))
    if finding.advice and finding.page:
        lines.append(f"see {finding.page}")
    margin = "\n" + " " * len(left)
    return left + margin.join(lines) + "\n"
