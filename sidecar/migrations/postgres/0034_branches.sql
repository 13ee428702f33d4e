-- A restored backup gives the revisions after it a second time, to other changes. So the first change of every start of the
-- sidecar begins a branch with a random name, which is sent to filters as part of the epoch. `branch_rev` is the revision
-- before that change, and `branch_before` the name of the branch that it belongs to.
ALTER TABLE meta ADD COLUMN branch TEXT NOT NULL DEFAULT '';
ALTER TABLE meta ADD COLUMN branch_rev BIGINT NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN branch_before TEXT NOT NULL DEFAULT '';
