//! JSON as slices: values are found, not built.
//!
//! A [`Json`] is the text of one value. Its members and elements can be walked from either end, which is what makes the
//! last message of a long conversation cheap: in JSON a quote is real exactly if an even run of backslashes stands before
//! it, so walking backwards is as exact as walking forwards, and what is not walked costs nothing. Nothing recurses: ten
//! thousand levels of nesting are skipped with a counter.
//!
//! It reads valid JSON right. Of invalid JSON it checks what it walks over (separators where they belong, closed strings,
//! as many brackets closed as opened), not what it skips: that is for the upstream to refuse. A body that was cut short
//! is always found out, since something in it stays open.
//!
//! Why not serde_json: building a `Value` of 100 KB costs 500 us where the copy into the sandbox costs 3, and even
//! skipping forwards with `IgnoredAny` costs 100.

use std::borrow::Cow;

use memchr::{memchr2, memrchr};

use crate::scan::Malformed;
use crate::scan::lanes::Lanes;
use crate::scan::unescape::unescape;

/// The text of one JSON value, without white space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a [u8]);

/// The text between the quotes of a JSON string, escapes and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStr<'a>(&'a [u8]);

impl<'a> Json<'a> {
    /// The value that is the whole of `text`, a byte order mark and white space aside.
    ///
    /// Of an object only the ends are looked at: its members are walked anyway, and that finds what is wrong with it.
    pub fn root(text: &'a [u8]) -> Result<Self, Malformed> {
        let text = without_mark(text).trim_ascii();
        let whole = match (text.first(), text.last()) {
            (Some(b'{'), Some(b'}')) => true,
            (Some(b'['), Some(b']')) | (Some(b'"'), Some(b'"')) => value_len(text) == Some(text.len()),
            (Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n'), _) => text.iter().all(|&byte| is_scalar(byte)),
            _ => false,
        };
        if whole { Ok(Self(text)) } else { Err(Malformed) }
    }

    /// The text as it stands.
    pub fn text(self) -> &'a [u8] {
        self.0
    }

    /// Whether this is an object.
    pub fn is_object(self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether this is an array.
    pub fn is_array(self) -> bool {
        self.0.first() == Some(&b'[')
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// Whether this is `true`.
    pub fn is_true(self) -> bool {
        self.0 == b"true"
    }

    /// The string, if this is one.
    pub fn string(self) -> Option<RawStr<'a>> {
        self.0.strip_prefix(b"\"")?.strip_suffix(b"\"").map(RawStr)
    }

    /// The members of an object, first to last. Anything else has none.
    pub fn members(self) -> Members<'a> {
        Members(Walk::new(if self.is_object() { self.inside() } else { &[] }))
    }

    /// The elements of an array, first to last. Anything else has none.
    pub fn elements(self) -> Elements<'a> {
        Elements(Walk::new(if self.is_array() { self.inside() } else { &[] }))
    }

    /// The elements of an array, last to first.
    pub fn elements_back(self) -> ElementsBack<'a> {
        ElementsBack(Walk::new(if self.is_array() { self.inside() } else { &[] }))
    }

    /// The members of an object, last to first.
    pub fn members_back(self) -> MembersBack<'a> {
        MembersBack(Walk::new(if self.is_object() { self.inside() } else { &[] }))
    }

    /// The value of a member; the last one where the name occurs more than once.
    pub fn get(self, name: &str) -> Result<Option<Self>, Malformed> {
        self.pick([name]).map(|[value]| value)
    }

    /// The values of several members, in one pass.
    pub fn pick<const N: usize>(self, names: [&str; N]) -> Result<[Option<Self>; N], Malformed> {
        let mut found = [None; N];
        for member in self.members() {
            let (key, value) = member?;
            for (slot, name) in found.iter_mut().zip(names) {
                if key.is(name) {
                    *slot = Some(value);
                }
            }
        }
        Ok(found)
    }

    fn inside(self) -> &'a [u8] {
        self.0.get(1..self.0.len().saturating_sub(1)).unwrap_or_default()
    }
}

impl<'a> RawStr<'a> {
    /// The text as it stands between the quotes.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    /// Byte by byte: nearly all that is asked about is a name, and short. `contains` is made for long texts.
    #[allow(clippy::manual_contains)]
    fn is_escaped(self) -> bool {
        self.0.iter().any(|&byte| byte == b'\\')
    }

