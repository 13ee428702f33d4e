//! Accuracy beside speed: different texts stay apart, and numbers change nothing.
//!
//! The texts are those of `lab::corpus`. `tests/accuracy` asserts the same of them; here the figures are shown.

use agent_kill_switch::fingerprint::Fingerprinter;
use lab::corpus::{Pairs, overlap, scattered, texts};

use crate::options::Options;
use crate::row::{Goal, Row, Unit, Value};

/// Different texts must be more bits apart than this.
const DIFFERENT_ABOVE: u32 = 5;
/// Texts are different if they share less than this part of their words.
const DIFFERENT_BELOW: f64 = 1.0 / 3.0;

/// Compares every text with every other one, and each with copies of itself that have other numbers.
pub fn measure(_: &Options) -> Vec<Row> {
    let texts = texts();
    let hashes: Vec<u64> = texts.iter().map(|text| simhash(&text.text)).collect();
    let pairs = Pairs::within(DIFFERENT_ABOVE, &hashes);
    let alike =
        |(one, other, _): &&(usize, usize, u32)| overlap(&texts[*one].text, &texts[*other].text) >= DIFFERENT_BELOW;
    let alike = pairs.close.iter().filter(alike).count();
    let mut random = fastrand::Rng::with_seed(3);
    let mut moved = 0;
    for text in texts.iter().step_by(3) {
        let [one, other] = [(); 2].map(|()| simhash(&scattered(&text.text, &mut random)));
        moved += usize::from(one != other);
    }
    let number = |number: usize| Value(number as f64, Unit::Count);
    vec![
        Row::new(
            "pairs of texts",
            format!("{} texts", number(texts.len())),
            number(pairs.count as usize),
            Goal::AtLeast(1e6),
        ),
        Row::new(
            "pairs of different texts at 5 bits or fewer",
            format!("{alike} more pairs are similar texts"),
            number(pairs.close.len() - alike),
            Goal::AtMost(0.0),
        ),
        Row::new(
            "texts whose hash changes with other numbers, timestamps and ids",
            format!("{} texts", texts.len().div_ceil(3)),
            number(moved),
            Goal::AtMost(0.0),
        ),
    ]
}

fn simhash(text: &str) -> u64 {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish().simhash.0
}
