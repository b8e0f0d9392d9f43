-- The table of locks on PostgreSQL, for sessions that are in READ COMMITTED.
-- The clock is statement_timestamp(), which is one moment for all of a statement. An UPDATE judges
-- the row as it was when the statement began and, if somebody has written it since, once more as it
-- is now: then it changes nothing, and what is shown is the row of the beginning.

-- create
CREATE TABLE IF NOT EXISTS {table} (
    name bytea PRIMARY KEY,
    fence bigint NOT NULL,
    stamp bigint NOT NULL,
    holders text NOT NULL,
    company text NOT NULL,
    expires bigint NOT NULL,
    line text NOT NULL,
    others text NOT NULL
) WITH (fillfactor = 50);

-- The words stand for what they say of the columns `now` and `claim_id`, which come with the claim.

-- {clock}
(extract(epoch FROM statement_timestamp()) * 1000000)::bigint

-- {own}
-- Where the claim's own record begins among the holders, or 0.
strpos(chr(10) || holders, chr(10) || claim_id || ' ')

-- {ends}
-- When that hold ends, in 16 digits.
substr(holders, {own} + length(claim_id) + 1, 16)

-- {holds}
({own} > 0 AND {ends} COLLATE "C" > lpad(now::text, 16, '0'))

-- {longer}
-- The holders, with a new end of this hold, unless it ends later already.
overlay(holders PLACING greatest({ends}, lpad((now + ttl)::text, 16, '0') COLLATE "C")
    FROM {own} + length(claim_id) + 1)

-- {fewer}
-- The holders without this record, from its beginning to the end of its line.
left(holders, {own} - 1)
    || substr(substr(holders, {own}), strpos(substr(holders, {own}), chr(10)) + 1)

-- {place}
-- Where the claim's own place in the line begins, or 0.
strpos(chr(10) || line, chr(10) || claim_id || ' ')

-- {ahead}
-- Who is before it in line.
CASE WHEN {place} > 0 THEN left(line, {place} - 1) ELSE line END

-- {behind}
substr(substr(line, {place}), strpos(substr(line, {place}), chr(10)) + 1)

-- {held}
(holders <> '' AND expires > now)

-- {enters}
(strpos(others, claim_id) = 0 AND NOT ({held} AND strpos(holders, claim_id) > 0)
    AND CASE :mode
        WHEN 'e' THEN CASE
            WHEN {held} THEN :owner <> '' AND substr(company, 2) = :owner
            ELSE {ahead} = '' END
        WHEN 's' THEN (NOT {held} OR left(company, 1) = 's') AND strpos({ahead}, ' ["e",') = 0
        ELSE CASE WHEN {held} THEN length(holders) - length(replace(holders, chr(10), ''))
            ELSE 0 END + length({ahead}) - length(replace({ahead}, chr(10), '')) < :permits END)

-- {joins}
(:queue AND strpos(others, claim_id) = 0 AND {place} = 0
    AND ({own} > 0 OR strpos(holders, claim_id) = 0))

