-- One row. `epoch` names this database's life: a filter that holds a cursor of another epoch starts over. `rev` counts
-- changes to agents; it is raised in the same transaction as the change it numbers.
CREATE TABLE meta (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    epoch       TEXT    NOT NULL,
    rev         INTEGER NOT NULL DEFAULT 0,
    -- Written by the readiness probe, so that a full or read-only disk is noticed before a kill is.
    checked_ms  INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO meta (id, epoch) VALUES (1, lower(hex(randomblob(8))));

-- Policy and state of each agent. Rows are never removed: a deleted agent stays as a tombstone, so that filters hear of
-- the deletion however late they ask, and so that its generation goes on rising if it comes back.
CREATE TABLE agents (
    agent_id                 TEXT    PRIMARY KEY,
    name                     TEXT    NOT NULL DEFAULT '',
    active                   INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    deactivated_by           TEXT    CHECK (deactivated_by IN ('kill_switch', 'manual')),
    generation               INTEGER NOT NULL DEFAULT 1,
    kill_switch_enabled      INTEGER NOT NULL DEFAULT 0 CHECK (kill_switch_enabled IN (0, 1)),
    kill_switch_window_size  INTEGER NOT NULL,
    kill_switch_threshold    REAL    NOT NULL,
    action                   TEXT    NOT NULL CHECK (action IN ('deactivate', 'block', 'observe')),
    counting                 TEXT    NOT NULL CHECK (counting IN ('literal', 'progress')),
    retry_after_seconds      INTEGER NOT NULL,
    -- Null until the first traffic: a policy can be set before.
    first_seen_ms            INTEGER,
    last_seen_ms             INTEGER,
    -- The revision of the last change: what filters ask for, and the ETag.
    rev                      INTEGER NOT NULL UNIQUE,
    -- Created by traffic and never touched by a person. Their number is capped.
    discovered               INTEGER NOT NULL DEFAULT 0 CHECK (discovered IN (0, 1)),
    deleted                  INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
    CHECK (active = 0 OR deactivated_by IS NULL)
) STRICT;

CREATE INDEX agents_discovered ON agents (agent_id) WHERE discovered = 1 AND deleted = 0;

-- What happened, append-only. `detail` is a JSON object: its members differ by type.
CREATE TABLE events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms       INTEGER NOT NULL,
    event_type  TEXT    NOT NULL,
    agent_id    TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    reason      TEXT    NOT NULL DEFAULT '',
    detail      TEXT    NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX events_by_agent ON events (agent_id, id);
CREATE INDEX events_by_type ON events (event_type, id);
CREATE INDEX events_by_time ON events (at_ms);

-- Every report that was taken, so that a retry is recognised. The second index is the promise itself: one kill per
-- agent and generation, however many Envoys report it.
CREATE TABLE kills (
    kill_id      TEXT    PRIMARY KEY,
    agent_id     TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    outcome      TEXT    NOT NULL CHECK (outcome IN ('applied', 'duplicate', 'stale', 'observed', 'blocked')),
    event_id     INTEGER NOT NULL,
    received_ms  INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX kills_once_per_generation ON kills (agent_id, generation) WHERE outcome = 'applied';
CREATE INDEX kills_by_time ON kills (received_ms);

-- Events that somebody may want to be told of, written with the event. Whoever delivers alerts takes rows from here and
-- removes them; a row that nobody took expires.
CREATE TABLE alert_outbox (
    event_id    INTEGER PRIMARY KEY,
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX alert_outbox_by_expiry ON alert_outbox (expires_ms);

-- Scores for the timeline: bounded per agent and in age.
CREATE TABLE scores (
    id                   INTEGER PRIMARY KEY,
    agent_id             TEXT    NOT NULL,
    at_ms                INTEGER NOT NULL,
    score                REAL    NOT NULL,
    similar_prompts      INTEGER NOT NULL,
    similar_responses    INTEGER NOT NULL,
    repeated_tool_calls  INTEGER NOT NULL
) STRICT;

CREATE INDEX scores_by_agent ON scores (agent_id, id);
CREATE INDEX scores_by_time ON scores (at_ms);

-- Bearer tokens. Only the SHA-256 of the secret is kept; revoked ones stay for the record.
CREATE TABLE tokens (
    token_id    TEXT    PRIMARY KEY,
    name        TEXT    NOT NULL,
    scope       TEXT    NOT NULL CHECK (scope IN ('enforcer', 'viewer', 'operator')),
    hash        BLOB    NOT NULL UNIQUE,
    created_ms  INTEGER NOT NULL,
    revoked_ms  INTEGER
) STRICT;
