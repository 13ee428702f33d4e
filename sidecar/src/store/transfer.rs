//! Carrying everything durable from one database to another, of the same kind or of the other one.
//!
//! Tables are named here; their columns come from the catalogues of both databases, so a new column is carried without a
//! change of this file. A column or a table that this file does not expect is an error, and never silently left behind.
//! Both databases are locked for other writers until the end, and the target is written in one transaction.

use std::collections::BTreeMap;

use super::statement::Argument;
use super::{Connection, Dialect, Result, Row, Statement, Store, StoreError, meta};

/// How many rows are read with one statement.
const ROWS_PER_READ: u64 = 1_000;
/// How many rows are written with one statement.
const ROWS_PER_WRITE: usize = 50;

/// A table that is carried over, and the column by which it is read in parts. A small one is read at once.
type Table = (&'static str, Option<&'static str>);

const TABLES: [Table; 15] = [
    ("agents", Some("agent_id")),
    ("events", Some("id")),
    ("kills", Some("kill_id")),
    ("alert_outbox", Some("event_id")),
    ("scores", Some("id")),
    ("usage", Some("id")),
    ("tokens", None),
    ("alert_rules", None),
    ("alert_deliveries", Some("seq")),
    ("dashboard_password", None),
    ("sessions", None),
    ("stopped_sessions", Some("id")),
    ("pause", None),
    ("policy_rules", None),
    ("refusals", Some("event_id")),
];
/// Tables whose rows the database numbers, with the column of the number. Numbers must go on where they were.
const NUMBERED: [(&str, &str); 5] =
    [("events", "id"), ("scores", "id"), ("usage", "id"), ("alert_deliveries", "seq"), ("stopped_sessions", "id")];
/// Tables that are not carried over as they are: one row that is copied apart, what replicas tell each other now, and calls,
/// of which new ones come in all the time.
const LEFT: [&str; 4] = ["meta", "envoys", "fleet_messages", "calls"];
/// Columns that only one kind of database has, and that hold nothing durable.
const ONE_SIDED: [&str; 1] = ["claimed_until"];

/// Why nothing was carried over.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The target holds something.
    #[error("the target is not empty: its table {0} has rows")]
    NotEmpty(String),
    /// One database has a table or a column that this version of the program does not expect.
    #[error("{0} is not known to this version, so it cannot be carried over")]
    Unknown(String),
    /// The number of rows in the target is not that of the source.
    #[error("{table}: {written} of {read} rows arrived")]
    Incomplete {
        /// The table.
        table: &'static str,
        /// How many rows were read.
        read: u64,
        /// How many rows the target has.
        written: u64,
    },
    /// A database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A value as it was read.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Text(String),
    Bytes(Vec<u8>),
    Integer(i64),
    Real(f64),
    Boolean(bool),
}

impl Value {
    /// Returns the value as an argument for a column of this type of the target. `None` if it does not fit.
    fn into_argument(self, column_type: &str) -> Option<Argument> {
        Some(match (column_type.to_ascii_lowercase().as_str(), self) {
            ("boolean", Self::Integer(value)) => Argument::Boolean(value != 0),
            ("boolean", Self::Boolean(value)) => Argument::Boolean(value),
            ("bigint" | "integer", Self::Boolean(value)) => Argument::Integer(Some(value.into())),
            ("bigint" | "integer", Self::Integer(value)) => Argument::Integer(Some(value)),
            ("bigint" | "integer", Self::Null) => Argument::Integer(None),
            ("double precision" | "real", Self::Real(value)) => Argument::Real(value),
            ("text", Self::Text(value)) => Argument::Text(Some(value)),
            ("text", Self::Null) => Argument::Text(None),
            ("bytea" | "blob", Self::Bytes(value)) => Argument::Bytes(Some(value)),
            ("bytea" | "blob", Self::Null) => Argument::Bytes(None),
            _ => return None,
        })
    }
}

impl Store {
    /// Carries everything durable from this database to an empty one. Returns how many rows of each table were carried.
    pub async fn transfer_to(&self, target: &Self) -> std::result::Result<Vec<(&'static str, u64)>, TransferError> {
        let (mut source, mut tx) = (self.begin().await?, target.begin().await?);
        let (from, to) = (source.dialect, tx.dialect);
        check_tables(source.connection(), from).await?;
        check_tables(tx.connection(), to).await?;
        for (table, _) in TABLES {
            if count(tx.connection(), table).await? > 0 {
                return Err(TransferError::NotEmpty(table.to_owned()));
            }
        }
        let mut carried = Vec::new();
        for (table, key) in TABLES {
            let columns = common_columns(source.connection(), from, tx.connection(), to, table).await?;
            let read = copy(source.connection(), tx.connection(), to, (table, key), &columns).await?;
            let written = count(tx.connection(), table).await?;
            if read != written {
                return Err(TransferError::Incomplete { table, read, written });
            }
            carried.push((table, read));
        }
        for (table, column) in NUMBERED {
            let highest = Statement::named(format!("SELECT max({column}) AS number FROM {table}"));
            let highest = source.connection().row(highest).await?.optional_integer::<u64>("number")?;
            let last = source.connection().optional_row((from.last_number)(table, column)).await?;
            let last = last.map(|row| row.optional_integer::<u64>("number")).transpose()?.flatten();
            if let Some(number) = last.max(highest).filter(|number| *number > 0) {
                for statement in (to.set_last_number)(table, column, number) {
                    tx.connection().rows(statement).await?;
                }
            }
        }
        // The filters' cursors stay valid, because epoch, revision and branch stay the same.
        meta::write(tx.connection(), &meta::read(source.connection()).await?).await?;
        tx.commit().await?;
        Ok(carried)
    }
}

