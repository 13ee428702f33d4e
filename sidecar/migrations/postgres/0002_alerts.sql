-- Who is told of loops, and how. Removed for good when deleted; the history keeps what was sent under it.
CREATE TABLE alert_rules (
    rule_id           TEXT    COLLATE "C" PRIMARY KEY,
    rule_type         TEXT    NOT NULL DEFAULT 'kill_switch' CHECK (rule_type IN ('kill_switch')),
    name              TEXT    NOT NULL DEFAULT '',
    -- Null: every agent.
    agent_id          TEXT    COLLATE "C",
    channel           TEXT    NOT NULL CHECK (channel IN ('webhook', 'slack', 'email')),
    -- A URL, or mail addresses with commas between them.
    target            TEXT    NOT NULL,
    -- Webhooks only. Kept as it is: a signature cannot be made from a hash.
    secret            BYTEA,
    cooldown_seconds  BIGINT  NOT NULL,
    -- Whether activation after a kill is told too.
    recovery          BOOLEAN NOT NULL,
    enabled           BOOLEAN NOT NULL,
    -- Why it was switched off, where the sidecar itself did.
    disabled_reason   TEXT    NOT NULL DEFAULT '',
    created_ms        BIGINT  NOT NULL
);

-- Each notice to each rule: work while it is pending, history afterwards. `delivery_id` is what receivers see as
-- webhook-id, the same on every try, and `payload` is what every try sends.
CREATE TABLE alert_deliveries (
    seq              BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id      TEXT    COLLATE "C" NOT NULL UNIQUE,
    rule_id          TEXT    COLLATE "C" NOT NULL,
    channel          TEXT    NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind IN ('kill_switch', 'blocked', 'would_kill', 'activated', 'test')),
    agent_id         TEXT    COLLATE "C" NOT NULL,
    -- Null for a test.
    event_id         BIGINT,
    payload          TEXT    NOT NULL,
    status           TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'given_up', 'held_back')),
    attempts         BIGINT  NOT NULL DEFAULT 0,
    created_ms       BIGINT  NOT NULL,
    next_attempt_ms  BIGINT  NOT NULL,
    give_up_ms       BIGINT  NOT NULL,
    last_attempt_ms  BIGINT,
    -- The receiver's answer: an HTTP status or an SMTP code.
    last_code        BIGINT,
    last_latency_ms  BIGINT,
    last_error       TEXT    NOT NULL DEFAULT '',
    -- Until when one replica has this try to itself. By the database's clock: those of the replicas may differ.
    claimed_until    TIMESTAMPTZ NOT NULL DEFAULT '-infinity'
);

-- An event is told once under each rule, however often the outbox is looked at.
CREATE UNIQUE INDEX alert_deliveries_once ON alert_deliveries (rule_id, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX alert_deliveries_due ON alert_deliveries (next_attempt_ms) WHERE status = 'pending';
CREATE INDEX alert_deliveries_by_agent ON alert_deliveries (rule_id, agent_id, seq);
CREATE INDEX alert_deliveries_by_time ON alert_deliveries (created_ms);
