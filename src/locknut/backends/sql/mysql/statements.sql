-- The table of locks on MySQL and MariaDB. {now} is the clock: the statement's beginning, in UTC.
-- A statement that writes answers by LAST_INSERT_ID(...), which comes with its OK: what is said there
-- was computed while the row was being written, by this statement, and costs no second one.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    name VARBINARY(2560) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    stamp BIGINT NOT NULL,
    holders LONGTEXT NOT NULL,
    company MEDIUMTEXT NOT NULL,
    expires BIGINT NOT NULL,
    line LONGTEXT NOT NULL,
    others LONGTEXT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- {own}
-- :head is the end of a line and the beginning of the claim's own, :width how long that beginning is.
-- Where the claim's own record begins among the holders, or 0.
LOCATE(:head, CONCAT(CHAR(10), holders))

-- {end_at}
-- Where it says when that hold ends, in 16 digits. In 16 more, after a space, is its number.
{own} + :width

-- {holds}
({own} > 0 AND SUBSTRING(holders, {end_at}, 16) > LPAD({now}, 16, '0'))

-- {longer}
-- The holders, with a new end of this hold, unless it ends later already: of two renewals that waited
-- for the row, the earlier one may come last, and cuts nothing.
INSERT(holders, {end_at}, 16,
    GREATEST(SUBSTRING(holders, {end_at}, 16), LPAD({now} + :ttl, 16, '0')))

-- {fewer}
-- The holders without this record, from its beginning to the end of its line.
INSERT(holders, {own}, LOCATE(CHAR(10), holders, {own}) + 1 - {own}, '')

-- {place}
-- Where the claim's own place in the line begins, or 0.
LOCATE(:head, CONCAT(CHAR(10), line))

-- {left}
-- The line without it.
INSERT(line, {place}, LOCATE(CHAR(10), line, {place}) + 1 - {place}, '')

-- {ahead}
-- Who is before it in line.
IF({place} > 0, LEFT(line, {place} - 1), line)

-- {held}
(holders <> '' AND expires > {now})

-- {enters}
(LOCATE(:claim_id, others) = 0 AND NOT ({held} AND LOCATE(:claim_id, holders) > 0)
    AND CASE :mode
        WHEN 'e' THEN IF({held}, :owner <> '' AND SUBSTRING(company, 2) = :owner, {ahead} = '')
        WHEN 's' THEN (NOT {held} OR LEFT(company, 1) = 's') AND LOCATE(' ["e",', {ahead}) = 0
        ELSE IF({held}, LENGTH(holders) - LENGTH(REPLACE(holders, CHAR(10), '')), 0)
            + LENGTH({ahead}) - LENGTH(REPLACE({ahead}, CHAR(10), '')) < :permits END)

-- {joins}
(:queue AND LOCATE(:claim_id, others) = 0 AND {place} = 0
    AND ({own} > 0 OR LOCATE(:claim_id, holders) = 0))

-- take
-- Columns are assigned from left to right, and each sees what was assigned before it. So the verdict
-- comes first, by the row as it was, and stands in `stamp` until the end. Stamps are not negative.
-- -1: the holder asks again; -2: it enters a lock that is not held; -3: it enters beside others, and
-- -4: beside those of its owner, with their number; -5: it joins the line.
-- The answer is the number of the grant, or 0.
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, LAST_INSERT_ID({now} DIV 32), :stamp,
    CONCAT(:claim_id, ' ', LPAD({now} + :ttl, 16, '0'), ' ', LPAD({now} DIV 32, 16, '0'), ' ',
        :facts, CHAR(10)),
    CONCAT(:mode, :owner), {now} + :ttl, '', '')
ON DUPLICATE KEY UPDATE
    stamp = CASE
        WHEN {holds} THEN -1
        WHEN {enters} THEN IF({held}, IF(:mode = 'e', -4, -3), -2)
        WHEN {joins} THEN -5
        ELSE stamp END,
    fence = IF(stamp IN (-2, -3), GREATEST(fence + 1, {now} DIV 32), fence),
    line = CASE
        WHEN stamp IN (-2, -3, -4) AND {place} > 0 THEN {left}
        WHEN stamp = -5 THEN CONCAT(line, :claim_id, ' ', {now}, ' ', :facts, CHAR(10))
        ELSE line END,
    company = CASE
        WHEN stamp = -2 THEN CONCAT(:mode, :owner)
        WHEN stamp IN (-3, -4) THEN CONCAT(IF(LEFT(company, 1) = :mode, :mode, 'e'),
            IF(SUBSTRING(company, 2) = :owner, :owner, ''))
        ELSE company END,
    holders = CASE
        WHEN stamp = -1 THEN {longer}
        WHEN stamp IN (-2, -3, -4) THEN CONCAT(IF(stamp = -2, '', holders), :claim_id, ' ',
            LPAD({now} + :ttl, 16, '0'), ' ', IF(stamp = -4,
                SUBSTRING(holders, LOCATE(' ', holders) + 18, 16), LPAD(fence, 16, '0')), ' ',
            :facts, CHAR(10))
        ELSE holders END,
    expires = CASE
        WHEN stamp = -2 THEN {now} + :ttl
        WHEN stamp IN (-1, -3, -4) THEN GREATEST(expires, {now} + :ttl)
        ELSE expires END,
    stamp = IF(LAST_INSERT_ID(IF(stamp IN (-1, -2, -3, -4),
        CAST(SUBSTRING(holders, {end_at} + 17, 16) AS UNSIGNED), 0)) >= 0 AND stamp < 0,
        :stamp, stamp);

