-- The latest calls of guarded agents as filters report them: fingerprints and times, never text. The story of a kill and the
-- preview of settings run them through the detector again. Bounded per agent and in age, like the scores.
CREATE TABLE calls (
    id          BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id    TEXT    COLLATE "C" NOT NULL,
    generation  BIGINT  NOT NULL,
    -- The version of the layout of item and answer. Rows of another version are not read.
    version     BIGINT  NOT NULL,
    -- How repeats were counted, which also decides how a request is read.
    counting    TEXT    NOT NULL,
    envoy       TEXT    NOT NULL,
    sender      TEXT    COLLATE "C" NOT NULL,
    number      BIGINT  NOT NULL,
    at_ms       BIGINT  NOT NULL,
    item        BYTEA   NOT NULL,
    -- The item of the answer, once it is known.
    answer      BYTEA
);

CREATE INDEX calls_by_agent ON calls (agent_id, id);
CREATE UNIQUE INDEX calls_by_number ON calls (agent_id, sender, number);
CREATE INDEX calls_by_time ON calls (at_ms);

-- How many calls were refused since an event stopped an agent or a conversation, and before the next one did.
CREATE TABLE refusals (
    event_id    BIGINT  PRIMARY KEY,
    calls       BIGINT  NOT NULL,
    last_ms     BIGINT  NOT NULL
);

-- Who was told of an event.
CREATE INDEX alert_deliveries_by_event ON alert_deliveries (event_id) WHERE event_id IS NOT NULL;
