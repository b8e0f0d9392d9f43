-- The table of locks on Firebird, for transactions that are READ COMMITTED.
-- A block locks the row, whose newest version it then sees, and judges it by the clock of its own
-- beginning. Whoever else wants the row waits until this transaction is over.

-- {text}
BLOB SUB_TYPE TEXT CHARACTER SET ASCII

-- {name}
VARCHAR(1200) CHARACTER SET OCTETS

-- create
CREATE TABLE {table} (
    name {name} NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    stamp BIGINT NOT NULL,
    holders {text} NOT NULL,
    company VARCHAR(8000) CHARACTER SET ASCII NOT NULL,
    expires BIGINT NOT NULL,
    line {text} NOT NULL,
    others {text} NOT NULL
);

-- {key}
-- Of two keys the shorter would be filled up with zeros, and so be equal to a name that ends in some.
CAST(:key AS {name}) || x'01'

-- {clock}
-- In milliseconds, as Firebird has them, and in UTC: so the session is, or the server must be.
CAST(DATEDIFF(MILLISECOND FROM TIMESTAMP '1970-01-01 00:00' TO LOCALTIMESTAMP) AS BIGINT) * 1000

-- {look}
-- How each block begins: `own` and `place` say where the claim's own record begins among the holders,
-- and in the line, or 0; `ends` when that hold ends, in 16 digits.
RETURNS (number BIGINT, mark BIGINT, holders {text}, company VARCHAR(8000) CHARACTER SET ASCII,
    until BIGINT, line {text}, others {text}, now BIGINT)
AS
DECLARE nl CHAR(1) CHARACTER SET ASCII = x'0A';
DECLARE own INTEGER;
DECLARE place INTEGER;
DECLARE ends VARCHAR(16) CHARACTER SET ASCII;
DECLARE lives BOOLEAN;
DECLARE held BOOLEAN;
DECLARE ahead {text};
DECLARE verdict VARCHAR(5);
DECLARE granted BIGINT;
BEGIN
    k = k || x'01';
    now = {clock};
    SELECT fence, stamp, holders, company, expires, line, others FROM {table} WHERE name = :k
        WITH LOCK INTO :number, :mark, :holders, :company, :until, :line, :others;
    own = POSITION(nl || id || ' ', nl || holders);
    place = POSITION(nl || id || ' ', nl || line);
    ends = SUBSTRING(holders FROM own + CHAR_LENGTH(id) + 1 FOR 16);
    lives = (own > 0 AND ends > LPAD(now, 16, '0'));

-- {write}
-- Whoever found no row makes one, or is undone: one that somebody made meanwhile is not locked.
IF (mark IS NULL) THEN
            INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
            VALUES (:k, :number, :s, :holders, :company, :until, :line, :others);
        ELSE
            UPDATE {table} SET fence = :number, stamp = :s, holders = :holders,
                company = :company, expires = :until, line = :line, others = :others
            WHERE name = :k;
        mark = s;
        SUSPEND

-- {longer}
-- A new end of this hold, unless it ends later already.
holders = OVERLAY(holders PLACING MAXVALUE(ends, LPAD(now + lasts, 16, '0'))
            FROM own + CHAR_LENGTH(id) + 1);
        until = MAXVALUE(until, now + lasts)

-- {leave_holders}
holders = LEFT(holders, own - 1) || SUBSTRING(holders FROM POSITION(nl, holders, own) + 1)

-- {leave_line}
line = LEFT(line, place - 1) || SUBSTRING(line FROM POSITION(nl, line, place) + 1)

