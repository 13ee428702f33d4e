//! The rules of normalisation as regular expressions: a pass over the text for each of UUIDs, timestamps and words, and a
//! closer look at each word that contains a digit.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_lite::Regex;

use super::dates::stamp;

/// A token of normalised text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Letters in lower case.
    Word(String),
    /// A number.
    Number {
        /// The digits, without the groups after them.
        digits: &'a str,
        /// Whether the number stands alone, so that its value may matter.
        is_value: bool,
    },
    /// `<TS>`.
    Timestamp,
    /// `<ID>`.
    Id,
    /// A character that is not part of a word.
    Gap(char),
}

/// The length of the longest word, in bytes.
const WORD_MAX: usize = 64;

struct Rules {
    run: Regex,
    uuid: Regex,
    timestamp: Regex,
    group: Regex,
    hex_number: Regex,
    hex_id: Regex,
    digits: Regex,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rule = |pattern: String| Regex::new(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let (hex, end) = ("[0-9a-fA-F]", "(?:[^0-9A-Za-z]|$)");
    let date = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
    let time = "[Tt][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?";
    let zone = "[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?";
    Rules {
        run: rule("[0-9A-Za-z]+".to_owned()),
        uuid: rule(format!("({hex}{{8}}-{hex}{{4}}-{hex}{{4}}-{hex}{{4}}-{hex}{{12}}){end}")),
        timestamp: rule(format!("({date}(?:{time}(?:{zone})?)?){end}")),
        group: rule(format!("^([.,][0-9]{{1,64}}){end}")),
        hex_number: rule(format!("^0[xX]{hex}+$")),
        hex_id: rule(format!("^{hex}{{7,}}$")),
        digits: rule("[0-9]+".to_owned()),
    }
});

/// Returns whether nobody sees a character: soft hyphen, zero-width spaces and joiners, bidirectional controls, fillers,
/// variation selectors, tags.
fn is_invisible(c: char) -> bool {
    matches!(c as u32, 0x80..=0x84 | 0x86..=0x9F | 0xAD | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFE00..=0xFE0F | 0xFEFF)
        || matches!(c as u32, 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x3164)
        || matches!(c as u32, 0xFFA0 | 0xFFF0..=0xFFFB | 0xE0000..=0xE0FFF)
}

/// The zeros of the scripts whose digits are read as digits. The other nine follow each of them.
const ZEROS: [u32; 15] =
    [0x660, 0x6F0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50, 0xED0, 0xFF10];

/// Returns a text without its invisible characters, and with ASCII digits in place of others.
pub fn plain(text: &str) -> String {
    let digit = |c: char| ZEROS.iter().find_map(|zero| char::from_digit((c as u32).checked_sub(*zero)?, 10));
    text.chars().filter(|c| !is_invisible(*c)).map(|c| digit(c).unwrap_or(c)).collect()
}

/// Cuts a plain text into tokens.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let rules = &*RULES;
    let uuids: HashMap<usize, usize> = matches(&rules.uuid, text);
    let stamps: HashMap<usize, usize> = matches(&rules.timestamp, text);
    let mut out = Vec::new();
    let mut at = 0;
    for run in rules.run.find_iter(text) {
        while at < run.end() {
            if at < run.start() {
                between(&text[at..run.start()], &mut out);
                at = run.start();
            }
            let word = &text[at..run.end().min(at + WORD_MAX)];
            at += if word.len() == 8 && uuids.contains_key(&at) {
                out.push(Token::Id);
                36
            } else if let Some(len) = stamp(text, at, word) {
                out.push(Token::Timestamp);
                len
            } else if word.len() == 4
                && let Some(len) = stamps.get(&at)
            {
                out.push(Token::Timestamp);
                *len
            } else if !word.bytes().any(|byte| byte.is_ascii_digit()) {
                out.push(Token::Word(word.to_ascii_lowercase()));
                word.len()
            } else if word.bytes().all(|byte| byte.is_ascii_digit()) {
                rules.number(text, at, word, &mut out)
            } else {
                rules.mixed(word, &mut out);
                word.len()
            };
        }
    }
    between(&text[at..], &mut out);
    out
}

