-- The table of locks on SQLite. The parameter :now is the clock of the file, in microseconds.
-- A statement that writes has the file to itself, so what it reads first is what it changes.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    name BLOB PRIMARY KEY,
    fence INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    holders TEXT NOT NULL,
    company TEXT NOT NULL,
    expires INTEGER NOT NULL,
    line TEXT NOT NULL,
    others TEXT NOT NULL
) WITHOUT ROWID;

-- {row}
fence, stamp, holders, company, expires, line, others, :now

-- {own}
-- Where the claim's own record begins among the holders, or 0.
instr(char(10) || holders, char(10) || :claim_id || ' ')

-- {ends}
-- When that hold ends, in 16 digits, and where that stands.
substr(holders, {own} + length(:claim_id) + 1, 16)

-- {holds}
{own} > 0 AND {ends} > printf('%016d', :now)

-- {longer}
-- The holders, with a new end of this hold, unless it ends later already.
substr(holders, 1, {own} + length(:claim_id)) || max({ends}, printf('%016d', :now + :ttl))
    || substr(holders, {own} + length(:claim_id) + 17)

-- {fewer}
-- The holders without this record, from its beginning to the end of its line: nobody, as a rule.
CASE WHEN instr(holders, char(10)) = length(holders) THEN ''
    ELSE substr(holders, 1, {own} - 1)
        || substr(substr(holders, {own}), instr(substr(holders, {own}), char(10)) + 1) END

-- {place}
-- Where the claim's own place in the line begins, or 0.
instr(char(10) || line, char(10) || :claim_id || ' ')

-- {behind}
-- Who is behind it in line.
substr(substr(line, {place}), instr(substr(line, {place}), char(10)) + 1)

-- take
-- The holder asks again; or there is room, and nobody before the claim is passed over; or it joins.
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
SELECT :key,
    CASE verdict WHEN 'enter' THEN max(fence, number) ELSE fence END,
    :stamp,
    CASE verdict
        WHEN 'again' THEN {longer}
        WHEN 'enter' THEN CASE WHEN held THEN holders ELSE '' END || :claim_id
            || printf(' %016d %016d ', :now + :ttl, number) || :facts || char(10)
        ELSE holders END,
    CASE WHEN verdict <> 'enter' THEN company
        WHEN held THEN CASE substr(company, 1, 1) WHEN :mode THEN :mode ELSE 'e' END
            || CASE substr(company, 2) WHEN :owner THEN :owner ELSE '' END
        ELSE :mode || :owner END,
    CASE WHEN verdict = 'join' THEN expires
        WHEN held THEN max(expires, :now + :ttl)
        ELSE :now + :ttl END,
    CASE verdict
        WHEN 'enter' THEN ahead || behind
        WHEN 'join' THEN line || :claim_id || ' ' || :now || ' ' || :facts || char(10)
        ELSE line END,
    others
FROM (
    SELECT *, CASE
        WHEN {holds} THEN 'again'
        WHEN instr(others, :claim_id) = 0 AND NOT (held AND instr(holders, :claim_id) > 0)
            AND CASE :mode
                WHEN 'e' THEN CASE
                    WHEN held THEN :owner <> '' AND substr(company, 2) = :owner
                    ELSE ahead = '' END
                WHEN 's' THEN (NOT held OR substr(company, 1, 1) = 's')
                    AND instr(ahead, ' ["e",') = 0
                ELSE CASE WHEN held THEN length(holders) - length(replace(holders, char(10), ''))
                    ELSE 0 END + length(ahead) - length(replace(ahead, char(10), '')) < :permits
                END THEN 'enter'
        WHEN :queue AND instr(others, :claim_id) = 0 AND {place} = 0
            AND ({own} > 0 OR instr(holders, :claim_id) = 0) THEN 'join'
        END AS verdict, CASE
        WHEN held AND :mode = 'e' THEN CAST(substr(holders, instr(holders, ' ') + 18, 16) AS INTEGER)
        ELSE max(fence + 1, :now / 32) END AS number
    FROM (
        SELECT *, holders <> '' AND expires > :now AS held,
            CASE WHEN {place} > 0 THEN substr(line, 1, {place} - 1) ELSE line END AS ahead,
            CASE WHEN {place} > 0 THEN {behind} ELSE '' END AS behind
        FROM (
            SELECT fence, holders, company, expires, line, others FROM {table} WHERE name = :key
            -- Where there is no row it is as if there were this one.
            UNION ALL SELECT 0, '', '', 0, '', '' LIMIT 1)))
WHERE verdict IS NOT NULL
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, stamp = excluded.stamp,
    holders = excluded.holders, company = excluded.company, expires = excluded.expires,
    line = excluded.line
