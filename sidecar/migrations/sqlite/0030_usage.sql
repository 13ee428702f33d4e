-- The tokens that answers stated, by agent, day and model, and the calls that were refused. A day is a day of UTC, counted
-- from 1970. The empty name stands for answers that name no model, and for models that did not fit; its row also has the
-- refused calls of the day.
CREATE TABLE usage (
    id             INTEGER PRIMARY KEY,
    agent_id       TEXT    NOT NULL,
    day            INTEGER NOT NULL,
    model          TEXT    NOT NULL,
    calls          INTEGER NOT NULL,
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    refused        INTEGER NOT NULL,
    UNIQUE (agent_id, day, model)
) STRICT;

CREATE INDEX usage_by_day ON usage (day, model);
