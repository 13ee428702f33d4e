//! A row of a result, read by the names of its columns in the same way for both databases.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Error as SqlxError, Postgres, Row as _, Sqlite, Type, TypeInfo as _, ValueRef};

use super::transfer::Value;
use super::{Result, StoreError};

/// How many rows that cannot be read are logged.
const MAX_LOGGED: usize = 1_000;

/// One row of a result.
pub enum Row {
    /// A row of SQLite.
    Sqlite(SqliteRow),
    /// A row of PostgreSQL.
    Postgres(PgRow),
}

impl Row {
    /// Reads a value of a type that both databases have.
    pub(super) fn get<T>(&self, column: &'static str) -> Result<T>
    where
        for<'r> T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        let value = match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        };
        value.map_err(|error| match error {
            SqlxError::ColumnDecode { source, .. } => StoreError::Corrupt { column, value: source.to_string() },
            other => other.into(),
        })
    }

    /// Returns a key for people, whatever its type.
    fn key(&self, column: &'static str) -> String {
        let number = || self.get::<i64>(column).map(|number| number.to_string());
        self.text(column).or_else(|_| number()).unwrap_or_default()
    }

    /// Reads a value of any type that our tables have, by the place of its column.
    pub(super) fn value(&self, index: usize) -> Result<Value> {
        let (name, is_null) = match self {
            Self::Sqlite(row) => described(row.try_get_raw(index)?),
            Self::Postgres(row) => described(row.try_get_raw(index)?),
        };
        Ok(match name.as_str() {
            _ if is_null => Value::Null,
            "INTEGER" | "INT8" => Value::Integer(self.at(index)?),
            "REAL" | "FLOAT8" => Value::Real(self.at(index)?),
            "TEXT" => Value::Text(self.at(index)?),
            "BLOB" | "BYTEA" => Value::Bytes(self.at(index)?),
            "BOOL" => Value::Boolean(self.at(index)?),
            _ => return Err(StoreError::Corrupt { column: "a table", value: format!("a value of the type {name}") }),
        })
    }

    fn at<T>(&self, index: usize) -> Result<T>
    where
        for<'r> T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        Ok(match self {
            Self::Sqlite(row) => row.try_get(index)?,
            Self::Postgres(row) => row.try_get(index)?,
        })
    }

    pub(super) fn text(&self, column: &'static str) -> Result<String> {
        self.get::<Option<_>>(column)?.ok_or_else(|| missing(column))
    }

    /// Reads a SHA-256 hash. Returns `None` for null.
    pub(super) fn optional_hash(&self, column: &'static str) -> Result<Option<[u8; 32]>> {
        let Some(bytes) = self.get::<Option<Vec<u8>>>(column)? else { return Ok(None) };
        let value = format!("{} bytes instead of 32", bytes.len());
        bytes.try_into().map(Some).map_err(|_| StoreError::Corrupt { column, value })
    }

    pub(super) fn hash(&self, column: &'static str) -> Result<[u8; 32]> {
        self.optional_hash(column)?.ok_or_else(|| missing(column))
    }

    /// Reads an integer of any of our unsigned types. One that does not fit is reported as corrupt. Returns `None` for
    /// null.
    pub(super) fn optional_integer<T: TryFrom<i64>>(&self, column: &'static str) -> Result<Option<T>> {
        let Some(integer) = self.get::<Option<i64>>(column)? else { return Ok(None) };
        T::try_from(integer).map(Some).map_err(|_| StoreError::Corrupt { column, value: integer.to_string() })
    }

    pub(super) fn integer<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T> {
        self.optional_integer(column)?.ok_or_else(|| missing(column))
    }

    /// Reads a word that stands for one value of an enum.
    pub(super) fn word<T>(&self, column: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
        let word = self.text(column)?;
        parse(&word).ok_or(StoreError::Corrupt { column, value: word })
    }
}

/// Converts rows of a table. One that cannot be read is left out, so that it does not hide the others.
pub(super) fn readable<T>(
    table: &'static str,
    key: &'static str,
    rows: &[Row],
    convert: impl Fn(&Row) -> Result<T>,
) -> Result<Vec<T>> {
    let converted = rows.iter().map(|row| match convert(row) {
        Err(error) if error.is_permanent() => {
            leave_out(table, &row.key(key), &error);
            Ok(None)
        }
        converted => converted.map(Some),
    });
    converted.filter_map(Result::transpose).collect()
}

/// Counts that a row was left out. It is logged only once, because some tables are read every second.
pub(super) fn leave_out(table: &'static str, key: &str, error: &StoreError) {
    static LOGGED: Mutex<BTreeSet<(&str, String)>> = Mutex::new(BTreeSet::new());
    metrics::counter!("kill_switch_unreadable_rows_total", "table" => table).increment(1);
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.len() < MAX_LOGGED && logged.insert((table, key.to_owned())) {
        tracing::error!(table, key, %error, "a row of the database cannot be read and is left out");
    }
}

/// Returns the name of a value's type, and whether the value is null.
fn described<'r>(value: impl ValueRef<'r>) -> (String, bool) {
    (value.type_info().name().to_owned(), value.is_null())
}

fn missing(column: &'static str) -> StoreError {
    StoreError::Corrupt { column, value: "null".to_owned() }
}
