-- The dashboard's password, as argon2 hashes it. One row.
CREATE TABLE dashboard_password (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    hash  TEXT    NOT NULL
) STRICT;

-- Who is signed in. Only the SHA-256 of the cookie is kept. A session opened with a token ends with the token.
CREATE TABLE sessions (
    hash        BLOB    PRIMARY KEY,
    token_hash  BLOB,
    expires_ms  INTEGER NOT NULL
) STRICT;
