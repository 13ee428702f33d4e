-- The calls of guarded agents as filters report them: fingerprints and times, never text. The story of a kill and the preview
-- of settings run them through the detector again. Each row has all that one worker reported within about a second. The
-- calls that were stored one by one before are few and recent, and are given up.
DROP TABLE calls;

CREATE TABLE calls (
    id          INTEGER PRIMARY KEY,
    agent_id    TEXT    NOT NULL,
    -- The version of the layout of the items. Rows of another version are not read.
    version     INTEGER NOT NULL,
    -- How repeats were counted, which also decides how a request is read.
    counting    TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    envoy       TEXT    NOT NULL,
    sender      TEXT    NOT NULL,
    -- When the latest report was sent, by the clock of the Envoy, and when it arrived.
    sent_ms     INTEGER NOT NULL,
    arrived_ms  INTEGER NOT NULL,
    items       BLOB    NOT NULL,
    -- How many calls of the agent have been stored up to now, those of this second included.
    total       INTEGER NOT NULL
) STRICT;

CREATE INDEX calls_by_agent ON calls (agent_id, total);
CREATE INDEX calls_by_time ON calls (arrived_ms);