-- {joined}
-- After it has joined the line of a lock that one claim holds alone: a flag in bit 62, how many are
-- before it in bits 60 and 61, in how many milliseconds the hold ends in bits 48 to 59, and the first
-- 12 digits of the id of the one before it.
IF({held} AND company = 'e' AND ASCII(holders) <> 61,
    (1 << 62) + (LEAST(2, LENGTH(line) - LENGTH(REPLACE(line, CHAR(10), '')) - 1) << 60)
    + (LEAST(1000, (expires - {now}) DIV 1000) << 48)
    + CAST(CONV(LEFT(IF({place} = 1, holders, SUBSTRING_INDEX(line, CHAR(10), -3)), 12), 16, 10)
        AS UNSIGNED), 0)

-- {take_new}
-- How an exclusive claim without an owner takes a name that has no row yet.
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, LAST_INSERT_ID({now} DIV 32), :stamp,
    CONCAT(:claim_id, ' ', LPAD({now} + :ttl, 16, '0'), ' ', LPAD({now} DIV 32, 16, '0'), ' ',
        :facts, CHAR(10)),
    'e', {now} + :ttl, '', '')
ON DUPLICATE KEY UPDATE

-- take_alone
-- What `take` does for an exclusive claim without an owner, the most common one: half as long to
-- read. Who has joined the line need not read the row.
{take_new}
    stamp = CASE
        WHEN {holds} THEN -1
        WHEN NOT {held} AND (line = '' OR {place} = 1) AND LOCATE(:claim_id, others) = 0 THEN -2
        WHEN {joins} THEN -5
        ELSE stamp END,
    fence = IF(stamp = -2, GREATEST(fence + 1, {now} DIV 32), fence),
    line = CASE stamp
        WHEN -2 THEN SUBSTRING(line, LOCATE(CHAR(10), line) + 1)
        WHEN -5 THEN CONCAT(line, :claim_id, ' ', {now}, ' ', :facts, CHAR(10))
        ELSE line END,
    company = IF(stamp = -2, 'e', company),
    holders = CASE stamp
        WHEN -1 THEN {longer}
        WHEN -2 THEN CONCAT(:claim_id, ' ', LPAD({now} + :ttl, 16, '0'), ' ',
            LPAD(fence, 16, '0'), ' ', :facts, CHAR(10))
        ELSE holders END,
    expires = CASE stamp
        WHEN -1 THEN GREATEST(expires, {now} + :ttl)
        WHEN -2 THEN {now} + :ttl
        ELSE expires END,
    stamp = IF(LAST_INSERT_ID(CASE
        WHEN stamp IN (-1, -2) THEN CAST(SUBSTRING(holders, {end_at} + 17, 16) AS UNSIGNED)
        WHEN stamp = -5 THEN {joined}
        ELSE 0 END) >= 0 AND stamp < 0, :stamp, stamp);

-- take_free
-- What `take_alone` does where nobody holds or waits and nothing is noted, the most common case: a
-- third as long, and most of what a claim costs the server is to read it. Else it changes nothing,
-- and answers 0.
{take_new}
    stamp = IF(NOT {held} AND line = '' AND others = '', -2, stamp),
    fence = IF(stamp = -2, GREATEST(fence + 1, {now} DIV 32), fence),
    company = IF(stamp = -2, 'e', company),
    holders = IF(stamp = -2, CONCAT(:claim_id, ' ', LPAD({now} + :ttl, 16, '0'), ' ',
        LPAD(fence, 16, '0'), ' ', :facts, CHAR(10)), holders),
    expires = IF(stamp = -2, {now} + :ttl, expires),
    stamp = IF(LAST_INSERT_ID(IF(stamp = -2, fence, 0)) > 0, :stamp, stamp);

