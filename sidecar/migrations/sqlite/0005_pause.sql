-- The latest pause of the whole fleet, in force or over. At most one row; the history is in the events.
CREATE TABLE pause (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    since_ms   INTEGER NOT NULL,
    until_ms   INTEGER NOT NULL,
    -- Kills that were detected at this time or before stay as they are. Later ones are given back.
    spares_after_ms INTEGER NOT NULL,
    cause      TEXT    NOT NULL CHECK (cause IN ('manual', 'storm')),
    -- Who paused: the name of the credential, and the person if one was named.
    actor      TEXT    NOT NULL,
    person     TEXT,
    reason     TEXT    NOT NULL,
    event_id   INTEGER NOT NULL,
    -- When it was ended, by a person or because its time was up. Null until then.
    ended_ms   INTEGER
) STRICT;

-- When a loop was detected, which may be long before it was reported, and what its report stopped.
ALTER TABLE kills ADD COLUMN detected_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE kills ADD COLUMN scope TEXT NOT NULL DEFAULT 'agent' CHECK (scope IN ('agent', 'session'));
UPDATE kills SET detected_ms = received_ms;
UPDATE kills SET scope = 'session' WHERE kill_id IN (SELECT kill_id FROM stopped_sessions);
CREATE INDEX kills_by_detection ON kills (detected_ms);

-- Notices can now also be about the pause. SQLite cannot change a CHECK, so the table is copied; the program knows the
-- kinds, and a list of them here would have to be copied again for every new one.
CREATE TABLE alert_deliveries_of_any_kind (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id      TEXT    NOT NULL UNIQUE,
    rule_id          TEXT    NOT NULL,
    channel          TEXT    NOT NULL,
    kind             TEXT    NOT NULL,
    agent_id         TEXT    NOT NULL,
    -- Null for a test.
    event_id         INTEGER,
    payload          TEXT    NOT NULL,
    status           TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'given_up', 'held_back')),
    attempts         INTEGER NOT NULL DEFAULT 0,
    created_ms       INTEGER NOT NULL,
    next_attempt_ms  INTEGER NOT NULL,
    give_up_ms       INTEGER NOT NULL,
    last_attempt_ms  INTEGER,
    -- The receiver's answer: an HTTP status or an SMTP code.
    last_code        INTEGER,
    last_latency_ms  INTEGER,
    last_error       TEXT    NOT NULL DEFAULT '',
    scope            TEXT    NOT NULL DEFAULT 'agent' CHECK (scope IN ('agent', 'session'))
) STRICT;
INSERT INTO alert_deliveries_of_any_kind (seq, delivery_id, rule_id, channel, kind, agent_id, event_id, payload, status,
        attempts, created_ms, next_attempt_ms, give_up_ms, last_attempt_ms, last_code, last_latency_ms, last_error, scope)
    SELECT seq, delivery_id, rule_id, channel, kind, agent_id, event_id, payload, status,
        attempts, created_ms, next_attempt_ms, give_up_ms, last_attempt_ms, last_code, last_latency_ms, last_error, scope
    FROM alert_deliveries;
DROP TABLE alert_deliveries;
ALTER TABLE alert_deliveries_of_any_kind RENAME TO alert_deliveries;
CREATE UNIQUE INDEX alert_deliveries_once ON alert_deliveries (rule_id, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX alert_deliveries_due ON alert_deliveries (next_attempt_ms) WHERE status = 'pending';
CREATE INDEX alert_deliveries_by_agent ON alert_deliveries (rule_id, agent_id, seq);
CREATE INDEX alert_deliveries_by_time ON alert_deliveries (created_ms);
