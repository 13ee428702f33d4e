-- Every worker of an Envoy reports its own scores, so they do not arrive in the order of the calls. Calls of the same
-- millisecond are in the order of their numbers in the window.
ALTER TABLE scores ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
DROP INDEX scores_by_agent;
CREATE INDEX scores_by_agent ON scores (agent_id, at_ms, sequence, id);