-- take_known
-- What `take_free` does where the row is there, in two fifths of its words: what a client says of a name
-- whose row it has seen. `:gate` and what is beside it are for session mode.
UPDATE {table} SET expires = {now} + :ttl,
    fence = LAST_INSERT_ID(GREATEST(fence + 1, (expires - :ttl) DIV 32)),
    holders = CONCAT(:claim_id, ' ', LPAD(expires, 16, '0'), ' ', LPAD(fence, 16, '0'), ' ', :facts,
        CHAR(10)),
    company = 'e', stamp = :stamp
WHERE name = :key AND (holders = '' OR expires <= {now}) AND line = '' AND others = '' {only};

-- {first_in_line}
-- Who is first in line, if there may be room for it now; else only that it was done.
IF(line <> '' AND (holders = '' OR LEFT(company, 1) = 'p'),
    (1 << 62) + CAST(CONV(LEFT(line, 12), 16, 10) AS UNSIGNED), :stamp)

-- {first_of_all}
-- The same where nobody holds any more.
IF(line = '', :stamp, (1 << 62) + CAST(CONV(LEFT(line, 12), 16, 10) AS UNSIGNED))

-- extend
UPDATE {table} SET holders = {longer}, expires = GREATEST(expires, {now} + :ttl),
    stamp = LAST_INSERT_ID(:stamp)
WHERE name = :key AND {holds};

-- give_back
UPDATE {table} SET holders = {fewer}, stamp = IF(LAST_INSERT_ID({first_in_line}) > 0, :stamp, 0)
WHERE name = :key AND {holds};

-- {holds_alone}
-- Whether this is the only hold, and has not run out.
(LEFT(holders, :width) = :own AND LOCATE(CHAR(10), holders) = LENGTH(holders)
    AND SUBSTRING(holders, :width + 1, 16) > LPAD({now}, 16, '0'))

-- give_back_alone
-- What `give_back` does where nobody else holds, in half of its words. Else it changes nothing.
UPDATE {table} SET holders = '', stamp = IF(LAST_INSERT_ID({first_of_all}) > 0, :stamp, 0)
WHERE name = :key AND {holds_alone};

-- give_back_leaving
-- The same in session mode, and all locks of the session are free before this is committed: whoever
-- has the gate next waits for the row, as long as that takes.
UPDATE {table} SET holders = '',
    stamp = IF(LAST_INSERT_ID({first_of_all}) > 0 * RELEASE_ALL_LOCKS(), :stamp, 0)
WHERE name = :key AND {holds_alone};

-- give_back_ringing
-- On the connection where the claim's own bell hangs: whoever waits for that is first in line. It is
-- free before this is committed; then the other one waits for the row, as long as that takes.
UPDATE {table} SET holders = {fewer},
    stamp = LAST_INSERT_ID(:stamp + 0 * COALESCE(RELEASE_LOCK(:bell), 0))
WHERE name = :key AND {holds};

-- sweep
UPDATE {table} SET holders = {fewer}, stamp = IF(LAST_INSERT_ID({first_in_line}) > 0, :stamp, 0)
WHERE name = :key AND {own} > 0 AND NOT {holds};

-- leave
UPDATE {table} SET line = {left}, stamp = IF(LAST_INSERT_ID({first_in_line}) > 0, :stamp, 0)
WHERE name = :key AND {place} > 0;

-- read
SELECT fence, stamp, holders, company, expires, line, others, {now}
FROM (SELECT 1) AS always LEFT JOIN {table} ON name = :key;

-- add
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, :fence, LAST_INSERT_ID(:stamp), :holders, :company, :expires, :line, :others)
ON DUPLICATE KEY UPDATE stamp = stamp + LAST_INSERT_ID(0);

-- swap
UPDATE {table} SET fence = :fence, stamp = LAST_INSERT_ID(:stamp), holders = :holders,
    company = :company, expires = :expires, line = :line, others = :others
WHERE name = :key AND stamp = :known;

-- scan
SELECT name, fence, stamp, holders, company, expires, line, others, {now} FROM {table}
WHERE name >= :start AND name < :end AND name > :after ORDER BY name LIMIT :limit;

-- beat
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, 0, 0, '', '', {now} + :ttl, '', '')
ON DUPLICATE KEY UPDATE expires = {now} + :ttl;

-- living
SELECT 1 FROM {table} WHERE name = :key AND expires > {now} AND expires <= {now} + :longest;

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
SELECT fence, stamp, holders, company, expires, line, others, {now}
FROM {table} WHERE name = UNHEX(:hexed) FOR UPDATE;

-- version
SELECT CONCAT(IF(LOCATE('MariaDB', VERSION()), 'MariaDB ', 'MySQL '), VERSION());
