-- History on SQLite: a table of its own in the same file. :now is the clock of the file.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    number INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    written INTEGER NOT NULL,
    entry TEXT NOT NULL,
    UNIQUE (stream, number)
);

-- add
INSERT INTO {table} (stream, written, entry) VALUES (:stream, :now, :entry);

-- look
-- Up to which entry a stream is to be cut: this one, where it is longer than wanted; and the next in
-- the order of their names, if nobody has written to it for 30 days.
SELECT * FROM (
    SELECT stream, number FROM {table} WHERE stream = :stream
    ORDER BY number DESC LIMIT 1 OFFSET :kept)
UNION ALL SELECT stream, number FROM (
    SELECT stream, number, written FROM {table} WHERE stream = coalesce(
        (SELECT min(stream) FROM {table} WHERE stream > :stream), (SELECT min(stream) FROM {table}))
    ORDER BY number DESC LIMIT 1)
WHERE stream <> :stream AND written < :now - 2592000000000;

-- drop
DELETE FROM {table} WHERE number IN (
    SELECT number FROM {table} WHERE stream = :stream AND number <= :upto
    ORDER BY number LIMIT :limit);

-- read
SELECT now, written, entry FROM (SELECT :now AS now)
LEFT JOIN {table} ON stream = :stream AND written >= now - :back
ORDER BY number;
