-- The counts of findings beside the score, as a filter reports them.
ALTER TABLE scores ADD COLUMN failures_in_a_row INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scores ADD COLUMN repeated_steps INTEGER NOT NULL DEFAULT 0;
