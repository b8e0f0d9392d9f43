-- The table of locks on SQLite. The parameter :now is the clock of the file, in microseconds.
-- A statement that writes has the file to itself, so what it reads first is what it changes.

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
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
SELECT :key,
    CASE verdict WHEN 'enter' THEN max(fence + 1, :now / 32) ELSE fence END,
    :stamp,
    CASE verdict WHEN 'enter' THEN :claim_id ELSE holder END,
    CASE verdict
        WHEN 'enter' THEN :now + :ttl
        WHEN 'again' THEN max(expires, :now + :ttl) ELSE expires END,
    CASE verdict WHEN 'enter' THEN :facts ELSE facts END,
    CASE verdict
        WHEN 'enter' THEN substr(line, instr(line, char(10)) + 1)
        WHEN 'join' THEN line || :claim_id || ' ' || :now || ' ' || :facts || char(10)
        ELSE line END,
    others
FROM (
    SELECT *, CASE
        WHEN holder = :claim_id AND expires > :now THEN 'again'
        WHEN (holder = '' OR expires <= :now) AND others = ''
            AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ') THEN 'enter'
        WHEN :queue AND instr(others, :claim_id) = 0
            AND instr(char(10) || line, char(10) || :claim_id || ' ') = 0 THEN 'join'
        END AS verdict
    FROM (
        SELECT fence, holder, expires, facts, line, others FROM {table} WHERE name = :key
        -- Where there is no row it is as if there were this one.
        UNION ALL SELECT 0, '', 0, '', '', '' LIMIT 1))
WHERE verdict IS NOT NULL
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, stamp = excluded.stamp,
    holder = excluded.holder, expires = excluded.expires, facts = excluded.facts,
    line = excluded.line
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
-- Out with its line of text, from its beginning to the end of that line.
UPDATE {table} SET stamp = :stamp, line =
    substr(line, 1, instr(char(10) || line, char(10) || :claim_id || ' ') - 1)
    || substr(substr(line, instr(char(10) || line, char(10) || :claim_id || ' ')),
        instr(substr(line, instr(char(10) || line, char(10) || :claim_id || ' ')), char(10)) + 1)
WHERE name = :key AND instr(char(10) || line, char(10) || :claim_id || ' ') > 0
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
-- Before numbers are forgotten, the row of the clock (m) notes how late it was.
UPDATE {table} SET expires = max(expires, :now) WHERE name = x'6d';
DELETE FROM {table} WHERE name IN (
    SELECT name FROM {table}
    WHERE line = '' AND others = ''
        AND ((name >= x'6c' AND name < x'6d' OR name >= x'70' AND name < x'71')
                AND fence * 32 < :now - 86400000000 AND expires < :now - 86400000000
            OR name >= x'63' AND name < x'64' AND expires < :now)
    LIMIT :limit)
RETURNING name;

-- version
SELECT 'SQLite ' || sqlite_version();
