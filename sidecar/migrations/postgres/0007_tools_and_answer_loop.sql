-- What happens when the model repeats itself word for word within one answer.
ALTER TABLE agents ADD COLUMN answer_loop TEXT NOT NULL DEFAULT 'observe'
    CHECK (answer_loop IN ('off', 'observe', 'cut'));

-- The tools whose calls are counted differently: a JSON object of their names, each with "ignore" or a number.
ALTER TABLE agents ADD COLUMN tools TEXT NOT NULL DEFAULT '{}';
