//! How accurate the fingerprint is, on texts that are in no test file: those of the machine that runs this.
//!
//! The specification wants different texts more than 5 bits apart and texts that differ only in numbers or timestamps
//! fewer than 3. Every pair is looked at. What "different" means is decided by counting the words that two texts have
//! in common, exactly and slowly: machines hold many copies of the same licences, and generated files that differ in one
//! name. Where a machine has too few texts, its tests say so and check nothing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // helpers of tests

mod corpus;
mod volatile;

use std::sync::LazyLock;

use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::fingerprint::simhash::{SIMILAR_BELOW, SimHash};
use corpus::{Text, overlap, word_set};
use lab::skip;
use volatile::{Dice, other_digits, scattered};

/// Different texts are further apart than this.
const DIFFERENT_ABOVE: u32 = 5;
/// Texts are substantially different if they share less than this part of their words.
const DIFFERENT_BELOW: f64 = 1.0 / 3.0;
/// Texts are rightly called similar if they share at least this part of their words.
const SIMILAR_FROM: f64 = 0.5;
/// Fewer texts than this make fewer than a million pairs.
const ENOUGH: usize = 1_500;

static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(corpus::texts);

fn simhash(text: &str) -> SimHash {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish().simhash
}

/// The machine's texts. Empty, with a note that the test is skipped, if there are too few of them.
fn texts() -> &'static [Text] {
    if TEXTS.len() >= ENOUGH {
        return &TEXTS;
    }
    skip::because(&format!("this machine has {} texts, and {ENOUGH} are needed to measure accuracy", TEXTS.len()));
    &[]
}

/// Calls `close` for each pair at most `limit` bits apart, and returns the number of pairs and their mean distance.
fn pairs(hashes: &[SimHash], limit: u32, mut close: impl FnMut(usize, usize, u32)) -> (u64, f64) {
    let (mut count, mut sum) = (0u64, 0u64);
    for (i, a) in hashes.iter().enumerate() {
        for (j, b) in hashes.iter().enumerate().skip(i + 1) {
            let distance = a.distance(*b);
            count += 1;
            sum += u64::from(distance);
            if distance <= limit {
                close(i, j, distance);
            }
        }
    }
    (count, sum as f64 / count.max(1) as f64)
}

/// Holds that no two of these texts that are different are close.
fn assert_apart(what: &str, texts: &[String]) {
    let hashes: Vec<SimHash> = texts.iter().map(|text| simhash(text)).collect();
    let (count, mean) = pairs(&hashes, DIFFERENT_ABOVE, |i, j, distance| {
        let (a, b) = (&texts[i], &texts[j]);
        assert!(overlap(a, b) >= DIFFERENT_BELOW, "{distance} bits between {a:?} and {b:?}");
    });
    println!("{what}: {} texts, {count} pairs, {mean:.1} bits apart on average", texts.len());
    assert!(count >= 1_000_000, "{count} pairs");
    assert!(mean > 20.0, "{what}: {mean} bits");
}

#[test]
fn different_texts_of_this_machine_are_more_than_five_bits_apart() {
    let texts = texts();
    let hashes: Vec<SimHash> = texts.iter().map(|text| simhash(&text.text)).collect();
    let mut alike = 0;
    let (count, mean) = pairs(&hashes, DIFFERENT_ABOVE, |i, j, distance| {
        let (a, b) = (&texts[i], &texts[j]);
        let shared = overlap(&a.text, &b.text);
        let least = if distance < SIMILAR_BELOW { SIMILAR_FROM } else { DIFFERENT_BELOW };
        assert!(
            a.path == b.path || shared >= least,
            "{distance} bits apart, {shared:.2} of the words in common: {} and {}",
            a.path.display(),
            b.path.display()
        );
        alike += 1;
    });
    println!("{} texts, {count} pairs, {mean:.1} bits apart on average; {alike} truly alike", texts.len());
    assert!(texts.is_empty() || count >= 1_000_000, "{count} pairs");
}

#[test]
fn one_to_five_words_are_more_than_five_bits_apart() {
    let mut words: Vec<String> = texts().iter().step_by(40).flat_map(|text| word_set(&text.text)).collect();
    words.sort();
    words.dedup();
    if words.is_empty() {
        return;
    }
    let mut dice = Dice(1);
    let mut text = |words_wanted: usize| {
        let chosen: Vec<&str> = (0..words_wanted).map(|_| dice.pick(&words).as_str()).collect();
        chosen.join(" ")
    };
    let texts: Vec<String> = (0..1_600).map(|number| text(1 + number % 5)).collect();
    assert_apart("one to five words", &texts);
}

/// Frequent characters, of which Chinese texts are made here.
const CHARACTERS: &str = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过\
家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从请查询订单状态处理错误超时重试文件读取失败系\
统用户数据接口返回结果任务完成开始更新删除创建";

fn chinese(characters: usize, dice: &mut Dice) -> String {
    let list: Vec<char> = CHARACTERS.chars().collect();
    (0..characters).map(|_| *dice.pick(&list)).collect()
}

#[test]
fn chinese_of_three_to_twelve_characters_is_more_than_five_bits_apart() {
    let mut dice = Dice(2);
    let texts: Vec<String> = (0..1_600).map(|number| chinese(3 + number % 10, &mut dice)).collect();
    assert_apart("three to twelve characters", &texts);
}

#[test]
fn numbers_timestamps_and_ids_change_nothing() {
    let mut dice = Dice(3);
    let chinese = (0..200).map(|number| {
        let sentences: Vec<String> = (0..1 + number % 40).map(|_| chinese(8, &mut Dice(number))).collect();
        sentences.join("，\n")
    });
    let texts: Vec<String> = texts().iter().step_by(9).map(|text| text.text.clone()).chain(chinese).collect();
    // Beyond a hundred kilobytes a text is sampled, and must be at the same places.
    let long: String = texts.iter().rev().map(String::as_str).collect();
    let long = long.char_indices().nth(400_000).map(|(end, _)| long[..end].to_owned());
    for text in texts.iter().chain(&long) {
        let start: String = text.chars().take(60).collect();
        let changed = other_digits(text, &mut dice);
        assert_eq!(simhash(text), simhash(&changed), "other digits in {start:?}");
        let a = scattered(text, &mut dice);
        // Dice may fall the same way twice where there is little to scatter.
        let b = (0..100).map(|_| scattered(text, &mut dice)).find(|b| *b != a).unwrap();
        assert_eq!(simhash(&a), simhash(&b), "other numbers, timestamps and ids in {start:?}");
    }
    println!("{} texts, distance 0 each", texts.len());
}
