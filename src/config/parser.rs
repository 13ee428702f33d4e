//! JSON text to a [`Json`], or what is wrong with it and where.
//!
//! Strict: what RFC 8259 allows and nothing else, UTF-8 only, and no half of a surrogate pair. By hand, since reading with
//! serde_json, and what its errors link to write any number there is, took a tenth of the module. What is said about an
//! error, line and column included, is what serde_json says, and the tests hold the two together. It recurses, but no
//! deeper than [`DEEPEST`]. Meant for a few kilobytes of configuration: bodies are for `decode::json`, which builds nothing.

use super::json::Json;
use crate::number::{Decimal, Misfit};
use std::string::FromUtf8Error;

/// How many lists and objects may be open at once.
const DEEPEST: u32 = 127;

/// Reads the value that is the whole of `text`.
pub(super) fn parse(text: &[u8]) -> Result<Json, String> {
    let mut parser = Parser { text, at: 0 };
    parser.whole().map_err(|reason| parser.located(reason))
}

/// What is wrong with the byte before `at`: where something is wrong, it has just been taken.
type Reason = &'static str;

const VALUE_ENDS: Reason = "EOF while parsing a value";
const STRING_ENDS: Reason = "EOF while parsing a string";
const BAD_ESCAPE: Reason = "invalid escape";
const LONE_SURROGATE: Reason = "lone leading surrogate in hex escape";

/// A text, and how much of it has been taken.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn located(&self, reason: Reason) -> String {
        let taken = self.text.get(..self.at).unwrap_or(self.text);
        let line = 1 + taken.iter().filter(|&&byte| byte == b'\n').count();
        let column = taken.iter().rev().take_while(|&&byte| byte != b'\n').count();
        format!("{reason} at line {line} column {column}")
    }

    /// Takes the next byte.
    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Takes the next byte that is no white space.
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.next()? {
                b' ' | b'\n' | b'\t' | b'\r' => {}
                token => return Some(token),
            }
        }
    }

    fn whole(&mut self) -> Result<Json, Reason> {
        let first = self.token();
        let value = self.value(first, DEEPEST)?;
        self.token().map_or(Ok(value), |_| Err("trailing characters"))
    }

    /// The value that begins with the token just taken.
    fn value(&mut self, first: Option<u8>, depth: u32) -> Result<Json, Reason> {
        match first.ok_or(VALUE_ENDS)? {
            b'n' => self.rest(b"ull", Json::Null),
            b't' => self.rest(b"rue", Json::Flag(true)),
            b'f' => self.rest(b"alse", Json::Flag(false)),
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(deeper(depth)?),
            b'{' => self.object(deeper(depth)?),
            _ => Err("expected value"),
        }
    }

    /// What is left of a word, and the value that it stands for.
    fn rest(&mut self, word: &[u8], value: Json) -> Result<Json, Reason> {
        for expected in word {
            if self.next().ok_or(VALUE_ENDS)? != *expected {
                return Err("expected ident");
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, Reason> {
        let start = self.at - 1;
        match Decimal::at_start_of(self.text.get(start..).unwrap_or_default()) {
            Ok((number, len)) => {
                self.at = start + len;
                number.nearest().map(Json::Number).ok_or("number out of range")
            }
            Err(Misfit(offset)) => {
                self.at = start + offset;
                self.next().map_or(Err(VALUE_ENDS), |_| Err("invalid number"))
            }
        }
    }

    fn list(&mut self, depth: u32) -> Result<Json, Reason> {
        const ENDS: Reason = "EOF while parsing a list";
        let mut items = Vec::new();
        let mut first = Some(self.token().ok_or(ENDS)?);
        if first == Some(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(first, depth)?);
            match self.token().ok_or(ENDS)? {
                b']' => return Ok(Json::List(items)),
                b',' => first = self.token(),
                _ => return Err("expected `,` or `]`"),
            }
            if first == Some(b']') {
                return Err("trailing comma");
            }
        }
    }

    fn object(&mut self, depth: u32) -> Result<Json, Reason> {
        const ENDS: Reason = "EOF while parsing an object";
        let mut members = Vec::new();
        let mut first = self.token().ok_or(ENDS)?;
        if first == b'}' {
            return Ok(Json::Object(members));
        }
        loop {
            if first != b'"' {
                return Err("key must be a string");
            }
            let name = self.string()?;
            if self.token().ok_or(ENDS)? != b':' {
                return Err("expected `:`");
            }
            let first_of_value = self.token();
            members.push((name, self.value(first_of_value, depth)?));
            match self.token().ok_or(ENDS)? {
                b'}' => return Ok(Json::Object(members)),
                b',' => first = self.token().ok_or(VALUE_ENDS)?,
                _ => return Err("expected `,` or `}`"),
            }
            if first == b'}' {
                return Err("trailing comma");
            }
        }
    }

    /// The string whose opening quote has been taken.
    fn string(&mut self) -> Result<String, Reason> {
        let mut bytes = Vec::new();
        loop {
            match self.next().ok_or(STRING_ENDS)? {
                b'"' => return String::from_utf8(bytes).map_err(|error| self.not_utf8(&error)),
                b'\\' => {
                    let character = self.escaped()?;
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1F => return Err("control character (\\u0000-\\u001F) found while parsing a string"),
                byte => bytes.push(byte),
            }
        }
    }

    /// Goes back to what is no UTF-8 in the string just taken; roughly, where there are escapes in it.
    fn not_utf8(&mut self, error: &FromUtf8Error) -> Reason {
        self.at -= error.as_bytes().len() - error.utf8_error().valid_up_to();
        "invalid unicode code point"
    }

    /// The character that an escape stands for, whose backslash has been taken.
    fn escaped(&mut self) -> Result<char, Reason> {
        Ok(match self.next().ok_or(STRING_ENDS)? {
            plain @ (b'"' | b'\\' | b'/') => char::from(plain),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.character(),
            _ => return Err(BAD_ESCAPE),
        })
    }

    /// The character that four digits stand for, or twice four of them.
    fn character(&mut self) -> Result<char, Reason> {
        let first = self.code_unit()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first).ok_or(LONE_SURROGATE);
        }
        for expected in *b"\\u" {
            if self.next().ok_or(STRING_ENDS)? != expected {
                return Err("unexpected end of hex escape");
            }
        }
        let second = Some(self.code_unit()?).filter(|unit| (0xDC00..0xE000).contains(unit)).ok_or(LONE_SURROGATE)?;
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).ok_or(LONE_SURROGATE)
    }

    fn code_unit(&mut self) -> Result<u32, Reason> {
        let end = self.at + 4;
        let Some(digits) = self.text.get(self.at..end) else {
            self.at = self.text.len();
            return Err(STRING_ENDS);
        };
        self.at = end;
        let append = |unit, digit: &u8| Some(unit << 4 | char::from(*digit).to_digit(16)?);
        digits.iter().try_fold(0, append).ok_or(BAD_ESCAPE)
    }
}

fn deeper(depth: u32) -> Result<u32, Reason> {
    depth.checked_sub(1).ok_or("recursion limit exceeded")
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
