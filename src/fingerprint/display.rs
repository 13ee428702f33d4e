//! The normalised text in a form that people can read.
//!
//! Not used for requests, only by `kill-switch fingerprint`, `kill-switch compare` and the tests.

use super::normalise::{Normaliser, Number, Placeholder, Sink, Word};
use super::patterns::{Part, Pattern, split};

/// Returns the normalised text.
pub fn normalised(text: &[u8]) -> String {
    normalised_with(text, &[])
}

/// Returns the normalised text, with placeholders in place of what operators' patterns match.
pub fn normalised_with(text: &[u8], patterns: &[Pattern]) -> String {
    let mut display = Display::default();
    let mut normaliser = Normaliser::default();
    if patterns.is_empty() {
        normaliser.push(text, &mut display);
    } else {
        split(patterns, &String::from_utf8_lossy(text), |part| match part {
            Part::Text(text) => normaliser.push(text.as_bytes(), &mut display),
            Part::Match(index) => {
                normaliser.finish(&mut display);
                display.write(patterns.get(usize::from(index)).map_or("", |pattern| &pattern.placeholder));
            }
        });
    }
    normaliser.finish(&mut display);
    display.text
}

/// Writes the tokens into a string, with a single space in place of white space.
#[derive(Default)]
struct Display {
    text: String,
    /// Whether white space came after the last token.
    space: bool,
}

impl Display {
    fn write(&mut self, piece: &str) {
        if self.space && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.space = false;
        self.text.push_str(piece);
    }
}

impl Sink for Display {
    fn word(&mut self, word: Word<'_>) {
        match word {
            Word::Ascii(bytes) | Word::Short(bytes, _) => {
                self.write(&String::from_utf8_lossy(bytes).to_ascii_lowercase())
            }
            Word::Lowercase(bytes) => self.write(&String::from_utf8_lossy(bytes)),
        }
    }

    fn number(&mut self, _: &[u8], _: Number) {
        self.write("<NUM>");
    }

    fn placeholder(&mut self, placeholder: Placeholder) {
        match placeholder {
            Placeholder::Timestamp => self.write("<TS>"),
            Placeholder::Id => self.write("<ID>"),
            Placeholder::Custom(index) => self.write(&format!("<CUSTOM_{index}>")),
        }
    }

    fn gap(&mut self, bytes: &[u8]) {
        for character in String::from_utf8_lossy(bytes).chars() {
            if character.is_whitespace() {
                self.space = true;
            } else {
                self.write(character.encode_utf8(&mut [0; 4]));
            }
        }
    }
}
