//! Texts of many kinds and lengths, the same in every run, and measures of how much two of them have in common.
//!
//! The files in `lab/corpus/` hold sentences in five languages and lines of code and logs, written for this purpose. A
//! text is made of lines of one file in which most words are replaced by words of the text's own vocabulary. Those are
//! coined: from the beginning of one word of the file and the end of another, or in Chinese and Japanese from characters.
//! Texts of one kind then share grammar, script and common words, as real texts in one language do, but not their subject.

mod volatile;

use std::collections::BTreeSet;

use fastrand::Rng;

pub use volatile::{other_digits, scattered};

const ENGLISH: &str = include_str!("../../corpus/english.txt");
const CODE: &str = include_str!("../../corpus/code.txt");
const RUSSIAN: &str = include_str!("../../corpus/russian.txt");
const ARABIC: &str = include_str!("../../corpus/arabic.txt");
const CHINESE: &str = include_str!("../../corpus/chinese.txt");
const JAPANESE: &str = include_str!("../../corpus/japanese.txt");

/// The kinds of texts, in turn.
const KINDS: [&str; 9] = [ENGLISH, CODE, CHINESE, ENGLISH, RUSSIAN, ARABIC, ENGLISH, CODE, JAPANESE];
/// The lengths of texts in words, or in characters for languages without spaces. The last makes about 100 KB.
const WORDS: [usize; 10] = [5, 10, 20, 50, 100, 200, 500, 1_500, 5_000, 15_000];
/// How many texts there are, without the edited copies.
const TEXTS: usize = 2_250;
/// One text in this many also occurs as an edited copy.
const EDITED: usize = 18;

/// A text, and the number of the text that it is an edited copy of, or its own.
pub struct Text {
    /// Texts with the same number are copies of each other.
    pub original: usize,
    pub text: String,
}

pub fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    for original in 0..TEXTS {
        let (kind, words) = (KINDS[original % KINDS.len()], WORDS[original / KINDS.len() % WORDS.len()]);
        let text = text(kind, words, &mut Rng::with_seed(original as u64));
        if original % EDITED == 0 {
            texts.push(Text { original, text: format!("{text} {}", ENGLISH.lines().next().unwrap_or_default()) });
        }
        texts.push(Text { original, text });
    }
    texts
}

/// Returns Chinese of this many characters, each drawn by itself.
pub fn chinese(characters: usize, random: &mut Rng) -> String {
    let all: Vec<char> = CHINESE.chars().filter(|letter| letter.is_alphabetic()).collect();
    (0..characters).filter_map(|_| random.choice(&all)).collect()
}

fn text(kind: &str, words: usize, random: &mut Rng) -> String {
    let known: Vec<&str> = word_runs(kind).filter(|word| word.chars().count() > 3).collect();
    let characters: Vec<char> = (0..1_000).filter_map(|_| char::from_u32(random.u32(0x4E00..0x7000))).collect();
    let is_cjk = [CHINESE, JAPANESE].contains(&kind);
    let vocabulary: Vec<String> = (0..(words / 2).clamp(6, 3_000))
        .map(|_| match is_cjk {
            true => (0..random.usize(2..7)).filter_map(|_| random.choice(&characters)).collect(),
            false => coined(&known, random),
        })
        .collect();
    let lines: Vec<&str> = kind.lines().collect();
    let mut text = String::new();
    let mut left = words;
    while left > 0 {
        let line = line(lines[random.usize(..lines.len())], &vocabulary, random);
        let pieces: Vec<&str> = line.split_inclusive(|letter| is_cjk || letter == ' ').collect();
        text.extend(pieces.iter().take(left).copied());
        if random.u8(..8) == 0 {
            text += &format!(" {}", volatile::value(random));
        }
        text.push('\n');
        left = left.saturating_sub(pieces.len());
    }
    text.trim_end().to_owned()
}

/// Returns a line with two thirds of its longer words replaced.
fn line(line: &str, vocabulary: &[String], random: &mut Rng) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphabetic();
        let end = rest.find(|letter: char| letter.is_alphabetic() != is_word).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        let replaced = is_word && run.chars().count() > 3 && random.u8(..3) > 0;
        out += if replaced { &vocabulary[random.usize(..vocabulary.len())] } else { run };
        rest = after;
    }
    out
}

/// Returns the beginning of one word joined to the end of another.
fn coined(words: &[&str], random: &mut Rng) -> String {
    let [one, other] = [(); 2].map(|()| words[random.usize(..words.len())]);
    let (kept, dropped) = (one.chars().count().div_ceil(2), other.chars().count() / 2);
    one.chars().take(kept).chain(other.chars().skip(dropped)).collect()
}

fn word_runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty())
}

/// Returns the distinct words of a text, in lower case. Each Chinese or Japanese character counts as a word.
pub fn word_set(text: &str) -> BTreeSet<String> {
    let is_cjk = |letter: char| matches!(letter, '\u{3040}'..='\u{30FF}' | '\u{4E00}'..='\u{9FFF}');
    word_runs(text).flat_map(|run| run.split_inclusive(is_cjk)).map(str::to_lowercase).collect()
}

/// Returns the share of the distinct words of both texts that occurs in both.
pub fn overlap(one: &str, other: &str) -> f64 {
    let (one, other) = (word_set(one), word_set(other));
    let both = one.intersection(&other).count();
    both as f64 / (one.len() + other.len() - both).max(1) as f64
}

/// All pairs of some 64-bit hashes.
pub struct Pairs {
    /// How many pairs there are.
    pub count: u64,
    /// Their mean Hamming distance.
    pub mean: f64,
    /// The pairs that are at most the limit apart: two indices and the distance.
    pub close: Vec<(usize, usize, u32)>,
}

impl Pairs {
    /// Compares each hash with each other one.
    pub fn within(limit: u32, hashes: &[u64]) -> Pairs {
        let (mut count, mut sum, mut close) = (0, 0, Vec::new());
        for (first, one) in hashes.iter().enumerate() {
            for (second, other) in hashes.iter().enumerate().skip(first + 1) {
                let distance = (one ^ other).count_ones();
                count += 1;
                sum += u64::from(distance);
                if distance <= limit {
                    close.push((first, second, distance));
                }
            }
        }
        Pairs { count, mean: sum as f64 / count.max(1) as f64, close }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_millions_of_pairs_of_texts_of_every_length() {
        let texts = texts();
        assert!(texts.len() * (texts.len() - 1) / 2 > 2_500_000, "{} texts", texts.len());
        let sizes: Vec<usize> = texts.iter().map(|text| text.text.len()).collect();
        assert!(sizes.iter().any(|size| *size < 40) && sizes.iter().filter(|size| **size > 80_000).count() > 100);
    }

    #[test]
    fn most_long_texts_of_one_kind_have_less_than_a_third_of_their_words_in_common() {
        for kind in KINDS {
            let [one, other] = [1, 2].map(|seed| text(kind, 2_000, &mut Rng::with_seed(seed)));
            let shared = overlap(&one, &other);
            assert!((0.001..0.33).contains(&shared), "{shared}: {one}");
        }
    }
}
