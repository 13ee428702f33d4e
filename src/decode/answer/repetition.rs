//! Looks for words that the model repeats, in the text and in the tool calls of one answer.
//!
//! The words of a stream are read as they pass. An answer that is not streamed is a single document, and all of its text is
//! known when the document ends. This text is kept and checked as a whole, and read only if it may contain a loop. Almost
//! none does, and the check takes a small part of the time.
//!
//! Whether a document is the only one is not known in advance. If text comes in another document, what was kept is read
//! first, so the result never depends on how the answer was delivered.

use crate::detect::answer_loop::{RepetitionFinder, may_repeat};
use crate::scan::Malformed;
use crate::scan::unescape::unescape;
use crate::wire::Repetition;

/// Looks for a repetition in one answer.
#[derive(Debug, Default)]
pub struct RepetitionSearch {
    finder: RepetitionFinder,
    /// The text of the first document that has any, with the escapes of JSON strings, until it is read.
    unread: Vec<u8>,
    /// Whether the first document that has any text has ended.
    is_after_first: bool,
}

impl RepetitionSearch {
    /// Takes the next part of the text as the inside of a JSON string.
    #[inline(never)] // so that it is compiled once
    pub fn push_escaped(&mut self, raw: &[u8]) -> Result<(), Malformed> {
        if !self.is_after_first {
            self.unread.reserve(raw.len() + 1); // one more for the end of a word
            self.unread.extend_from_slice(raw);
            return Ok(());
        }
        if !self.unread.is_empty() {
            self.read();
        }
        unescape(raw, &mut |piece| self.finder.push(piece))
    }

    /// Ends the current word.
    pub fn end_word(&mut self) {
        if self.unread.is_empty() {
            self.finder.end_word();
        } else {
            self.unread.push(b' ');
        }
    }

    /// Ends a document.
    pub fn end_document(&mut self) {
        if !self.is_after_first && !self.unread.is_empty() {
            self.is_after_first = true;
            if may_repeat(&self.unread) {
                self.read();
            }
        }
    }

    /// Returns the repetition, if there is one in what has been read.
    pub fn found(&self) -> Option<Repetition> {
        self.finder.found()
    }

    #[cold]
    fn read(&mut self) {
        // Nothing after a malformed escape is read, as in the answer itself.
        let _ = unescape(&std::mem::take(&mut self.unread), &mut |piece| self.finder.push(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::answer_loop::tests::looping;
    use proptest::prelude::*;

    fn escaped(text: &str) -> Vec<u8> {
        let quoted = serde_json::to_vec(text).unwrap();
        quoted[1..quoted.len() - 1].to_vec()
    }

    /// Reads documents, each of which consists of strings.
    fn find<'a>(documents: impl IntoIterator<Item = &'a [&'a str]>) -> Option<Repetition> {
        let mut search = RepetitionSearch::default();
        for document in documents {
            document.iter().for_each(|text| search.push_escaped(&escaped(text)).unwrap());
            search.end_document();
        }
        search.end_word();
        search.found()
    }

    fn find_in_words(text: &str) -> Option<Repetition> {
        let mut finder = RepetitionFinder::default();
        finder.push(text.as_bytes());
        finder.end_word();
        finder.found()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// A whole answer is checked before it is read, and the words of a stream are read one by one.
        #[test]
        fn the_same_is_found_in_a_whole_answer_and_in_a_stream(text in looping(), cut: prop::sample::Index) {
            let expected = find_in_words(&text);
            prop_assert_eq!(find([&[&*text][..]]), expected, "one string");
            let cut = text.floor_char_boundary(cut.index(text.len() + 1));
            let (start, end) = text.split_at(cut);
            prop_assert_eq!(find([&[start, end][..]]), expected, "two strings");
            prop_assert_eq!(find([&[start][..], &[end][..]]), expected, "two documents");
            let words: Vec<[&str; 1]> = text.split_inclusive([' ', '\n']).map(|word| [word]).collect();
            prop_assert_eq!(find(words.iter().map(|word| &word[..])), expected, "a stream");
        }
    }

    #[test]
    fn calls_end_words_in_a_whole_answer_as_in_a_stream() {
        let mut search = RepetitionSearch::default();
        for _ in 0..60 {
            search.push_escaped(b"run the same check again").unwrap();
            search.end_word();
        }
        search.end_document();
        assert_eq!(search.found(), Some(Repetition { period: 5, words: 200 }));
    }

    #[test]
    fn text_that_does_not_repeat_is_kept_until_more_comes() {
        let mut search = RepetitionSearch::default();
        search.push_escaped(b"Hello ").unwrap();
        search.end_document();
        assert_eq!(search.unread, b"Hello ");
        search.push_escaped(b"world").unwrap();
        assert!(search.unread.is_empty());
    }
}
