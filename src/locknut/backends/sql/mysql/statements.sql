-- The table of locks on MySQL and MariaDB. {now} is the clock: the statement's beginning, in UTC.
-- A statement that writes answers by LAST_INSERT_ID(...), which comes with its OK: what is said there
-- was computed while the row was being written, by this statement, and costs no second one.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    name VARBINARY(2560) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    stamp BIGINT NOT NULL,
    holder VARCHAR(64) NOT NULL,
    expires BIGINT NOT NULL,
    facts MEDIUMTEXT NOT NULL,
    line LONGTEXT NOT NULL,
    others LONGTEXT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- take
-- Columns are assigned from left to right, and each sees what was assigned before it. So the verdict
-- comes first, by the row as it was, and stands in `stamp` until the end: -1: the holder asks again;
-- -2: the lock is free, and nobody is before the claim; -3: it joins the line. Stamps are not negative.
-- The answer is the number of the grant, or 0.
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, LAST_INSERT_ID({now} DIV 32), :stamp, :claim_id, {now} + :ttl, :facts, '', '')
ON DUPLICATE KEY UPDATE
    stamp = CASE
        WHEN holder = :claim_id AND expires > {now} THEN -1
        WHEN (holder = '' OR expires <= {now}) AND others = ''
            AND (line = '' OR LEFT(line, 33) = CONCAT(:claim_id, ' ')) THEN -2
        WHEN :queue AND LOCATE(:claim_id, others) = 0
            AND LOCATE(CONCAT(CHAR(10), :claim_id, ' '), CONCAT(CHAR(10), line)) = 0 THEN -3
        ELSE stamp END,
    fence = IF(stamp = -2, GREATEST(fence + 1, {now} DIV 32), fence),
    holder = IF(stamp = -2, :claim_id, holder),
    facts = IF(stamp = -2, :facts, facts),
    line = CASE stamp
        WHEN -2 THEN SUBSTRING(line, LOCATE(CHAR(10), line) + 1)
        WHEN -3 THEN CONCAT(line, :claim_id, ' ', {now}, ' ', :facts, CHAR(10))
        ELSE line END,
    expires = CASE stamp
        WHEN -1 THEN GREATEST(expires, {now} + :ttl)
        WHEN -2 THEN {now} + :ttl
        ELSE expires END,
    stamp = IF(LAST_INSERT_ID(IF(stamp IN (-1, -2), fence, 0)) >= 0 AND stamp < 0, :stamp, stamp);

-- extend
-- Of two that waited for the row, the earlier one may come last: it cuts nothing.
UPDATE {table} SET expires = GREATEST(expires, {now} + :ttl), stamp = LAST_INSERT_ID(:stamp)
WHERE name = :key AND holder = :claim_id AND expires > {now};

-- give_back
-- The answer is 2 if the hold had not run out, else 1.
UPDATE {table} SET holder = '', facts = '',
    stamp = IF(LAST_INSERT_ID(IF(expires > {now}, 2, 1)), :stamp, 0)
WHERE name = :key AND holder = :claim_id;

-- leave
-- Out with its line of text, from its beginning to the end of that line.
UPDATE {table} SET stamp = LAST_INSERT_ID(:stamp), line = INSERT(line,
    LOCATE(CONCAT(CHAR(10), :claim_id, ' '), CONCAT(CHAR(10), line)),
    LOCATE(CHAR(10), line, LOCATE(CONCAT(CHAR(10), :claim_id, ' '), CONCAT(CHAR(10), line))) + 1
        - LOCATE(CONCAT(CHAR(10), :claim_id, ' '), CONCAT(CHAR(10), line)), '')
WHERE name = :key AND LOCATE(CONCAT(CHAR(10), :claim_id, ' '), CONCAT(CHAR(10), line)) > 0;

-- read
SELECT fence, stamp, holder, expires, facts, line, others, {now}
FROM (SELECT 1) AS always LEFT JOIN {table} ON name = :key;

-- add
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, :fence, LAST_INSERT_ID(:stamp), :holder, :expires, :facts, :line, :others)
ON DUPLICATE KEY UPDATE stamp = stamp + LAST_INSERT_ID(0);

-- swap
UPDATE {table} SET fence = :fence, stamp = LAST_INSERT_ID(:stamp), holder = :holder,
    expires = :expires, facts = :facts, line = :line, others = :others
WHERE name = :key AND stamp = :known;

-- scan
SELECT name, fence, stamp, holder, expires, facts, line, others, {now} FROM {table}
WHERE name >= :start AND name < :end AND name > :after ORDER BY name LIMIT :limit;

-- beat
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, 0, 0, '', {now} + :ttl, '', '', '')
ON DUPLICATE KEY UPDATE expires = {now} + :ttl;

-- living
SELECT 1 FROM {table} WHERE name = :key AND expires > {now};

-- prune
-- First, without any lock: which of the next rows are idle. Then those are deleted, by primary key and
-- without waiting for any that is locked (L13). A row is looked at again then.
SELECT name, {idle}
FROM (SELECT * FROM {table} WHERE name > :after ORDER BY name LIMIT :limit) AS next_rows
ORDER BY name;
DELETE old FROM (
    SELECT name FROM {table} WHERE name IN (:keys) AND {idle} FOR UPDATE SKIP LOCKED
) AS idle STRAIGHT_JOIN {table} AS old ON old.name = idle.name;
SELECT ROW_COUNT();

-- confirm
-- In a transaction of the program's own: until it is over, nobody takes the lock away.
SELECT fence, stamp, holder, expires, facts, line, others, {now}
FROM {table} WHERE name = UNHEX(:hexed) FOR UPDATE;

-- version
SELECT CONCAT(IF(LOCATE('MariaDB', VERSION()), 'MariaDB ', 'MySQL '), VERSION());
