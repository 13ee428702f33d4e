-- The tokens that answers stated, by agent, day and model, and the calls that were refused. A day is a day of UTC, counted
-- from 1970. The empty name stands for answers that name no model, and for models that did not fit; its row also has the
-- refused calls of the day.
CREATE TABLE usage (
    id             BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_id       TEXT    COLLATE "C" NOT NULL,
    day            BIGINT  NOT NULL,
    model          TEXT    COLLATE "C" NOT NULL,
    calls          BIGINT  NOT NULL,
    input_tokens   BIGINT  NOT NULL,
    output_tokens  BIGINT  NOT NULL,
    refused        BIGINT  NOT NULL,
    UNIQUE (agent_id, day, model)
);

CREATE INDEX usage_by_day ON usage (day, model);
