-- The table of locks on PostgreSQL, for sessions that are in READ COMMITTED.
-- The clock is statement_timestamp(), which is one moment for all of a statement. An UPDATE judges
-- the row as it was when the statement began and, if somebody has written it since, once more as it
-- is now: then it changes nothing, and what is shown is the row of the beginning.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    name bytea PRIMARY KEY,
    fence bigint NOT NULL,
    stamp bigint NOT NULL,
    holder text NOT NULL,
    expires bigint NOT NULL,
    facts text NOT NULL,
    line text NOT NULL,
    others text NOT NULL
) WITH (fillfactor = 50);

-- take
-- The holder asks again; or the lock is free, and nobody is before the claim; or it joins the line.
-- Whoever is refused, and stands in line already, writes nothing, so that looking costs no commit.
WITH clock AS NOT MATERIALIZED (
    SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now
), changed AS (
    UPDATE {table} SET
        stamp = :stamp,
        fence = CASE
            WHEN (holder = '' OR expires <= now) AND others = ''
                AND (line = '' OR left(line, 33) = :claim_id || ' ')
                THEN greatest(fence + 1, now / 32)
            ELSE fence END,
        holder = CASE
            WHEN (holder = '' OR expires <= now) AND others = ''
                AND (line = '' OR left(line, 33) = :claim_id || ' ') THEN :claim_id
            ELSE holder END,
        expires = CASE
            WHEN holder = :claim_id AND expires > now THEN greatest(expires, now + :ttl)
            WHEN (holder = '' OR expires <= now) AND others = ''
                AND (line = '' OR left(line, 33) = :claim_id || ' ') THEN now + :ttl
            ELSE expires END,
        facts = CASE
            WHEN (holder = '' OR expires <= now) AND others = ''
                AND (line = '' OR left(line, 33) = :claim_id || ' ') THEN :facts
            ELSE facts END,
        line = CASE
            WHEN holder = :claim_id AND expires > now THEN line
            WHEN (holder = '' OR expires <= now) AND others = ''
                AND (line = '' OR left(line, 33) = :claim_id || ' ')
                THEN substr(line, strpos(line, chr(10)) + 1)
            ELSE line || :claim_id || ' ' || now || ' ' || :facts || chr(10) END
    FROM clock
    WHERE name = :key AND (
        (holder = :claim_id AND expires > now)
        OR ((holder = '' OR expires <= now) AND others = ''
            AND (line = '' OR left(line, 33) = :claim_id || ' '))
        OR (:queue AND strpos(others, :claim_id) = 0
            AND strpos(chr(10) || line, chr(10) || :claim_id || ' ') = 0))
    RETURNING fence, stamp, holder, expires, facts, line, others, now
), made AS (
    INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
    SELECT :key, now / 32, :stamp, :claim_id, now + :ttl, :facts, '', '' FROM clock
    WHERE NOT EXISTS (SELECT FROM {table} WHERE name = :key)
    ON CONFLICT (name) DO NOTHING
    RETURNING fence, stamp, holder, expires, facts, line, others
)
SELECT * FROM changed
UNION ALL SELECT made.*, now FROM made, clock
UNION ALL SELECT fence, stamp, holder, expires, facts, line, others, now FROM {table}, clock
WHERE name = :key AND NOT EXISTS (SELECT FROM changed);

-- extend
UPDATE {table} AS lock SET expires = greatest(expires, now + wanted.ttl), stamp = wanted.stamp
FROM unnest(:keys, :claim_ids, :ttls, :stamps) AS wanted (key, claim_id, ttl, stamp),
    (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now) AS clock
WHERE name = wanted.key AND holder = wanted.claim_id AND expires > now
RETURNING name, wanted.claim_id;

-- give_back
UPDATE {table} AS lock SET holder = '', facts = '', stamp = wanted.stamp
FROM unnest(:keys, :claim_ids, :stamps) AS wanted (key, claim_id, stamp)
WHERE name = wanted.key AND holder = wanted.claim_id
RETURNING name, wanted.claim_id, fence, lock.stamp, holder, expires, facts, line, others,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint;

-- leave
UPDATE {table} SET stamp = :stamp, line =
    left(line, strpos(chr(10) || line, chr(10) || :claim_id || ' ') - 1)
    || substr(substr(line, strpos(chr(10) || line, chr(10) || :claim_id || ' ')),
        strpos(substr(line, strpos(chr(10) || line, chr(10) || :claim_id || ' ')), chr(10)) + 1)
WHERE name = :key AND strpos(chr(10) || line, chr(10) || :claim_id || ' ') > 0
RETURNING fence, stamp, holder, expires, facts, line, others,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint;

-- read
SELECT fence, stamp, holder, expires, facts, line, others,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM unnest(:keys) WITH ORDINALITY AS wanted (key, place)
LEFT JOIN {table} ON name = wanted.key
ORDER BY place;

-- add
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
VALUES (:key, :fence, :stamp, :holder, :expires, :facts, :line, :others)
ON CONFLICT (name) DO NOTHING RETURNING stamp;

-- swap
UPDATE {table} SET fence = :fence, stamp = :stamp, holder = :holder, expires = :expires,
    facts = :facts, line = :line, others = :others
WHERE name = :key AND stamp = :known RETURNING stamp;

-- scan
SELECT name, fence, stamp, holder, expires, facts, line, others,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM {table} WHERE name >= :start AND name < :end AND name > :after ORDER BY name LIMIT :limit;

-- beat
-- Nobody's lock depends on it, so it does not wait for the disk.
INSERT INTO {table} (name, fence, stamp, holder, expires, facts, line, others)
SELECT :key, 0, 0, '',
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + :ttl, '', '', ''
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick
ON CONFLICT (name) DO UPDATE SET expires = excluded.expires;

-- living
SELECT name FROM {table}
WHERE name = ANY (:keys)
    AND expires > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint;

-- prune
-- Of the next so many rows in the order of their keys: which was the last, and what was deleted.
WITH clock AS NOT MATERIALIZED (
    SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS now
), looked_at AS MATERIALIZED (
    SELECT name FROM {table} WHERE name > :after ORDER BY name LIMIT :limit
), deleted AS (
    DELETE FROM {table} WHERE name IN (
        SELECT idle.name FROM {table} AS idle, clock
        WHERE idle.name > :after
            AND idle.name <= (SELECT name FROM looked_at ORDER BY name DESC LIMIT 1)
            AND line = '' AND others = '' AND (holder = '' OR expires <= now)
            AND ((name >= '\x6c' AND name < '\x6d' OR name >= '\x70' AND name < '\x71')
                    AND fence < (now - 86400000000) / 32 AND expires < now - 86400000000
                OR name >= '\x63' AND name < '\x64' AND expires < now)
        ORDER BY idle.name FOR UPDATE OF idle SKIP LOCKED)
    RETURNING name
)
SELECT name, (SELECT count(*) FROM deleted), (SELECT count(*) FROM looked_at)
FROM looked_at ORDER BY name DESC LIMIT 1;

-- confirm
-- In a transaction of the program's own: until it is over, nobody takes the lock away.
SELECT fence, stamp, holder, expires, facts, line, others,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM {table} WHERE name = :name FOR UPDATE;

-- version
SELECT 'PostgreSQL ' || current_setting('server_version');