RETURNING {row};
SELECT {row} FROM {table} WHERE name = :key;

-- {enters_alone}
-- Of an exclusive claim without an owner: nobody holds, and nobody is before it in line.
(holders = '' OR expires <= :now) AND (line = '' OR {place} = 1)

-- take_alone
-- The same for an exclusive claim without an owner, the most common one. It computes less: there is
-- no company to enter. Where it neither enters nor holds, it joins, by the last condition.
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, :now / 32, :stamp,
    :claim_id || printf(' %016d %016d ', :now + :ttl, :now / 32) || :facts || char(10),
    'e', :now + :ttl, '', '')
ON CONFLICT (name) DO UPDATE SET
    fence = CASE WHEN {enters_alone} THEN max(fence + 1, :now / 32) ELSE fence END,
    stamp = :stamp,
    holders = CASE
        WHEN {enters_alone} THEN :claim_id
            || printf(' %016d %016d ', :now + :ttl, max(fence + 1, :now / 32)) || :facts || char(10)
        WHEN {holds} THEN {longer}
        ELSE holders END,
    company = CASE WHEN {enters_alone} THEN 'e' ELSE company END,
    expires = CASE
        WHEN {enters_alone} THEN :now + :ttl
        WHEN {holds} THEN max(expires, :now + :ttl)
        ELSE expires END,
    line = CASE
        WHEN {enters_alone} THEN CASE WHEN line = '' THEN '' ELSE {behind} END
        WHEN {holds} THEN line
        ELSE line || :claim_id || ' ' || :now || ' ' || :facts || char(10) END
WHERE instr(others, :claim_id) = 0 AND ({enters_alone}) OR {holds}
    OR instr(others, :claim_id) = 0
        AND :queue AND {place} = 0 AND ({own} > 0 OR instr(holders, :claim_id) = 0)
RETURNING {row};
SELECT {row} FROM {table} WHERE name = :key;

-- take_free
-- What `take_alone` does where nobody holds or waits and nothing is noted, the most common case: it
-- has less to compute, and no row to make that there is already. Else it changes nothing.
UPDATE {table} SET fence = max(fence + 1, :now / 32), stamp = :stamp,
    holders = :claim_id
        || printf(' %016d %016d ', :now + :ttl, max(fence + 1, :now / 32)) || :facts || char(10),
    company = 'e', expires = :now + :ttl
WHERE name = :key AND (holders = '' OR expires <= :now) AND line = '' AND others = ''
RETURNING {row};

-- extend
UPDATE {table} SET holders = {longer}, expires = max(expires, :now + :ttl), stamp = :stamp
WHERE name = :key AND {holds} RETURNING 1;

-- give_back
UPDATE {table} SET holders = {fewer}, stamp = :stamp WHERE name = :key AND {holds}
RETURNING {row};

-- sweep
UPDATE {table} SET holders = {fewer}, stamp = :stamp
WHERE name = :key AND {own} > 0 AND NOT ({holds})
RETURNING {row};

-- leave
UPDATE {table} SET line = substr(line, 1, {place} - 1) || {behind}, stamp = :stamp
WHERE name = :key AND {place} > 0
RETURNING {row};

-- read
SELECT {row} FROM {table} WHERE name = :key;
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, :now;

-- add
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, :fence, :stamp, :holders, :company, :expires, :line, :others)
ON CONFLICT (name) DO NOTHING RETURNING stamp;

-- swap
UPDATE {table} SET fence = :fence, stamp = :stamp, holders = :holders, company = :company,
    expires = :expires, line = :line, others = :others
WHERE name = :key AND stamp = :known RETURNING stamp;

-- scan
SELECT name, {row} FROM {table}
WHERE name >= :start AND name < :end AND name > :after ORDER BY name LIMIT :limit;

-- beat
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, 0, 0, '', '', :now + :ttl, '', '')
ON CONFLICT (name) DO UPDATE SET expires = excluded.expires;

-- living
SELECT 1 FROM {table} WHERE name = :key AND expires > :now AND expires <= :now + :longest;

-- prune
-- Before numbers are forgotten, the row of the clock (m) notes how late it was.
UPDATE {table} SET expires = max(expires, :now) WHERE name = x'6d';
DELETE FROM {table} WHERE name IN (
    SELECT name FROM {table}
    WHERE line = '' AND others < printf('%016d', :now)
        AND ((name >= x'6c' AND name < x'6d' OR name >= x'70' AND name < x'71')
                AND fence * 32 < :now - 86400000000 AND expires < :now - 86400000000
            OR name >= x'63' AND name < x'64' AND expires < :now)
    LIMIT :limit)
RETURNING name;

-- version
SELECT 'SQLite ' || sqlite_version();
