-- The table of locks on SQLite. A parameter :now is the machine's clock, in microseconds.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    name BLOB PRIMARY KEY,
    fence INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    holder TEXT NOT NULL,
    expires INTEGER NOT NULL,
    facts TEXT NOT NULL,
    line TEXT NOT NULL,
    others TEXT NOT NULL
) WITHOUT ROWID;

-- take
-- The holder asks again; or the lock is free, and nobody is before the claim; or it joins the line.
INSERT INTO {table} AS lock (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, :now / 32, :stamp, :claim_id, :now + :ttl, :facts, '', '')
ON CONFLICT (name) DO UPDATE SET
    stamp = excluded.stamp,
    fence = CASE
        WHEN holder = :claim_id AND expires > :now THEN fence
        WHEN (holder = '' OR expires <= :now) AND others = ''
            AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ')
            THEN max(fence + 1, excluded.fence)
        ELSE fence END,
    holder = CASE
        WHEN holder = :claim_id AND expires > :now THEN holder
        WHEN (holder = '' OR expires <= :now) AND others = ''
            AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ') THEN :claim_id
        ELSE holder END,
    expires = CASE
        WHEN holder = :claim_id AND expires > :now THEN max(expires, excluded.expires)
        WHEN (holder = '' OR expires <= :now) AND others = ''
            AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ') THEN excluded.expires
        ELSE expires END,
    facts = CASE
        WHEN holder = :claim_id AND expires > :now THEN facts
        WHEN (holder = '' OR expires <= :now) AND others = ''
            AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ') THEN excluded.facts
        ELSE facts END,
    line = CASE
        WHEN holder = :claim_id AND expires > :now THEN line
        WHEN (holder = '' OR expires <= :now) AND others = ''
            AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ')
            THEN substr(line, instr(line, char(10)) + 1)
        ELSE line || :claim_id || ' ' || :now || ' ' || :facts || char(10) END
WHERE (holder = :claim_id AND expires > :now)
    OR ((holder = '' OR expires <= :now) AND others = ''
        AND (line = '' OR substr(line, 1, 33) = :claim_id || ' '))
    OR (:queue AND instr(line, :claim_id) = 0 AND instr(others, :claim_id) = 0)
RETURNING fence, stamp, holder, expires, facts, line, others, :now;
SELECT fence, stamp, holder, expires, facts, line, others, :now FROM {table} WHERE name = :key;

-- extend
UPDATE {table} SET expires = max(expires, :now + :ttl), stamp = :stamp
WHERE name = :key AND holder = :claim_id AND expires > :now RETURNING 1;

-- give_back
UPDATE {table} SET holder = '', facts = '', stamp = :stamp
WHERE name = :key AND holder = :claim_id
RETURNING fence, stamp, holder, expires, facts, line, others, :now;

-- leave
UPDATE {table} SET stamp = :stamp, line =
    substr(line, 1, instr(line, :claim_id) - 1)
    || substr(substr(line, instr(line, :claim_id)),
        instr(substr(line, instr(line, :claim_id)), char(10)) + 1)
WHERE name = :key AND instr(line, :claim_id) > 0
RETURNING fence, stamp, holder, expires, facts, line, others, :now;

-- read
SELECT fence, stamp, holder, expires, facts, line, others, :now FROM {table} WHERE name = :key;
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, :now;

-- add
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, :fence, :stamp, :holder, :expires, :facts, :line, :others)
ON CONFLICT (name) DO NOTHING RETURNING stamp;

-- swap
UPDATE {table} SET fence = :fence, stamp = :stamp, holder = :holder, expires = :expires,
    facts = :facts, line = :line, others = :others
WHERE name = :key AND stamp = :known RETURNING stamp;

-- scan
SELECT name, fence, stamp, holder, expires, facts, line, others, :now FROM {table}
WHERE name >= :start AND name < :end AND name > :after ORDER BY name LIMIT :limit;

-- beat
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, 0, 0, '', :now + :ttl, '', '', '')
ON CONFLICT (name) DO UPDATE SET expires = excluded.expires;

-- living
SELECT 1 FROM {table} WHERE name = :key AND expires > :now;

-- prune
DELETE FROM {table} WHERE name IN (
    SELECT name FROM {table}
    WHERE line = '' AND others = '' AND (holder = '' OR expires <= :now)
        AND ((fence * 32 < :now - 86400000000 AND expires < :now - 86400000000 AND name >= x'64')
            OR (expires < :now AND name >= x'63' AND name < x'64'))
    LIMIT :limit)
RETURNING name;
