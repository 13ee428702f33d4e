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

/// PostgreSQL cannot store the character U+0000, so both databases get U+FFFD instead of it.
impl From<String> for Argument {
    fn from(text: String) -> Self {
        Self::Text(Some(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }))
    }
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Argument {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<Option<&str>> for Argument {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Text(None), Self::from)
    }
}

impl From<&[u8]> for Argument {
    fn from(bytes: &[u8]) -> Self {
        Some(bytes).into()
    }
}

impl From<Option<&[u8]>> for Argument {
    fn from(bytes: Option<&[u8]>) -> Self {
        Self::Bytes(bytes.map(<[u8]>::to_vec))
    }
}

impl From<u64> for Argument {
    fn from(integer: u64) -> Self {
        Some(integer).into()
    }
}

impl From<u32> for Argument {
    fn from(integer: u32) -> Self {
        u64::from(integer).into()
    }
}

/// Integers of both databases are signed, so a number beyond their range is stored as the highest one.
impl From<Option<u64>> for Argument {
    fn from(integer: Option<u64>) -> Self {
        Self::Integer(integer.map(|integer| i64::try_from(integer).unwrap_or(i64::MAX)))
    }
}

impl From<f64> for Argument {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl From<bool> for Argument {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}
