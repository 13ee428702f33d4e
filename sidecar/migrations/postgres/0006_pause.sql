-- The latest pause of the whole fleet, in force or over. At most one row; the history is in the events.
CREATE TABLE pause (
    id         BIGINT  PRIMARY KEY CHECK (id = 1),
    since_ms   BIGINT  NOT NULL,
    until_ms   BIGINT  NOT NULL,
    -- Kills that were detected at this time or before stay as they are. Later ones are given back.
    spares_after_ms BIGINT NOT NULL,
    cause      TEXT    NOT NULL CHECK (cause IN ('manual', 'storm')),
    -- Who paused: the name of the credential, and the person if one was named.
    actor      TEXT    NOT NULL,
    person     TEXT,
    reason     TEXT    NOT NULL,
    event_id   BIGINT  NOT NULL,
    -- When it was ended, by a person or because its time was up. Null until then.
    ended_ms   BIGINT
);

-- When a loop was detected, which may be long before it was reported, and what its report stopped.
ALTER TABLE kills ADD COLUMN detected_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE kills ADD COLUMN scope TEXT NOT NULL DEFAULT 'agent' CHECK (scope IN ('agent', 'session'));
UPDATE kills SET detected_ms = received_ms;
UPDATE kills SET scope = 'session' WHERE kill_id IN (SELECT kill_id FROM stopped_sessions);
CREATE INDEX kills_by_detection ON kills (detected_ms);

-- Notices can now also be about the pause. The program knows the kinds.
ALTER TABLE alert_deliveries DROP CONSTRAINT alert_deliveries_kind_check;
