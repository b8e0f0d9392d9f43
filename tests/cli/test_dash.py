"""`locknut dash` as a process: what it says, whom it lets in, what it shows, how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.harness import DEADLINE, SOURCE, Running, Shell

PASSPHRASE = "correct horse battery"


def started(shell: Shell, *words: str) -> tuple[Running, str]:
    running = shell.start("dash", "--port", "0", *words)
    said = running.error_line()
    assert said.startswith("locknut: http://"), said
    return running, said.split()[1].rstrip("/")


def fetched(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=DEADLINE) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def test_it_shows_the_locks_of_the_url_and_ends_by_a_signal(shell: Shell) -> None:
    running, url = started(shell)
    assert url.startswith("http://127.0.0.1:")
    assert fetched(f"{url}/backends")[1].count("aria-labelledby") == 1
    assert fetched(url, Host="evil.example")[0] == 421
    running.send(signal.SIGINT)
    code, _, rest = running.finish()
    assert (code, rest) == (130, "")


def test_several_engines_are_on_one_page(shell: Shell, tmp_path: Path) -> None:
    urls = tmp_path / "urls"
    urls.write_text(f"# with a password, say\nfile://{tmp_path}/third\n")
    words = [f"file://{tmp_path}/first", f"file://{tmp_path}/second", "--urls-file", str(urls)]
    _, url = started(shell, *words)
    page = fetched(f"{url}/backends")[1]
    assert all(f"{tmp_path}/{each}" in page for each in ("first", "second", "third"))


def test_a_passphrase_comes_from_a_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    file.write_text(f"{PASSPHRASE}\n")
    _, url = started(shell, "--token-file", str(file))
    assert "Log in" in fetched(url)[1]
    assert "Needs attention" in fetched(url, Authorization=f"Bearer {PASSPHRASE}")[1]


def test_breaking_asks_for_a_passphrase_that_is_printed(shell: Shell) -> None:
    running, url = started(shell, "--allow-break")
    passphrase = running.error_line().rpartition(": ")[2]
    assert len(passphrase) >= 16
    assert "Log in" in fetched(url)[1]
    assert "locks can be broken" in fetched(url, Authorization=f"Bearer {passphrase}")[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--host", "0.0.0.0"], 78, "--token-file"),
        (["--port", "70000"], 64, "a port is 0 to 65535"),
        (["-u", "memory:"], 78, "excludes nobody"),
        (["--urls-file", "/nowhere/at/all"], 77, "No such file"),
    ],
    ids=str,
)
def test_what_cannot_be_is_told_in_one_line(
    shell: Shell, words: list[str], code: int, said: str
) -> None:
    got, _, line = shell.start("dash", *words).finish()
    assert (got, line.count("\n")) == (code, 1)
    assert said in line


@pytest.mark.parametrize("option", ["--token-file", "--urls-file"])
def test_a_file_that_is_no_text_is_named_and_not_shown(
    shell: Shell, tmp_path: Path, option: str
) -> None:
    """As of a secret made by `head -c 32 /dev/urandom`, or of a URL in another encoding."""
    file = tmp_path / "secret"
    file.write_bytes(b"redis://:Gr\xf6ssenwahn-1789@localhost")
    got, _, line = shell.start("dash", option, str(file)).finish()
    assert (got, line) == (78, f"locknut: {file} is not a text in UTF-8\n")


def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_a_passphrase(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "passphrase"
    file.write_bytes(b"\xef\xbb\xbf" + PASSPHRASE.encode() + b"\r\n")
    _, url = started(shell, "--token-file", str(file))
    assert "Needs attention" in fetched(url, Authorization=f"Bearer {PASSPHRASE}")[1]


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    _, url = started(shell)
    code, _, said = shell.start("dash", "--port", url.rpartition(":")[2]).finish()
    assert code == 78
    assert "cannot listen at 127.0.0.1" in said


@pytest.mark.parametrize(
    ("verb", "module", "extra"), [("dash", "starlette", "dash"), ("top", "textual", "tui")]
)
def test_a_missing_package_is_named_with_its_extra(verb: str, module: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from locknut.cli import main; sys.exit(main([{verb!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": SOURCE, "LOCKNUT_URL": "file:", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78
    assert f'pip install "locknut[{extra}]"' in done.stderr


def test_the_library_says_so_too() -> None:
    program = (
        "import sys; sys.modules['starlette'] = None\n"
        "import locknut\n"
        "try:\n    from locknut.dashboard import Dashboard\n"
        "except locknut.ConfigurationError as error:\n    print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 'pip install "locknut[dash]"' in said
