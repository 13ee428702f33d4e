//! How accurate the fingerprint is, on a large number of generated texts.
//!
//! The specification wants different texts more than 5 bits apart and texts that differ only in numbers or timestamps
//! fewer than 3. Every pair of texts is compared. Two texts are different if they have few words in common, which is
//! counted exactly: some of the texts are edited copies of others.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test fails by panicking

use std::sync::LazyLock;

use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::fingerprint::simhash::SIMILAR_BELOW;
use fastrand::Rng;
use lab::corpus::{self, Pairs, Text, chinese, other_digits, overlap, scattered, word_set};

/// Different texts must be more bits apart than this.
const DIFFERENT_ABOVE: u32 = 5;
/// Texts are substantially different if they share less than this part of their words.
const DIFFERENT_BELOW: f64 = 1.0 / 3.0;
/// Texts may be called similar if they share at least this part of their words.
const SIMILAR_FROM: f64 = 0.5;

static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(corpus::texts);

fn simhash(text: &str) -> u64 {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish().simhash.0
}

/// Compares all pairs of texts, and returns those that are not more than 5 bits apart.
fn close_pairs<'a>(what: &str, texts: impl Iterator<Item = &'a str>) -> Vec<(usize, usize, u32)> {
    let hashes: Vec<u64> = texts.map(simhash).collect();
    let Pairs { count, mean, close } = Pairs::within(DIFFERENT_ABOVE, &hashes);
    println!("{what}: {} texts, {count} pairs, {mean:.1} bits apart on average, {} close", hashes.len(), close.len());
    assert!(count >= 1_000_000, "{what}: {count} pairs");
    assert!(mean > 20.0, "{what}: {mean} bits");
    close
}

fn assert_apart(what: &str, texts: &[String]) {
    for (one, other, distance) in close_pairs(what, texts.iter().map(String::as_str)) {
        let (one, other) = (&texts[one], &texts[other]);
        assert!(overlap(one, other) >= DIFFERENT_BELOW, "{distance} bits between {one:?} and {other:?}");
    }
}

#[test]
fn different_texts_are_more_than_five_bits_apart() {
    let close = close_pairs("texts", TEXTS.iter().map(|text| text.text.as_str()));
    assert!(!close.is_empty(), "edited copies are close");
    for (one, other, distance) in close {
        let (one, other) = (&TEXTS[one], &TEXTS[other]);
        let shared = overlap(&one.text, &other.text);
        let least = if distance < SIMILAR_BELOW { SIMILAR_FROM } else { DIFFERENT_BELOW };
        let numbers = (one.original, other.original);
        assert!(shared >= least, "{distance} bits apart, {shared:.2} of the words in common: {numbers:?}");
    }
}

#[test]
fn one_to_five_words_are_more_than_five_bits_apart() {
    let mut words: Vec<String> = TEXTS.iter().step_by(40).flat_map(|text| word_set(&text.text)).collect();
    words.sort();
    words.dedup();
    let mut random = Rng::with_seed(1);
    let mut text = |count: usize| (0..count).map(|_| words[random.usize(..words.len())].as_str()).collect::<Vec<_>>();
    let texts: Vec<String> = (0..1_600).map(|number| text(1 + number % 5).join(" ")).collect();
    assert_apart("one to five words", &texts);
}

#[test]
fn chinese_of_three_to_twelve_characters_is_more_than_five_bits_apart() {
    let mut random = Rng::with_seed(2);
    let texts: Vec<String> = (0..1_600).map(|number| chinese(3 + number % 10, &mut random)).collect();
    assert_apart("three to twelve characters", &texts);
}

#[test]
fn numbers_timestamps_and_ids_change_nothing() {
    let mut random = Rng::with_seed(3);
    let clauses: Vec<String> =
        (0..200).map(|number| vec![chinese(8, &mut random); 1 + number % 40].join("，\n")).collect();
    let mut texts: Vec<&str> = TEXTS.iter().step_by(7).map(|text| text.text.as_str()).collect();
    texts.extend(clauses.iter().map(String::as_str));
    // Texts above a hundred kilobytes are sampled. The samples must be taken at the same places.
    let long: String = TEXTS.iter().flat_map(|text| text.text.chars()).take(400_000).collect();
    texts.push(&long);
    for text in &texts {
        let start: String = text.chars().take(60).collect();
        assert_eq!(simhash(text), simhash(&other_digits(text, &mut random)), "other digits in {start:?}");
        let one = scattered(text, &mut random);
        // In a short text the same values may be drawn twice.
        let other = (0..100).map(|_| scattered(text, &mut random)).find(|other| *other != one).unwrap();
        assert_eq!(simhash(&one), simhash(&other), "other numbers, timestamps and ids in {start:?}");
    }
    println!("{} texts, distance 0 each", texts.len());
}
