"""How the statements of a dialect are read from a file, a further database's as well."""

from __future__ import annotations

from locknut.backends.sql.statements import Statements, read

PARTS = "create take extend give_back sweep leave read add swap scan beat living prune version"
BLOCK = """-- {change}
-- It is a word, and no statement: its semicolons stay.
UPDATE {table} SET stamp = 1;
    SUSPEND

-- take
-- One that is asked first;
SELECT 1 FROM {table};
EXECUTE BLOCK (k INTEGER = :key) AS
BEGIN
    -- Inside of it, they stay as well.
    IF (k = 1) THEN BEGIN {change}; END
    k = 2;
END;
SELECT 2 FROM {table}
"""


def _dialect(text: str) -> Statements:
    rest = "".join(
        f"-- {each}\nSELECT 0;\n" for each in PARTS.split() if f"-- {each}\n" not in text
    )
    return read(rest + text, '"locks"')


def test_a_block_of_the_databases_own_language_is_one_statement() -> None:
    first, block, last = _dialect(BLOCK).take
    assert (first, last) == ('SELECT 1 FROM "locks"', 'SELECT 2 FROM "locks"')
    assert block.splitlines() == [
        "EXECUTE BLOCK (k INTEGER = :key) AS",
        "BEGIN",
        '    IF (k = 1) THEN BEGIN UPDATE "locks" SET stamp = 1;',
        "    SUSPEND; END",
        "    k = 2;",
        "END",
    ]


def test_other_statements_end_at_their_semicolons() -> None:
    said = _dialect("-- take\nSELECT 1;\n-- A comment; with one.\n\nSELECT\n    2;\n;\n").take
    assert said == ("SELECT 1", "SELECT\n    2")
