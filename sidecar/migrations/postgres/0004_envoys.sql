-- Which Envoys each replica has heard of, so that all of them list them all. Written every few seconds by the replica
-- that heard of an Envoy last; what is old is removed.
CREATE TABLE envoys (
    envoy         TEXT    COLLATE "C" PRIMARY KEY,
    -- Null while it has not got this database's first answer.
    applied_rev   BIGINT,
    last_seen_ms  BIGINT  NOT NULL
);
