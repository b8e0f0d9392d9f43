"""The verb `schema`: what has to be made in a database before locks can live there."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from locknut import urls
from locknut.cli import arguments
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import as_json


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of("schema", argv)
    statements = urls.schema(options.url)
    sys.stdout.write((as_json({"schema": statements}) if options.json else statements) + "\n")
    return Exit.OK
