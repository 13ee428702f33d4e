-- The latest pause of the whole fleet, in force or over. At most one row; the history is in the events.
CREATE TABLE pause (
    id         BIGINT  PRIMARY KEY CHECK (id = 1),
    since_ms   BIGINT  NOT NULL,
    until_ms   BIGINT  NOT NULL,
    cause      TEXT    NOT NULL CHECK (cause IN ('manual', 'storm')),
    -- Who paused: the name of the credential, and the person if one was named.
    actor      TEXT    NOT NULL,
    person     TEXT,
    reason     TEXT    NOT NULL,
    event_id   BIGINT  NOT NULL,
    -- When it was ended, by a person or because its time was up. Null until then.
    ended_ms   BIGINT
);

-- Notices can now also be about the pause. The program knows the kinds.
ALTER TABLE alert_deliveries DROP CONSTRAINT alert_deliveries_kind_check;
