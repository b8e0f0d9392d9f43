"""What others are shown of the command that `locknut run` runs: its title.

The title travels in the label of the holder, behind a dollar sign, as in a shell's prompt:
`deploy $ pg_dump orders`. Every engine stores labels, and every message that names a holder shows
its label, so that users of the library see the title too.

A command line may hold a secret, and the engine may be readable by people who cannot read the
process list of this machine. What looks like a password is masked; `--title` replaces the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 80
"""Characters of a title."""
NOTHING = "-"
"""The title that shows nothing."""
_SIGN = " $ "
_MASK = "***"
_SECRET = ("passw", "passphrase", "secret", "token", "apikey", "credential", "pwd")


def label(owner: str, title: str) -> str:
    """The label of a holder that runs a command with this title."""
    return f"{owner}{_SIGN}{title}" if title else owner


def split(label: str) -> tuple[str, str]:
    """The owner and the title of a label; the title is empty if the label has none."""
    owner, _, title = label.partition(_SIGN)
    return owner, title


def of_command(words: Sequence[str]) -> str:
    """The command on one line, without what looks like a secret, cut to a bound."""
    shown: list[str] = []
    mask_next = False
    for word in " ".join(words).split():
        shown.append(_MASK if mask_next else _masked(word))
        mask_next = word.startswith("-") and "=" not in word and _names_secret(word)
    return _cut(" ".join(shown))


def of_text(text: str) -> str:
    """The title that the user gave."""
    return "" if text == NOTHING else _cut(" ".join(text.split()))


def _masked(word: str) -> str:
    name, equals, _ = word.partition("=")
    if equals and _names_secret(name):
        return f"{name}={_MASK}"
    scheme, slashes, rest = word.partition("://")
    if slashes:
        login, at, host = rest.rpartition("@")  # a password may have a / in it
        user, colon, _ = login.partition(":")
        if at and colon:
            return f"{scheme}://{user}:{_MASK}@{host}"
    return word


def _names_secret(name: str) -> bool:
    bare = name.lower().replace("-", "").replace("_", "")
    return any(each in bare for each in _SECRET)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
