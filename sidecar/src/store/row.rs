//! A row of a result, read by the names of its columns in the same way for both databases.

use sqlx::{ColumnIndex, Decode, Type};

use super::{Result, StoreError};

/// One row of a result.
pub struct Row(Box<dyn Columns>);

/// What every database can read from a row.
trait Columns: Send + Sync {
    fn text(&self, column: &'static str) -> Result<Option<String>>;
    fn bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>>;
    fn integer(&self, column: &'static str) -> Result<Option<i64>>;
    fn real(&self, column: &'static str) -> Result<f64>;
    fn boolean(&self, column: &'static str) -> Result<bool>;
}

impl<R> Columns for R
where
    R: sqlx::Row + Send + Sync,
    &'static str: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> f64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> bool: Decode<'r, R::Database> + Type<R::Database>,
{
    fn text(&self, column: &'static str) -> Result<Option<String>> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>> {
        Ok(self.try_get(column)?)
    }

    fn integer(&self, column: &'static str) -> Result<Option<i64>> {
        Ok(self.try_get(column)?)
    }

    fn real(&self, column: &'static str) -> Result<f64> {
        Ok(self.try_get(column)?)
    }

    fn boolean(&self, column: &'static str) -> Result<bool> {
        Ok(self.try_get(column)?)
    }
}

impl Row {
    #[expect(private_bounds, reason = "only the stores of this module make rows")]
    pub(super) fn new(row: impl Columns + 'static) -> Self {
        Self(Box::new(row))
    }

    pub(super) fn optional_text(&self, column: &'static str) -> Result<Option<String>> {
        self.0.text(column)
    }

    pub(super) fn text(&self, column: &'static str) -> Result<String> {
        self.0.text(column)?.ok_or_else(|| missing(column))
    }

    pub(super) fn optional_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>> {
        self.0.bytes(column)
    }

    /// Reads a SHA-256 hash. Returns `None` for null.
    pub(super) fn optional_hash(&self, column: &'static str) -> Result<Option<[u8; 32]>> {
        let Some(bytes) = self.0.bytes(column)? else { return Ok(None) };
        let value = format!("{} bytes instead of 32", bytes.len());
        bytes.try_into().map(Some).map_err(|_| StoreError::Corrupt { column, value })
    }

    pub(super) fn hash(&self, column: &'static str) -> Result<[u8; 32]> {
        self.optional_hash(column)?.ok_or_else(|| missing(column))
    }

    pub(super) fn boolean(&self, column: &'static str) -> Result<bool> {
        self.0.boolean(column)
    }

    pub(super) fn real(&self, column: &'static str) -> Result<f64> {
        self.0.real(column)
    }

    /// Reads an integer of any of our unsigned types. One that does not fit is reported as corrupt. Returns `None` for
    /// null.
    pub(super) fn optional_integer<T: TryFrom<i64>>(&self, column: &'static str) -> Result<Option<T>> {
        let Some(integer) = self.0.integer(column)? else { return Ok(None) };
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

fn missing(column: &'static str) -> StoreError {
    StoreError::Corrupt { column, value: "null".to_owned() }
}
