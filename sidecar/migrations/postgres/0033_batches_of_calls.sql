-- The calls of guarded agents as filters report them: fingerprints and times, never text. The story of a kill and the preview
-- of settings run them through the detector again. Each row has all that one worker reported within about a second. The
-- calls that were stored one by one before are few and recent, and are given up.
DROP TABLE calls;

CREATE TABLE calls (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id    TEXT COLLATE "C" NOT NULL,
    -- The version of the layout of the items. Rows of another version are not read.
    version     BIGINT NOT NULL,
    -- How repeats were counted, which also decides how a request is read.
    counting    TEXT NOT NULL,
    generation  BIGINT NOT NULL,
    envoy       TEXT NOT NULL,
    sender      TEXT NOT NULL,
    -- When the latest report was sent, by the clock of the Envoy, and when it arrived.
    sent_ms     BIGINT NOT NULL,
    arrived_ms  BIGINT NOT NULL,
    items       BYTEA NOT NULL,
    -- How many calls of the agent have been stored up to now, those of this second included.
    total       BIGINT NOT NULL
);

CREATE INDEX calls_by_agent ON calls (agent_id, total);
CREATE INDEX calls_by_time ON calls (arrived_ms);
