"""The verb `redlock`: which nodes of a set vote, and how a new set begins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut import redlock
from locknut.cli import arguments
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import Messenger, as_json, span
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from locknut.cli.arguments import Options
    from locknut.redlock import NodeInfo

_WARNING = (
    "{which} will vote from now on. That is right for nodes that are new, or that nobody has used "
    "for max_ttl. If somebody may hold a lock there, wait instead: then they vote by themselves."
)
_FORCED = (
    " Clients with another max_ttl or another list of nodes are refused from now on: stop them "
    "max_ttl before."
)


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of("redlock", argv)
    messenger = Messenger(quiet=options.quiet, verbose=options.verbose, as_json=options.json)
    failed: BackendUnavailable | None = None
    if options.name == "init":
        if not _agreed(options):
            messenger.error("not_begun", "nothing was changed (--yes where nobody can be asked)")
            return Exit.USAGE
        try:
            redlock.begin(options.url, node=options.node, force=options.force)
        except BackendUnavailable as error:  # what became of all of them is shown below
            failed = error
    found = redlock.nodes(options.url)
    facts = [each._asdict() for each in found]
    sys.stdout.write((as_json(facts) if options.json else _table(found)) + "\n")
    if failed is not None:
        raise failed
    voting = sum(each.votes_in == 0 and not each.problem for each in found)
    return Exit.OK if voting > len(found) // 2 else Exit.UNAVAILABLE


def _agreed(options: Options) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        return False
    warning = _WARNING.format(which=options.node or "All nodes") + _FORCED * options.force
    sys.stderr.write(f"{warning}\nBegin? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _table(found: Sequence[NodeInfo]) -> str:
    rows = [("NODE", "VOTES", "CLOCK", ""), *(_row(each) for each in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    lines = []
    for *cells, problem in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append("  ".join([*padded, problem]).rstrip())
    return "\n".join(lines)


def _row(node: NodeInfo) -> tuple[str, str, str, str]:
    votes = "no"
    if node.votes_in == 0 and not node.problem:
        votes = "yes"
    elif node.votes_in:
        votes = f"in {span(node.votes_in)}"
    clock = "-" if node.clock_ahead is None else f"{node.clock_ahead * 1000:+.0f} ms"
    return node.place, votes, clock, node.problem
