-- The policy file that an agent's settings come from, and the rule of it, if the file does not name the agent itself. A
-- person can still change the settings; the next `kill-switch apply` overwrites that.
ALTER TABLE agents ADD COLUMN managed_by TEXT;
ALTER TABLE agents ADD COLUMN managed_rule TEXT CHECK (managed_rule IS NULL OR managed_by IS NOT NULL);

-- The rules of policy files: what an agent gets when traffic creates it. The first rule that matches applies, in the order
-- of the files' names and of the positions in each file.
CREATE TABLE policy_rules (
    file      TEXT    NOT NULL,
    position  INTEGER NOT NULL,
    -- An agent's id, in which `*` stands for any characters.
    pattern   TEXT    NOT NULL,
    -- A JSON object of settings. Those that are absent have their defaults.
    settings  TEXT    NOT NULL,
    PRIMARY KEY (file, position),
    UNIQUE (file, pattern)
) STRICT;