-- {claim}
EXECUTE BLOCK (k {name} = :key, id VARCHAR(80) CHARACTER SET ASCII = :claim_id, s BIGINT = :stamp

-- {record}
id || ' ' || LPAD(now + lasts, 16, '0') || ' ' || LPAD(granted, 16, '0') || ' ' || facts_ || nl

-- take
{claim}, lasts BIGINT = :ttl, facts_ VARCHAR(32000) CHARACTER SET ASCII = :facts,
    queues INTEGER = :queue, how VARCHAR(1) CHARACTER SET ASCII = :mode,
    whose VARCHAR(8000) CHARACTER SET ASCII = :owner, most BIGINT = :permits)
{look}
    IF (mark IS NULL) THEN
    BEGIN
        number = 0; until = 0; own = 0; place = 0; lives = FALSE;
        holders = ''; company = ''; line = ''; others = '';
    END
    held = (holders <> '' AND until > now);
    ahead = line;
    IF (place > 0) THEN ahead = LEFT(line, place - 1);
    IF (lives) THEN verdict = 'again';
    ELSE IF (POSITION(id, others) = 0 AND NOT (held AND POSITION(id, holders) > 0) AND (
        how = 'e' AND held AND whose <> '' AND SUBSTRING(company FROM 2) = whose
        OR how = 'e' AND NOT held AND ahead = ''
        OR how = 's' AND (NOT held OR LEFT(company, 1) = 's') AND POSITION(' ["e",', ahead) = 0
        OR how = 'p' AND IIF(held, CHAR_LENGTH(holders) - CHAR_LENGTH(REPLACE(holders, nl, '')), 0)
            + CHAR_LENGTH(ahead) - CHAR_LENGTH(REPLACE(ahead, nl, '')) < most)) THEN verdict = 'enter';
    ELSE IF (queues = 1 AND POSITION(id, others) = 0 AND place = 0
        AND (own > 0 OR POSITION(id, holders) = 0)) THEN verdict = 'join';
    IF (verdict = 'again') THEN BEGIN {longer}; END
    IF (verdict = 'join') THEN line = line || id || ' ' || now || ' ' || facts_ || nl;
    IF (verdict = 'enter') THEN
    BEGIN
        granted = MAXVALUE(number + 1, now / 32);
        IF (held AND how = 'e') THEN
            granted = CAST(SUBSTRING(holders FROM POSITION(' ', holders) + 18 FOR 16) AS BIGINT);
        number = MAXVALUE(number, granted);
        IF (place > 0) THEN {leave_line};
        holders = IIF(held, holders, '') || {record};
        company = IIF(held, IIF(LEFT(company, 1) = how, how, 'e')
            || IIF(SUBSTRING(company FROM 2) = whose, whose, ''), how || whose);
        until = IIF(held, MAXVALUE(until, now + lasts), now + lasts);
    END
    IF (verdict IS NULL) THEN SUSPEND;
    ELSE BEGIN {write}; END
END;

-- extend
{claim}, lasts BIGINT = :ttl)
{look}
    IF (lives) THEN BEGIN {longer}; {write}; END
END;

-- give_back
{claim})
{look}
    IF (lives) THEN BEGIN {leave_holders}; {write}; END
END;

-- sweep
{claim})
{look}
    IF (own > 0 AND NOT lives) THEN BEGIN {leave_holders}; {write}; END
END;

-- leave
{claim})
{look}
    IF (place > 0) THEN BEGIN {leave_line}; {write}; END
END;

-- read
SELECT fence, stamp, holders, company, expires, line, others, {clock}
FROM RDB$DATABASE LEFT JOIN {table} ON name = {key};

-- add
INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
SELECT {key}, CAST(:fence AS BIGINT), CAST(:stamp AS BIGINT), CAST(:holders AS {text}),
    CAST(:company AS VARCHAR(8000)), CAST(:expires AS BIGINT), CAST(:line AS {text}),
    CAST(:others AS {text})
FROM RDB$DATABASE WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE name = {key})
RETURNING stamp;

-- swap
UPDATE {table} SET fence = :fence, stamp = :stamp, holders = :holders, company = :company,
    expires = :expires, line = :line, others = :others
WHERE name = {key} AND stamp = :known RETURNING stamp;

-- scan
SELECT CAST(SUBSTRING(name FROM 1 FOR OCTET_LENGTH(name) - 1) AS BLOB SUB_TYPE BINARY),
    fence, stamp, holders, company, expires, line, others, {clock}
FROM {table}
WHERE name >= CAST(:start AS {name}) AND name < CAST(:end AS {name})
    AND name > CAST(:after AS {name}) || x'01'
ORDER BY name ROWS :limit;

-- beat
UPDATE OR INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
VALUES ({key}, 0, 0, '', '', {clock} + CAST(:ttl AS BIGINT), '', '') MATCHING (name);

-- living
SELECT 1 FROM {table} WHERE name = {key}
    AND expires > {clock} AND expires <= {clock} + CAST(:longest AS BIGINT);

-- {idle}
line = '' AND others < LPAD({clock}, 16, '0') AND (holders = '' OR expires <= {clock})
        AND (name >= x'63' AND name < x'64' AND expires < {clock}
            OR (name >= x'6c' AND name < x'6d' OR name >= x'70' AND name < x'71')
                AND fence * 32 < {clock} - 86400000000 AND expires < {clock} - 86400000000)

-- prune
-- Each in a transaction of its own: nobody waits for a row that waits for another one (L13).
EXECUTE BLOCK (most INTEGER = :limit) RETURNS (k {name}) AS
BEGIN
    FOR SELECT name FROM {table} WHERE {idle} ROWS :most INTO :k DO
    BEGIN
        IN AUTONOMOUS TRANSACTION DO DELETE FROM {table} WHERE name = :k AND {idle};
        SUSPEND;
        WHEN ANY DO BEGIN END
    END
END;

-- version
SELECT 'Firebird ' || RDB$GET_CONTEXT('SYSTEM', 'ENGINE_VERSION') FROM RDB$DATABASE;
