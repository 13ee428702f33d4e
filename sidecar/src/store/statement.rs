//! A SQL statement with its arguments, in the dialect that SQLite and PostgreSQL share.
//!
//! The text is put together from string literals only, so nothing that a client sends can become part of it. Arguments
//! are written `$1`, `$2` and so on, which SQLite accepts as well.

use std::borrow::Cow;

use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Encode, Type};

/// A statement that is ready to run on either database.
#[derive(Debug)]
pub struct Statement {
    sql: Cow<'static, str>,
    arguments: Vec<Argument>,
}

/// An argument of a statement. Nulls have a type too, because PostgreSQL asks for it.
#[derive(Debug)]
pub(super) enum Argument {
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Integer(Option<i64>),
    Real(f64),
    Boolean(bool),
}

impl Statement {
    pub(super) fn new(sql: &'static str) -> Self {
        Self { sql: Cow::Borrowed(sql), arguments: Vec::new() }
    }

    /// Like [`Statement::new`], for a text with names of tables and columns in it. They must come from this program or from
    /// the database's own catalogue.
    pub(super) fn named(sql: String) -> Self {
        Self { sql: Cow::Owned(sql), arguments: Vec::new() }
    }

    /// Gives the next numbered argument in the text its value.
    pub(super) fn bind(mut self, argument: impl Into<Argument>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Appends to the text.
    pub(super) fn push(mut self, sql: &'static str) -> Self {
        self.append(sql);
        self
    }

    /// Appends to the text. Every `?` in `sql` becomes the number of `argument`.
    pub(super) fn push_bind(mut self, sql: &'static str, argument: impl Into<Argument>) -> Self {
        self.arguments.push(argument.into());
        let number = format!("${}", self.arguments.len());
        self.append(&sql.replace('?', &number));
        self
    }

    /// Appends `AND condition` as [`Statement::push_bind`] does, if there is an argument for it.
    pub(super) fn and<A: Into<Argument>>(self, condition: &'static str, argument: Option<A>) -> Self {
        match argument {
            Some(argument) => self.push("AND").push_bind(condition, argument),
            None => self,
        }
    }

    /// Appends a list of arguments in parentheses.
    pub(super) fn push_list(mut self, arguments: impl IntoIterator<Item = Argument>) -> Self {
        let first = self.arguments.len() + 1;
        self.arguments.extend(arguments);
        let numbers: Vec<_> = (first..=self.arguments.len()).map(|number| format!("${number}")).collect();
        self.append(&format!("({})", numbers.join(", ")));
        self
    }

    /// Appends lists of arguments in parentheses, with commas between them.
    pub(super) fn push_lists<const N: usize>(self, lists: impl IntoIterator<Item = [Argument; N]>) -> Self {
        let push = |(statement, comma): (Self, &'static str), list| (statement.push(comma).push_list(list), ",");
        lists.into_iter().fold((self, ""), push).0
    }

    fn append(&mut self, sql: &str) {
        let text = self.sql.to_mut();
        text.push(' ');
        text.push_str(sql);
    }

    /// Turns the statement into a query of one database.
    pub(super) fn into_query<D>(self) -> Query<'static, D, D::Arguments>
    where
        D: Database,
        for<'a> Option<String>: Encode<'a, D> + Type<D>,
        for<'a> Option<Vec<u8>>: Encode<'a, D> + Type<D>,
        for<'a> Option<i64>: Encode<'a, D> + Type<D>,
        for<'a> f64: Encode<'a, D> + Type<D>,
        for<'a> bool: Encode<'a, D> + Type<D>,
    {
        let query = sqlx::query(AssertSqlSafe(self.sql));
        self.arguments.into_iter().fold(query, |query, argument| match argument {
            Argument::Text(text) => query.bind(text),
            Argument::Bytes(bytes) => query.bind(bytes),
            Argument::Integer(integer) => query.bind(integer),
            Argument::Real(real) => query.bind(real),
            Argument::Boolean(boolean) => query.bind(boolean),
        })
    }
}

/// Splits what one kind of statement is about. A statement has 1, 2, 4, 8, 16 or 32 of them: with several, fewer statements
/// wait for the database, and each number of them is a prepared statement of its own.
pub(super) fn chunks<T>(mut all: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    std::iter::from_fn(move || {
        let length = 1 << all.len().min(32).checked_ilog2()?;
        let rest = all.split_off(length);
        Some(std::mem::replace(&mut all, rest))
    })
}

/// Implements the conversion of each type to an [`Argument`].
macro_rules! impl_from {
    ($($type:ty: $value:ident => $argument:expr;)*) => {
        $(impl From<$type> for Argument {
            fn from($value: $type) -> Self {
                $argument
            }
        })*
    };
}

impl_from! {
    // PostgreSQL cannot store the character U+0000, so both databases get U+FFFD instead of it.
    String: text => Self::Text(Some(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }));
    &str: text => text.to_owned().into();
    &String: text => text.clone().into();
    Option<&str>: text => text.map_or(Self::Text(None), Self::from);
    &[u8]: bytes => Some(bytes).into();
    Option<&[u8]>: bytes => Self::Bytes(bytes.map(<[u8]>::to_vec));
    // Integers of both databases are signed, so a number beyond their range is stored as the highest one.
    Option<u64>: integer => Self::Integer(integer.map(|integer| i64::try_from(integer).unwrap_or(i64::MAX)));
    u64: integer => Some(integer).into();
    u32: integer => u64::from(integer).into();
    f64: real => Self::Real(real);
    bool: boolean => Self::Boolean(boolean);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_few_lengths_and_keep_the_order() {
        let all: Vec<u32> = (0..75).collect();
        let split: Vec<_> = chunks(all.clone()).collect();
        assert_eq!(split.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 8, 2, 1]);
        assert_eq!(split.concat(), all);
        assert_eq!(chunks(Vec::<u32>::new()).count(), 0);
    }
}
