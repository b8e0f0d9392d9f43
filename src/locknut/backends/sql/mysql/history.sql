-- History on MySQL and MariaDB: a table of its own, so that no lock ever meets what is written here.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    stream VARCHAR(255) NOT NULL,
    written BIGINT NOT NULL,
    entry MEDIUMTEXT NOT NULL,
    KEY of_stream (stream, number)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- add
INSERT INTO {table} (stream, written, entry) VALUES (:stream, {now}, :entry);

-- look
-- Up to which entry a stream is to be cut: this one, where it is longer than wanted; and the next in
-- the order of their names, if nobody has written to it for 30 days. It locks nothing.
SELECT * FROM (
    SELECT stream, number FROM {table} WHERE stream = _ascii :stream
    ORDER BY number DESC LIMIT 1 OFFSET :kept) AS own
UNION ALL SELECT stream, number FROM (
    SELECT stream, number, written FROM {table} WHERE stream = COALESCE(
        (SELECT MIN(stream) FROM {table} WHERE stream > _ascii :stream),
        (SELECT MIN(stream) FROM {table}))
    ORDER BY number DESC LIMIT 1) AS latest
WHERE stream <> _ascii :stream AND written < {now} - 2592000000000;

-- drop
-- Oldest first, and without waiting for what somebody else has locked (L13).
DELETE old FROM (
    SELECT number FROM {table} WHERE stream = _ascii :stream AND number <= :upto
    ORDER BY number LIMIT :limit FOR UPDATE SKIP LOCKED
) AS gone STRAIGHT_JOIN {table} AS old ON old.number = gone.number;

-- read
SELECT clock.now, written, entry FROM (SELECT {now} AS now) AS clock
LEFT JOIN {table} ON stream = _ascii :stream AND written >= clock.now - :back
ORDER BY number;
