-- History on PostgreSQL: a table of its own, so that no lock ever meets what is written here.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    stream text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    written bigint NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (stream, number)
);

-- {clock}
(extract(epoch FROM statement_timestamp()) * 1000000)::bigint

-- add
-- Nobody's lock depends on it, so it does not wait for the disk.
INSERT INTO {table} (stream, written, entry)
SELECT :stream, {clock}, :entry
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick;

-- look
-- Up to which entry a stream is to be cut: this one, where it is longer than wanted; and the next in
-- the order of their names, if nobody has written to it for 30 days.
SELECT * FROM (
    SELECT stream, number FROM {table} WHERE stream = :stream
    ORDER BY number DESC LIMIT 1 OFFSET :kept) AS own
UNION ALL SELECT stream, number FROM (
    SELECT stream, number, written FROM {table} WHERE stream = coalesce(
        (SELECT min(stream) FROM {table} WHERE stream > :stream), (SELECT min(stream) FROM {table}))
    ORDER BY number DESC LIMIT 1) AS latest
WHERE stream <> :stream AND written < {clock} - 2592000000000;

-- drop
-- By primary key, oldest first, and without waiting for what somebody else has locked (L13).
DELETE FROM {table} WHERE (stream, number) IN (
    SELECT stream, number FROM {table} WHERE stream = :stream AND number <= :upto
    ORDER BY number LIMIT :limit FOR UPDATE SKIP LOCKED);

-- read
SELECT now, written, entry FROM (SELECT {clock} AS now) AS clock
LEFT JOIN {table} ON stream = :stream AND written >= now - :back
ORDER BY number;