async fn check_tables(connection: &mut dyn Connection, dialect: &Dialect) -> std::result::Result<(), TransferError> {
    for row in connection.rows(Statement::new(dialect.tables)).await? {
        let table = row.text("name")?;
        let is_known = |known: &str| known == table;
        if !TABLES.map(|(table, _)| table).into_iter().chain(LEFT).any(is_known) {
            return Err(TransferError::Unknown(format!("the table {table}")));
        }
    }
    Ok(())
}

async fn count(connection: &mut dyn Connection, table: &str) -> Result<u64> {
    let statement = Statement::named(format!("SELECT count(*) AS count FROM {table}"));
    connection.row(statement).await?.integer("count")
}

/// Returns the columns of a table that both databases have, with their types in the target.
async fn common_columns(
    source: &mut dyn Connection,
    from: &Dialect,
    target: &mut dyn Connection,
    to: &Dialect,
    table: &'static str,
) -> std::result::Result<Vec<(String, String)>, TransferError> {
    let (before, after) = (columns(source, from, table).await?, columns(target, to, table).await?);
    let is_durable = |column: &&String| !ONE_SIDED.contains(&column.as_str());
    let unknown = before.keys().filter(|column| !after.contains_key(*column)).find(is_durable);
    let unknown = unknown.or_else(|| after.keys().filter(|column| !before.contains_key(*column)).find(is_durable));
    match unknown {
        Some(column) => Err(TransferError::Unknown(format!("the column {table}.{column}"))),
        None => Ok(after.into_iter().filter(|(column, _)| before.contains_key(column)).collect()),
    }
}

async fn columns(
    connection: &mut dyn Connection,
    dialect: &Dialect,
    table: &'static str,
) -> Result<BTreeMap<String, String>> {
    let rows = connection.rows(Statement::new(dialect.columns).bind(table)).await?;
    rows.iter().map(|row| Ok((row.text("name")?, row.text("type")?))).collect()
}

/// Copies the rows of a table, and returns how many there were.
async fn copy(
    source: &mut dyn Connection,
    target: &mut dyn Connection,
    to: &Dialect,
    (table, key): Table,
    columns: &[(String, String)],
) -> std::result::Result<u64, TransferError> {
    let names: Vec<_> = columns.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let names = names.join(", ");
    let key_index = columns.iter().position(|(name, _)| Some(name.as_str()) == key);
    let mut last: Option<Argument> = None;
    let mut read = 0;
    loop {
        let mut select = format!("SELECT {names} FROM {table}");
        if let Some(key) = key {
            let after = if last.is_some() { format!("WHERE {key} > $1 ") } else { String::new() };
            select = format!("{select} {after}ORDER BY {key} LIMIT {ROWS_PER_READ}");
        }
        let mut statement = Statement::named(select);
        if let Some(last) = last.take() {
            statement = statement.bind(last);
        }
        let rows = source.rows(statement).await?;
        for part in rows.chunks(ROWS_PER_WRITE) {
            insert(target, to, table, (&names, columns), part).await?;
        }
        read += rows.len() as u64;
        let is_end = (rows.len() as u64) < ROWS_PER_READ;
        match (key_index, rows.last()) {
            (Some(index), Some(row)) if !is_end => last = key_argument(row.value(index)?),
            _ => return Ok(read),
        }
    }
}

/// Returns a key as an argument for the database that it came from.
fn key_argument(key: Value) -> Option<Argument> {
    match key {
        Value::Text(text) => Some(Argument::Text(Some(text))),
        Value::Integer(number) => Some(Argument::Integer(Some(number))),
        _ => None,
    }
}

async fn insert(
    target: &mut dyn Connection,
    to: &Dialect,
    table: &'static str,
    (names, columns): (&str, &[(String, String)]),
    rows: &[Row],
) -> std::result::Result<(), TransferError> {
    let mut statement = Statement::named(format!("INSERT INTO {table} ({names}) {} VALUES", to.overriding));
    for (index, row) in rows.iter().enumerate() {
        let mut arguments = Vec::with_capacity(columns.len());
        for (index, (name, column_type)) in columns.iter().enumerate() {
            let argument = row.value(index)?.into_argument(column_type);
            let unfit = || TransferError::Unknown(format!("a value in the column {table}.{name}"));
            arguments.push(argument.ok_or_else(unfit)?);
        }
        if index > 0 {
            statement = statement.push(",");
        }
        statement = statement.push_list(arguments);
    }
    target.run(statement).await?;
    Ok(())
}
