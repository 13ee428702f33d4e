//! The identity of the database, its latest revision, and its branches.
//!
//! A restored backup has the epoch of the database that was lost, and gives the same revisions to other changes. A filter
//! that has applied a lost revision must start over, even if it asks only when the database has passed that revision again.
//! So the first change of every start of the sidecar begins a *branch* with a random name, and a revision is known only
//! together with the name of its branch. Restarts alone begin none, so that filters need not start over after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Connection, Result, Row, Statement, Store, StoreError, Tx};
use crate::model::Millis;

/// The identity of the database, and its latest revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// A random name that the database got when it was created.
    pub epoch: String,
    /// The revision of the latest change to any agent.
    pub rev: u64,
    /// The name of the latest branch. Empty if the database is older than branches.
    pub branch: String,
    /// The revision that the branch began after.
    pub branch_rev: u64,
    /// The name of the branch before.
    pub branch_before: String,
}

impl Meta {
    /// Returns the epoch as filters know it, with the name of the latest branch.
    pub fn branch_epoch(&self) -> String {
        self.epoch_of(&self.branch)
    }

    /// Whether `rev` is a revision of this database from which the filter can go on.
    ///
    /// In the branch before, that is only the last revision: a filter with an earlier one may be between two pages of a
    /// full answer, which must have the same epoch.
    pub fn knows(&self, epoch: &str, rev: u64) -> bool {
        let is_end_of_branch_before = rev == self.branch_rev && epoch == self.epoch_of(&self.branch_before);
        rev <= self.rev && (epoch == self.branch_epoch() || is_end_of_branch_before)
    }

    fn epoch_of(&self, branch: &str) -> String {
        if branch.is_empty() { self.epoch.clone() } else { format!("{}.{branch}", self.epoch) }
    }
}

fn meta(row: &Row) -> Result<Meta> {
    Ok(Meta {
        epoch: row.text("epoch")?,
        rev: row.integer("rev")?,
        branch: row.text("branch")?,
        branch_rev: row.integer("branch_rev")?,
        branch_before: row.text("branch_before")?,
    })
}

pub(super) async fn read(connection: &mut dyn Connection) -> Result<Meta> {
    let sql = "SELECT epoch, rev, branch, branch_rev, branch_before FROM meta";
    meta(&connection.row(Statement::new(sql)).await?)
}

/// Overwrites everything with that of another database.
pub(super) async fn write(connection: &mut dyn Connection, meta: &Meta) -> Result<()> {
    let sql = "UPDATE meta SET epoch = $1, rev = $2, branch = $3, branch_rev = $4, branch_before = $5";
    let statement = Statement::new(sql).bind(&meta.epoch).bind(meta.rev).bind(&meta.branch);
    connection.run(statement.bind(meta.branch_rev).bind(&meta.branch_before)).await.map(drop)
}

/// The revisions of a transaction.
#[derive(Debug)]
pub(super) struct Revisions {
    /// The highest revision that this process has committed in a branch of its own, or 0 if it has begun none.
    committed: Arc<AtomicU64>,
    /// Whether this transaction has begun the branch.
    begins_branch: bool,
    /// What the transaction has made of `meta`, if it has taken a revision.
    meta: Option<Meta>,
}

impl Revisions {
    pub(super) fn new(committed: &Arc<AtomicU64>) -> Self {
        Self { committed: Arc::clone(committed), begins_branch: false, meta: None }
    }

    pub(super) fn committed(&self) {
        let Some(meta) = &self.meta else { return };
        let begins_branch = self.begins_branch;
        // A transaction from before commits were lost does not belong to the branch that the next one begins.
        let highest = |highest: u64| (begins_branch || highest > 0).then_some(highest.max(meta.rev));
        let _ = self.committed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, highest);
    }
}

impl Store {
    /// Returns epoch, revision and branch.
    pub async fn meta(&self) -> Result<Meta> {
        read(self.database.reader().await?.as_mut()).await
    }

    /// Lets the next change begin another branch, because commits were lost.
    pub fn begin_branch(&self) {
        self.committed.store(0, Ordering::SeqCst);
    }

    /// Checks that the database can be written, by writing to it.
    pub async fn check_writable(&self, now_ms: Millis) -> Result<()> {
        self.database.try_write(Statement::new("UPDATE meta SET checked_ms = $1").bind(now_ms)).await
    }
}

impl Tx {
    /// Takes the next revision. Filters that know an older one are told what has changed.
    pub(super) async fn next_revision(&mut self) -> Result<u64> {
        let committed = self.revisions.committed.load(Ordering::SeqCst);
        let has_branch = self.revisions.meta.is_some() || committed > 0;
        let taken = match has_branch {
            true => self.change_meta(Statement::new("UPDATE meta SET rev = rev + 1")).await?,
            false => self.begin_branch("rev = rev + 1, branch_rev = rev").await?,
        };
        // The database has lost commits of this process, which other changes now get the revisions of.
        let is_given_again = self.revisions.meta.is_none() && taken.rev <= committed;
        let meta = if is_given_again { self.begin_branch("branch_rev = rev - 1").await? } else { taken };
        let rev = meta.rev;
        self.revisions.meta = Some(meta);
        Ok(rev)
    }

    async fn begin_branch(&mut self, revisions: &'static str) -> Result<Meta> {
        self.revisions.begins_branch = true;
        let statement = Statement::new("UPDATE meta SET branch_before = branch, branch = $1,").bind(random_name()?);
        self.change_meta(statement.push(revisions)).await
    }

    async fn change_meta(&mut self, statement: Statement) -> Result<Meta> {
        let statement = statement.push("RETURNING epoch, rev, branch, branch_rev, branch_before");
        meta(&self.connection().row(statement).await?)
    }

    /// Returns epoch, revision and branch as they are after the commit. `None` if no agent was changed.
    pub fn meta(&self) -> Option<&Meta> {
        self.revisions.meta.as_ref()
    }
}

/// Returns a random name, which nothing else has.
pub(super) fn random_name() -> Result<String> {
    let number = getrandom::u64();
    let number =
        number.map_err(|error| StoreError::Unavailable(format!("random numbers are not available: {error}")))?;
    Ok(format!("{number:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_known_in_its_branch_and_at_the_end_of_the_branch_before() {
        let name = |name: &str| name.to_owned();
        let meta = Meta { epoch: name("e"), rev: 50, branch: name("new"), branch_rev: 30, branch_before: name("old") };
        for (epoch, rev, is_known) in [
            ("e.new", 50, true),
            ("e.new", 10, true),
            ("e.new", 51, false),
            ("e.old", 30, true),
            ("e.old", 29, false),
            ("e.old", 40, false),
            ("e.lost", 30, false),
            ("e", 30, false),
        ] {
            assert_eq!(meta.knows(epoch, rev), is_known, "{epoch} {rev}");
        }
        let first = Meta { branch_before: String::new(), ..meta };
        assert!(first.knows("e", 30), "the database is older than branches");
    }
}