    /// The text that it stands for. Built only if there are escapes; where they make no sense, as it stands.
    pub fn plain(self) -> Cow<'a, [u8]> {
        if self.is_escaped() { self.unescaped() } else { Cow::Borrowed(self.0) }
    }

    #[cold]
    fn unescaped(self) -> Cow<'a, [u8]> {
        let mut plain = Vec::with_capacity(self.0.len());
        match unescape(self.0, &mut |piece| plain.extend_from_slice(piece)) {
            Ok(()) => Cow::Owned(plain),
            Err(Malformed) => Cow::Borrowed(self.0),
        }
    }

    /// Whether the string says `text`.
    pub fn is(self, text: &str) -> bool {
        // An escape is longer than what it stands for, at most six times: most that differ need no closer look.
        let escaped = || self.0.len() > text.len() && self.0.len() <= 6 * text.len() && self.is_escaped();
        self.0 == text.as_bytes() || (escaped() && *self.plain() == *text.as_bytes())
    }
}

/// The text without the byte order mark that may stand before it.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text)
}

/// What is left to walk of the inside of an object or array.
#[derive(Clone, Copy, Debug)]
struct Walk<'a> {
    rest: &'a [u8],
    /// Whether nothing has been walked yet: then no separator is due.
    fresh: bool,
    failed: bool,
    /// The bracket that ends a walk back whose beginning is not known.
    opened_by: Option<u8>,
}

impl<'a> Walk<'a> {
    fn new(inside: &'a [u8]) -> Self {
        Self { rest: inside.trim_ascii(), fresh: true, failed: false, opened_by: None }
    }

    /// A walk back from the end of what `bracket` opens somewhere before.
    fn open(before: &'a [u8], bracket: u8) -> Self {
        Self { rest: before.trim_ascii_end(), fresh: true, failed: false, opened_by: Some(bracket) }
    }

    /// Whether all of it has been walked. An open walk that finds no bracket has not: its beginning is missing.
    fn is_done(&self) -> bool {
        self.opened_by.map_or(self.rest.is_empty(), |bracket| self.rest.last() == Some(&bracket))
    }

    /// Whether a value can begin where an open walk has come to. A text that was cut may begin within a string, and only a
    /// quote right at the cut can be mistaken for one that opens a string: nothing that belongs there stands before it.
    fn may_end_here(&self) -> bool {
        self.opened_by.is_none_or(|bracket| self.rest.last().is_some_and(|&byte| byte == bracket || byte == b','))
    }

    /// One step of an iterator: nothing at the end, and nothing after an error.
    fn step<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Result<T, Malformed>> {
        if self.failed || self.is_done() {
            return None;
        }
        match take(self).filter(|_| self.may_end_here()) {
            Some(item) => {
                self.fresh = false;
                Some(Ok(item))
            }
            None => {
                self.failed = true;
                Some(Err(Malformed))
            }
        }
    }

    /// Takes the separator that is due before a value.
    fn separator(&mut self) -> Option<()> {
        if !self.fresh {
            self.rest = self.rest.strip_prefix(b",")?.trim_ascii_start();
        }
        Some(())
    }

    fn separator_back(&mut self) -> Option<()> {
        if !self.fresh {
            self.rest = self.rest.strip_suffix(b",")?.trim_ascii_end();
        }
        Some(())
    }

    fn value(&mut self) -> Option<Json<'a>> {
        let len = value_len(self.rest)?;
        let (value, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest.trim_ascii_start();
        Some(Json(value))
    }

    #[inline(always)]
    fn value_back(&mut self) -> Option<Json<'a>> {
        let start = value_start(self.rest)?;
        let (rest, value) = self.rest.split_at_checked(start)?;
        self.rest = rest.trim_ascii_end();
        Some(Json(value))
    }

    fn member_back(&mut self) -> Option<(RawStr<'a>, Json<'a>)> {
        self.separator_back()?;
        let value = self.value_back()?;
        self.rest = self.rest.strip_suffix(b":")?.trim_ascii_end();
        Some((self.string_back()?, value))
    }

    fn string_back(&mut self) -> Option<RawStr<'a>> {
        let before = self.rest.strip_suffix(b"\"")?;
        let (rest, string) = before.split_at_checked(opening_quote(before)?)?;
        self.rest = rest.trim_ascii_end();
        string.get(1..).map(RawStr)
    }
}

/// Members of an object, first to last.
pub struct Members<'a>(Walk<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = Result<(RawStr<'a>, Json<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|walk| {
            walk.separator()?;
            let key = walk.value()?.string()?;
            walk.rest = walk.rest.strip_prefix(b":")?.trim_ascii_start();
            Some((key, walk.value()?))
        })
    }
}

/// Members of an object, last to first.
pub struct MembersBack<'a>(Walk<'a>);

impl<'a> MembersBack<'a> {
    /// The members of the object that `text` is the end of.
    pub fn at_end_of(text: &'a [u8]) -> Option<Self> {
        text.trim_ascii_end().strip_suffix(b"}").map(|inside| Self(Walk::open(inside, b'{')))
    }

