-- After how long a silence a run is over, what a loop stops, for how long a conversation is stopped, and how many stopped
-- conversations deactivate the agent.
ALTER TABLE agents ADD COLUMN idle_reset_seconds BIGINT NOT NULL DEFAULT 120;
ALTER TABLE agents ADD COLUMN scope TEXT NOT NULL DEFAULT 'agent' CHECK (scope IN ('agent', 'session'));
ALTER TABLE agents ADD COLUMN session_stop_seconds BIGINT NOT NULL DEFAULT 3600;
ALTER TABLE agents ADD COLUMN escalate_after BIGINT NOT NULL DEFAULT 5;
-- Why the kill switch deactivated the agent. Null while it is active, or if a person deactivated it.
ALTER TABLE agents ADD COLUMN kill_reason TEXT;

-- The conversations that the kill switch has stopped while their agents went on.
CREATE TABLE stopped_sessions (
    id             BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id       TEXT    COLLATE "C" NOT NULL,
    -- A stop of another generation than the agent's is over.
    generation     BIGINT  NOT NULL,
    -- The hash by which filters identify the conversation.
    session_key    TEXT    COLLATE "C" NOT NULL,
    -- The id that the client sent. Null if it sent none.
    session_id     TEXT,
    -- How often a person had let the conversation go on before this stop.
    releases       BIGINT  NOT NULL,
    kill_id        TEXT    COLLATE "C" NOT NULL,
    event_id       BIGINT  NOT NULL,
    action         TEXT    NOT NULL CHECK (action IN ('deactivate', 'block')),
    reason         TEXT    NOT NULL,
    stopped_ms     BIGINT  NOT NULL,
    until_ms       BIGINT  NOT NULL,
    -- Until when filters are told of the stop, or of its release.
    told_until_ms  BIGINT  NOT NULL,
    -- When a person let the conversation go on, and who did.
    released_ms    BIGINT,
    released_by    TEXT
);

-- A conversation is stopped once, however many Envoys report it, to however many replicas, until a person lets it go on.
CREATE UNIQUE INDEX stopped_sessions_once ON stopped_sessions (agent_id, generation, session_key, releases);
CREATE INDEX stopped_sessions_by_time ON stopped_sessions (told_until_ms);

-- Notices about conversations and notices about whole agents do not hold each other back.
ALTER TABLE alert_deliveries ADD COLUMN scope TEXT NOT NULL DEFAULT 'agent' CHECK (scope IN ('agent', 'session'));

-- A report can now have the outcome 'stopped'.
ALTER TABLE kills DROP CONSTRAINT kills_outcome_check;
ALTER TABLE kills ADD CONSTRAINT kills_outcome_check
    CHECK (outcome IN ('applied', 'stopped', 'duplicate', 'stale', 'observed', 'blocked'));