/// Returns where the first group of a rule matches, and how long each match is. Matches may overlap: one that begins in the
/// middle of a word does not hide one that begins with the next word.
fn matches(rule: &Regex, text: &str) -> HashMap<usize, usize> {
    let mut found = HashMap::new();
    let mut at = 0;
    while let Some(hit) = rule.captures_at(text, at).and_then(|hit| hit.get(1)) {
        found.insert(hit.start(), hit.len());
        at = hit.start() + 1;
    }
    found
}

impl Rules {
    /// Takes a number with the groups after it, and returns their length.
    fn number<'a>(&self, text: &'a str, at: usize, digits: &'a str, out: &mut Vec<Token<'a>>) -> usize {
        let mut end = at + digits.len();
        while let Some(group) = self.group.captures(&text[end..]).and_then(|hit| hit.get(1)) {
            end += group.len();
        }
        let before = text[..at].chars().next_back();
        let tied_before = before.is_some_and(|c| c.is_ascii_alphanumeric() || "#-_".contains(c));
        let tied_after = text[end..].starts_with(['-', '_']);
        let whole = end == at + digits.len();
        out.push(Token::Number { digits, is_value: whole && digits.len() <= 4 && !tied_before && !tied_after });
        end - at
    }

    /// Takes a word of letters and digits.
    fn mixed<'a>(&self, word: &'a str, out: &mut Vec<Token<'a>>) {
        let digits: Vec<_> = self.digits.find_iter(word).collect();
        if self.hex_number.is_match(word) {
            return out.push(Token::Number { digits: word, is_value: false });
        }
        if self.hex_id.is_match(word) || (word.len() >= 16 && digits.len() >= 2) {
            return out.push(Token::Id);
        }
        let mut at = 0;
        for number in digits {
            if number.start() > at {
                out.push(Token::Word(word[at..number.start()].to_ascii_lowercase()));
            }
            out.push(Token::Number { digits: number.as_str(), is_value: false });
            at = number.end();
        }
        if at < word.len() {
            out.push(Token::Word(word[at..].to_ascii_lowercase()));
        }
    }
}

/// Takes the text between runs of ASCII letters and digits: gaps, and words beyond ASCII.
fn between(text: &str, out: &mut Vec<Token<'_>>) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii() {
            out.push(Token::Gap(first));
            rest = &rest[1..];
            continue;
        }
        let ends = rest.char_indices().map(|(start, c)| (start + c.len_utf8(), c));
        let len = ends.take_while(|(end, c)| !c.is_ascii() && *end <= WORD_MAX).last().map_or(0, |(end, _)| end);
        let (run, later) = rest.split_at(len);
        non_ascii(run, out);
        rest = later;
    }
}

/// Takes at most [`WORD_MAX`] bytes beyond ASCII.
fn non_ascii(run: &str, out: &mut Vec<Token<'_>>) {
    let mut word = String::new();
    for c in run.chars() {
        let is_symbol = matches!(c as u32, 0x2000..=0x2BFF | 0x3000..=0x303F | 0xFE00..=0xFE0F | 0xFF00..=0xFF0F)
            || c.is_control()
            || c.is_whitespace()
            || ((c as u32) < 0xE00 && !c.is_alphanumeric());
        let stands_alone = is_symbol || c as u32 >= 0xE00;
        if stands_alone && !word.is_empty() {
            out.push(Token::Word(std::mem::take(&mut word)));
        }
        if is_symbol {
            out.push(Token::Gap(c));
        } else if stands_alone {
            out.push(Token::Word(c.to_lowercase().collect()));
        } else {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        out.push(Token::Word(word));
    }
}

/// Returns the normalised text, with a single space in place of white space.
pub fn normalised(text: &str) -> String {
    let mut out = String::new();
    let mut space = false;
    let text = plain(text);
    for token in tokens(&text) {
        let piece = match token {
            Token::Gap(c) if c.is_whitespace() => {
                space = true;
                continue;
            }
            Token::Gap(c) => c.to_string(),
            Token::Word(word) => word,
            Token::Number { .. } => "<NUM>".to_owned(),
            Token::Timestamp => "<TS>".to_owned(),
            Token::Id => "<ID>".to_owned(),
        };
        if std::mem::take(&mut space) && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&piece);
    }
    out
}