-- take
-- The holder asks again; or there is room, and nobody before the claim is passed over; or it joins.
-- Whoever is refused, and stands in line already, writes nothing, so that looking costs no commit.
WITH asked AS NOT MATERIALIZED (
    SELECT {clock} AS now, :claim_id::text AS claim_id, :ttl::bigint AS ttl
), changed AS (
    UPDATE {table} SET (fence, stamp, holders, company, expires, line) = (
        SELECT CASE verdict WHEN 'enter' THEN greatest(fence, number) ELSE fence END,
            :stamp::bigint,
            CASE verdict
                WHEN 'again' THEN {longer}
                WHEN 'enter' THEN CASE WHEN held THEN holders ELSE '' END || claim_id || ' '
                    || lpad((now + ttl)::text, 16, '0') || ' ' || lpad(number::text, 16, '0')
                    || ' ' || :facts || chr(10)
                ELSE holders END,
            CASE WHEN verdict <> 'enter' THEN company
                WHEN held THEN CASE left(company, 1) WHEN :mode THEN :mode ELSE 'e' END
                    || CASE substr(company, 2) WHEN :owner THEN :owner ELSE '' END
                ELSE :mode || :owner END,
            CASE WHEN verdict = 'join' THEN expires
                WHEN held THEN greatest(expires, now + ttl)
                ELSE now + ttl END,
            CASE
                WHEN verdict = 'enter' AND {place} > 0 THEN {ahead} || {behind}
                WHEN verdict = 'join'
                    THEN line || claim_id || ' ' || now || ' ' || :facts || chr(10)
                ELSE line END
        FROM (
            -- With the offset it is computed once, and not at each mention.
            SELECT CASE WHEN {holds} THEN 'again' WHEN {enters} THEN 'enter' ELSE 'join' END
                    AS verdict,
                CASE WHEN {held} AND :mode = 'e'
                    THEN substr(holders, strpos(holders, ' ') + 18, 16)::bigint
                    ELSE greatest(fence + 1, now / 32) END AS number,
                {held} AS held
            OFFSET 0) AS judged)
    FROM asked
    WHERE name = :key {only} AND ({holds} OR {enters} OR {joins})
    RETURNING fence, stamp, holders, company, expires, line, others, now
), made AS (
    INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
    SELECT :key, now / 32, :stamp, claim_id || ' ' || lpad((now + ttl)::text, 16, '0') || ' '
        || lpad((now / 32)::text, 16, '0') || ' ' || :facts || chr(10),
        :mode || :owner, now + ttl, '', ''
    FROM asked
    WHERE NOT EXISTS (SELECT FROM {table} WHERE name = :key) {only}
    ON CONFLICT (name) DO NOTHING
    RETURNING fence, stamp, holders, company, expires, line, others
)
SELECT * FROM changed
UNION ALL SELECT made.*, now FROM made, asked
UNION ALL SELECT fence, stamp, holders, company, expires, line, others, now FROM {table}, asked
WHERE name = :key AND NOT EXISTS (SELECT FROM changed);

-- {enters_alone}
-- Of an exclusive claim without an owner: nobody holds, and nobody is before it in line.
(NOT {held} AND (line = '' OR {place} = 1))

-- take_alone
-- The same for an exclusive claim without an owner, the most common one. It computes less: there is
-- no company to enter. Where it neither enters nor holds, it joins, by the last condition.
WITH asked AS NOT MATERIALIZED (
    SELECT {clock} AS now, :claim_id::text AS claim_id, :ttl::bigint AS ttl
), changed AS (
    UPDATE {table} SET
        fence = CASE WHEN {enters_alone} THEN greatest(fence + 1, now / 32) ELSE fence END,
        stamp = :stamp,
        holders = CASE
            WHEN {enters_alone} THEN claim_id || ' ' || lpad((now + ttl)::text, 16, '0') || ' '
                || lpad(greatest(fence + 1, now / 32)::text, 16, '0') || ' ' || :facts || chr(10)
            WHEN {holds} THEN {longer}
            ELSE holders END,
        company = CASE WHEN {enters_alone} THEN 'e' ELSE company END,
        expires = CASE
            WHEN {enters_alone} THEN now + ttl
            WHEN {holds} THEN greatest(expires, now + ttl)
            ELSE expires END,
        line = CASE
            WHEN {enters_alone} THEN CASE line WHEN '' THEN '' ELSE {behind} END
            WHEN {holds} THEN line
            ELSE line || claim_id || ' ' || now || ' ' || :facts || chr(10) END
    FROM asked
    WHERE name = :key {only} AND ({holds} OR strpos(others, claim_id) = 0 AND (
        {enters_alone} OR {joins}))
    RETURNING fence, stamp, holders, company, expires, line, others, now
), made AS (
    INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
    SELECT :key, now / 32, :stamp, claim_id || ' ' || lpad((now + ttl)::text, 16, '0') || ' '
        || lpad((now / 32)::text, 16, '0') || ' ' || :facts || chr(10), 'e', now + ttl, '', ''
    FROM asked
    WHERE NOT EXISTS (SELECT FROM {table} WHERE name = :key) {only}
    ON CONFLICT (name) DO NOTHING
    RETURNING fence, stamp, holders, company, expires, line, others
)
SELECT * FROM changed
UNION ALL SELECT made.*, now FROM made, asked
UNION ALL SELECT fence, stamp, holders, company, expires, line, others, now FROM {table}, asked
WHERE name = :key AND NOT EXISTS (SELECT FROM changed);

-- take_known
-- What `take_alone` does where the row is there and nobody holds or waits: a client says it of a name
-- whose row it has seen. Else it changes nothing. The number is all that the client does not know.
UPDATE {table} SET fence = greatest(fence + 1, {clock} / 32), stamp = :stamp,
    holders = :claim_id || ' ' || lpad(({clock} + :ttl)::text, 16, '0') || ' '
        || lpad(greatest(fence + 1, {clock} / 32)::text, 16, '0') || ' ' || :facts || chr(10),
    company = 'e', expires = {clock} + :ttl
