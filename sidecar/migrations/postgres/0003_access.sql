-- The dashboard's password, as argon2 hashes it. One row.
CREATE TABLE dashboard_password (
    id    BIGINT  PRIMARY KEY CHECK (id = 1),
    hash  TEXT    NOT NULL
);

-- Who is signed in, at whichever replica. Only the SHA-256 of the cookie is kept. A session opened with a token ends
-- with the token.
CREATE TABLE sessions (
    hash        BYTEA   PRIMARY KEY,
    token_hash  BYTEA,
    expires_ms  BIGINT  NOT NULL
);
