-- Rules can now also notify PagerDuty, Microsoft Teams and the runtimes of agents. SQLite cannot change a CHECK, so the
-- table is copied; the program knows the channels, and a list of them here would have to be copied again for every new one.
CREATE TABLE alert_rules_of_any_channel (
    rule_id           TEXT    PRIMARY KEY,
    rule_type         TEXT    NOT NULL DEFAULT 'kill_switch' CHECK (rule_type IN ('kill_switch')),
    name              TEXT    NOT NULL DEFAULT '',
    -- Null: every agent.
    agent_id          TEXT,
    channel           TEXT    NOT NULL,
    -- A URL, a key, or mail addresses with commas between them.
    target            TEXT    NOT NULL,
    -- Signed channels only. Kept as it is: a signature cannot be made from a hash.
    secret            BLOB,
    cooldown_seconds  INTEGER NOT NULL,
    -- Whether activation after a kill is told too.
    recovery          INTEGER NOT NULL CHECK (recovery IN (0, 1)),
    enabled           INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    -- Why it was switched off, where the sidecar itself did.
    disabled_reason   TEXT    NOT NULL DEFAULT '',
    created_ms        INTEGER NOT NULL
) STRICT;
INSERT INTO alert_rules_of_any_channel (rule_id, rule_type, name, agent_id, channel, target, secret, cooldown_seconds,
        recovery, enabled, disabled_reason, created_ms)
    SELECT rule_id, rule_type, name, agent_id, channel, target, secret, cooldown_seconds,
        recovery, enabled, disabled_reason, created_ms
    FROM alert_rules;
DROP TABLE alert_rules;
ALTER TABLE alert_rules_of_any_channel RENAME TO alert_rules;