WHERE name = :key AND (holders = '' OR expires <= {clock}) AND line = '' AND others = '' {only}
RETURNING fence, pg_backend_pid();

-- extend
UPDATE {table} SET holders = {longer}, expires = greatest(expires, now + ttl), stamp = new_stamp
FROM unnest(:keys, :claim_ids, :ttls, :stamps) AS wanted (key, claim_id, ttl, new_stamp),
    (SELECT {clock} AS now) AS clock
WHERE name = key AND {holds}
RETURNING name, claim_id;

-- give_back
UPDATE {table} SET holders = {fewer}, stamp = new_stamp
FROM unnest(:keys, :claim_ids, :stamps) AS wanted (key, claim_id, new_stamp),
    (SELECT {clock} AS now) AS clock
WHERE name = key AND {holds}
RETURNING name, claim_id, fence, stamp, holders, company, expires, line, others, now;

-- give_back_alone
-- What `give_back` does with one, where nobody else holds. Else it changes nothing.
UPDATE {table} SET holders = '', stamp = :stamp
WHERE name = :key AND strpos(holders, :claim_id || ' ') = 1
    AND strpos(holders, chr(10)) = length(holders)
    AND substr(holders, length(:claim_id) + 2, 16) COLLATE "C" > lpad({clock}::text, 16, '0')
RETURNING line;

-- sweep
UPDATE {table} SET holders = {fewer}, stamp = new_stamp
FROM unnest(:keys, :claim_ids, :stamps) AS wanted (key, claim_id, new_stamp),
    (SELECT {clock} AS now) AS clock
WHERE name = key AND {own} > 0 AND NOT {holds}
RETURNING name, claim_id, fence, stamp, holders, company, expires, line, others, now;

-- leave
UPDATE {table} SET line = left(line, {place} - 1) || {behind}, stamp = new_stamp
FROM unnest(:keys, :claim_ids, :stamps) AS wanted (key, claim_id, new_stamp)
WHERE name = key AND {place} > 0
RETURNING name, claim_id, fence, stamp, holders, company, expires, line, others, {clock};

-- read
SELECT fence, stamp, holders, company, expires, line, others,
    {clock}
FROM unnest(:keys) WITH ORDINALITY AS wanted (key, place)
LEFT JOIN {table} ON name = wanted.key
ORDER BY place;

-- add
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES (:key, :fence, :stamp, :holders, :company, :expires, :line, :others)
ON CONFLICT (name) DO NOTHING RETURNING stamp;

-- swap
UPDATE {table} SET fence = :fence, stamp = :stamp, holders = :holders, company = :company,
    expires = :expires, line = :line, others = :others
WHERE name = :key AND stamp = :known RETURNING stamp;

-- scan
SELECT name, fence, stamp, holders, company, expires, line, others,
    {clock}
FROM {table} WHERE name >= :start AND name < :end AND name > :after ORDER BY name LIMIT :limit;

-- beat
-- Nobody's lock depends on it, so it does not wait for the disk.
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
SELECT :key, 0, 0, '', '', {clock} + :ttl, '', ''
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick
ON CONFLICT (name) DO UPDATE SET expires = excluded.expires;

-- living
SELECT name FROM {table}
WHERE name = ANY (:keys)
    AND expires > {clock} AND expires <= {clock} + :longest;

-- prune
-- Of the next so many rows in the order of their keys: which was the last, and what was deleted.
WITH clock AS NOT MATERIALIZED (
    SELECT {clock} AS now
), looked_at AS MATERIALIZED (
    SELECT name FROM {table} WHERE name > :after ORDER BY name LIMIT :limit
), deleted AS (
    DELETE FROM {table} WHERE name IN (
        SELECT idle.name FROM {table} AS idle, clock
        WHERE idle.name > :after
            AND idle.name <= (SELECT name FROM looked_at ORDER BY name DESC LIMIT 1)
            AND line = '' AND others COLLATE "C" < lpad(now::text, 16, '0')
            AND (holders = '' OR expires <= now)
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
SELECT fence, stamp, holders, company, expires, line, others,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
FROM {table} WHERE name = :name FOR UPDATE;

-- version
SELECT 'PostgreSQL ' || current_setting('server_version');