    /// The elements of the value that comes next, last to first, if it is a list. Where the list begins is not looked
    /// for: that is what makes the end of a long one cheap.
    pub fn next_list(&self) -> Option<ElementsBack<'a>> {
        let mut walk = self.0;
        walk.separator_back()?;
        let inside = walk.rest.strip_suffix(b"]")?;
        Some(ElementsBack(Walk::open(inside, b'[')))
    }
}

impl<'a> Iterator for MembersBack<'a> {
    type Item = Result<(RawStr<'a>, Json<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(Walk::member_back)
    }
}

/// Elements of an array, first to last.
pub struct Elements<'a>(Walk<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Json<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|walk| {
            walk.separator()?;
            walk.value()
        })
    }
}

/// Elements of an array, last to first.
#[derive(Clone)]
pub struct ElementsBack<'a>(Walk<'a>);

impl<'a> ElementsBack<'a> {
    /// The next element. Its members, if it is an object, are passed on last to first, in the same walk that finds where
    /// it begins.
    pub fn next_with_members(
        &mut self,
        mut each: impl FnMut(RawStr<'a>, Json<'a>),
    ) -> Option<Result<Json<'a>, Malformed>> {
        self.0.step(|walk| {
            walk.separator_back()?;
            let Some(inside) = walk.rest.strip_suffix(b"}") else { return walk.value_back() };
            let mut members = Walk::open(inside, b'{');
            while !members.is_done() {
                let (name, value) = members.member_back()?;
                members.fresh = false;
                each(name, value);
            }
            let start = members.rest.len().checked_sub(1)?;
            let (rest, object) = walk.rest.split_at_checked(start)?;
            walk.rest = rest.trim_ascii_end();
            Some(Json(object))
        })
    }
}

impl<'a> Iterator for ElementsBack<'a> {
    type Item = Result<Json<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|walk| {
            walk.separator_back()?;
            walk.value_back()
        })
    }
}

/// The length of the value at the start of `text`.
fn value_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_len(text),
        b'{' | b'[' => container_len(text),
        _ => Some(text.iter().take_while(|&&byte| is_scalar(byte)).count()).filter(|&len| len > 0),
    }
}

/// The length of the string at the start of `text`, quotes included.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let rest = text.get(at..)?;
        let stop = first_stop(rest)?;
        match rest.get(stop) {
            Some(b'"') => return Some(at + stop + 1),
            _ => at += stop + 2,
        }
    }
}

/// The first quote or backslash. Names and many values are short, and so is the text between escapes: looking at the
/// first few bytes first saves a call.
#[inline(always)]
fn first_stop(text: &[u8]) -> Option<usize> {
    let near = Lanes::at_start_of(text).map_or(0, |bytes| bytes.equal(b'"') | bytes.equal(b'\\'));
    if near == 0 { memchr2(b'"', b'\\', text) } else { Some(near.trailing_zeros() as usize) }
}

/// The length of the object or array at the start of `text`, if all of it is there.
pub(crate) fn container_len(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let stop = rest.iter().position(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        at += stop;
        match text.get(at)? {
            b'"' => at += string_len(text.get(at..)?)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
    }
}

/// Where the value at the end of `text` starts.
fn value_start(text: &[u8]) -> Option<usize> {
    match text.last()? {
        b'"' => opening_quote(text.get(..text.len() - 1)?),
        b'}' | b']' => container_start(text),
        _ => {
            let len = text.iter().rev().take_while(|&&byte| is_scalar(byte)).count();
            (len > 0).then(|| text.len() - len)
        }
    }
}

/// Where the string starts whose end `before` stands before: at the nearest quote that no odd run of backslashes stands
/// before. Names and many values are short: looking at the last few bytes first saves a call.
#[inline(always)]
fn opening_quote(before: &[u8]) -> Option<usize> {
    let near = Lanes::at_end_of(before).and_then(|bytes| bytes.equal(b'"').checked_ilog2());
    let quote = near.map(|place| before.len() - 16 + place as usize);
    match quote {
        Some(quote) if before.get(..quote)?.last() != Some(&b'\\') => Some(quote),
        _ => far_quote(before),
    }
}

fn far_quote(mut before: &[u8]) -> Option<usize> {
    loop {
        let quote = memrchr(b'"', before)?;
        before = before.get(..quote)?;
        let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if slashes % 2 == 0 {
            return Some(quote);
        }
    }
}

fn container_start(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut end = text.len();
    loop {
        let before = text.get(..end)?;
        let stop = before.iter().rposition(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        match text.get(stop)? {
            b'"' => end = opening_quote(text.get(..stop)?)?,
            b'}' | b']' => {
                depth += 1;
                end = stop;
            }
            _ => {
                depth -= 1;
                end = stop;
                if depth == 0 {
                    return Some(stop);
                }
            }
        }
    }
}

/// Bytes of numbers, `true`, `false` and `null`.
fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}
