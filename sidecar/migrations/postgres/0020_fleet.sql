-- What the replicas tell each other about the calls of agents. A row lives for a few seconds. It is lost in a crash of the
-- database, which costs only some of the evidence for loops that were under way.
CREATE UNLOGGED TABLE fleet_messages (
    id        BIGINT       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    replica   TEXT         COLLATE "C" NOT NULL,
    -- Rises with every row of a replica, so that no row is read twice.
    number    BIGINT       NOT NULL,
    at        TIMESTAMPTZ  NOT NULL,
    messages  TEXT         NOT NULL
);
CREATE INDEX fleet_messages_at ON fleet_messages (at);

-- Writes a row, deletes those that every replica has read by now, and notifies. The lock is one of its own, so that no
-- writer of other tables waits: it makes rows visible in the order of their ids. The commit need not wait for the disk.
CREATE FUNCTION publish_fleet_messages(the_replica TEXT, the_number BIGINT, the_messages TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtext('kill_switch_fleet'));
    DELETE FROM fleet_messages WHERE at < clock_timestamp() - interval '10 seconds';
    INSERT INTO fleet_messages (replica, number, at, messages)
        VALUES (the_replica, the_number, clock_timestamp(), the_messages);
    PERFORM pg_notify('kill_switch_fleet', '');
END;
$$;
