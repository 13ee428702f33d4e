-- Text is compared byte by byte (COLLATE "C"), as SQLite does: lists come in the same order from either database,
-- whatever the locale of this one.

-- One row, which is also the lock that lets one writer in at a time: a transaction begins by raising `commits`. `epoch`
-- names this database's life: a filter that holds a cursor of another epoch starts over. `rev` counts changes to
-- agents; it is raised in the same transaction as the change it numbers.
CREATE TABLE meta (
    id          BIGINT  PRIMARY KEY CHECK (id = 1),
    epoch       TEXT    NOT NULL,
    rev         BIGINT  NOT NULL DEFAULT 0,
    -- How many transactions there were: how a replica that missed a notification sees that there was one.
    commits     BIGINT  NOT NULL DEFAULT 0,
    -- Written by the readiness probe, so that a database that takes no writes is noticed before a kill is.
    checked_ms  BIGINT  NOT NULL DEFAULT 0
);

INSERT INTO meta (id, epoch) VALUES (1, replace(gen_random_uuid()::text, '-', ''));

-- Policy and state of each agent. Rows are never removed: a deleted agent stays as a tombstone, so that filters hear of
-- the deletion however late they ask, and so that its generation goes on rising if it comes back.
CREATE TABLE agents (
    agent_id                 TEXT    COLLATE "C" PRIMARY KEY,
    name                     TEXT    COLLATE "C" NOT NULL DEFAULT '',
    active                   BOOLEAN NOT NULL DEFAULT TRUE,
    deactivated_by           TEXT    CHECK (deactivated_by IN ('kill_switch', 'manual')),
    generation               BIGINT  NOT NULL DEFAULT 1,
    kill_switch_enabled      BOOLEAN NOT NULL DEFAULT FALSE,
    kill_switch_window_size  BIGINT  NOT NULL,
    kill_switch_threshold    DOUBLE PRECISION NOT NULL,
    action                   TEXT    NOT NULL CHECK (action IN ('deactivate', 'block', 'observe')),
    counting                 TEXT    NOT NULL CHECK (counting IN ('literal', 'progress')),
    retry_after_seconds      BIGINT  NOT NULL,
    -- Null until the first traffic: a policy can be set before.
    first_seen_ms            BIGINT,
    last_seen_ms             BIGINT,
    -- The revision of the last change: what filters ask for, and the ETag.
    rev                      BIGINT  NOT NULL UNIQUE,
    -- Created by traffic and never touched by a person. Their number is capped.
    discovered               BOOLEAN NOT NULL DEFAULT FALSE,
    deleted                  BOOLEAN NOT NULL DEFAULT FALSE,
    CHECK (NOT active OR deactivated_by IS NULL)
);

CREATE INDEX agents_discovered ON agents (agent_id) WHERE discovered AND NOT deleted;

-- What happened, append-only. `detail` is a JSON object: its members differ by type. It is kept as text, since JSONB
-- takes no \u0000, and what agents say may hold one. Numbers are given out under the writers' lock: a lower one is
-- never committed after a higher one. A transaction that is rolled back leaves a gap.
CREATE TABLE events (
    id          BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms       BIGINT  NOT NULL,
    event_type  TEXT    NOT NULL,
    agent_id    TEXT    COLLATE "C" NOT NULL,
    generation  BIGINT  NOT NULL,
    actor       TEXT    NOT NULL,
    reason      TEXT    NOT NULL DEFAULT '',
    detail      TEXT    NOT NULL DEFAULT '{}'
);

CREATE INDEX events_by_agent ON events (agent_id, id);
CREATE INDEX events_by_type ON events (event_type, id);
CREATE INDEX events_by_time ON events (at_ms);

-- Every report that was taken, so that a retry is recognised. The second index is the promise itself: one kill per
-- agent and generation, however many Envoys report it, to however many replicas.
CREATE TABLE kills (
    kill_id      TEXT    COLLATE "C" PRIMARY KEY,
    agent_id     TEXT    COLLATE "C" NOT NULL,
    generation   BIGINT  NOT NULL,
    outcome      TEXT    NOT NULL CHECK (outcome IN ('applied', 'duplicate', 'stale', 'observed', 'blocked')),
    event_id     BIGINT  NOT NULL,
    received_ms  BIGINT  NOT NULL
);

CREATE UNIQUE INDEX kills_once_per_generation ON kills (agent_id, generation) WHERE outcome = 'applied';
CREATE INDEX kills_by_time ON kills (received_ms);

-- Events that somebody may want to be told of, written with the event. Whoever delivers alerts takes rows from here and
-- removes them; a row that nobody took expires.
CREATE TABLE alert_outbox (
    event_id    BIGINT  PRIMARY KEY,
    created_ms  BIGINT  NOT NULL,
    expires_ms  BIGINT  NOT NULL
);

CREATE INDEX alert_outbox_by_expiry ON alert_outbox (expires_ms);

-- Scores for the timeline: bounded per agent and in age.
CREATE TABLE scores (
    id                   BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id             TEXT    COLLATE "C" NOT NULL,
    at_ms                BIGINT  NOT NULL,
    score                DOUBLE PRECISION NOT NULL,
    similar_prompts      BIGINT  NOT NULL,
    similar_responses    BIGINT  NOT NULL,
    repeated_tool_calls  BIGINT  NOT NULL
);

CREATE INDEX scores_by_agent ON scores (agent_id, id);
CREATE INDEX scores_by_time ON scores (at_ms);

-- Bearer tokens. Only the SHA-256 of the secret is kept; revoked ones stay for the record.
CREATE TABLE tokens (
    token_id    TEXT    COLLATE "C" PRIMARY KEY,
    name        TEXT    NOT NULL,
    scope       TEXT    NOT NULL CHECK (scope IN ('enforcer', 'viewer', 'operator')),
    hash        BYTEA   NOT NULL UNIQUE,
    created_ms  BIGINT  NOT NULL,
    revoked_ms  BIGINT
);
