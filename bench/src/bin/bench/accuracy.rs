//! What speed must not cost: different texts stay apart, and numbers change nothing.
//!
//! The texts are those of `tests/accuracy/`, which finds them on the machine and asserts the same of them; here the
//! figures are shown.

use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::fingerprint::simhash::SimHash;

use crate::options::Options;
use crate::row::{Goal, Row, Unit, Value};

#[path = "../../../../tests/accuracy/corpus.rs"]
#[allow(dead_code)] // the test uses more of it
mod corpus;
#[path = "../../../../tests/accuracy/volatile.rs"]
#[allow(dead_code)] // the test uses more of it
mod volatile;

/// Different texts are further apart than this.
const DIFFERENT_ABOVE: u32 = 5;
/// Texts are different if they share less than this part of their words.
const DIFFERENT_BELOW: f64 = 1.0 / 3.0;

/// Compares every text with every other, and each with itself in other numbers.
pub fn measure(_: &Options) -> Vec<Row> {
    let texts = corpus::texts();
    let hashes: Vec<SimHash> = texts.iter().map(|text| simhash(&text.text)).collect();
    let (mut pairs, mut alike, mut wrong) = (0u64, 0u64, 0u64);
    for (i, hash) in hashes.iter().enumerate() {
        for (j, other) in hashes.iter().enumerate().skip(i + 1) {
            pairs += 1;
            if hash.distance(*other) <= DIFFERENT_ABOVE {
                let (one, other) = (&texts[i], &texts[j]);
                let is_alike = one.path == other.path || corpus::overlap(&one.text, &other.text) >= DIFFERENT_BELOW;
                *if is_alike { &mut alike } else { &mut wrong } += 1;
            }
        }
    }
    let mut dice = volatile::Dice(3);
    let moved = |text: &corpus::Text| {
        let [one, other] = [0; 2].map(|_| simhash(&volatile::scattered(&text.text, &mut dice)));
        one != other
    };
    let moved = texts.iter().step_by(3).map(moved).filter(|moved| *moved).count();
    let number = |number: f64| Value(number, Unit::Count);
    let [files, compared] = [texts.len() as f64, pairs as f64].map(number);
    vec![
        Row::new("pairs of texts of this machine", format!("{files} texts"), compared, Goal::AtLeast(1e6)),
        Row::new(
            "pairs of different texts at 5 bits or fewer",
            format!("{alike} more, which are alike"),
            number(wrong as f64),
            Goal::AtMost(0.0),
        ),
        Row::new(
            "texts that other numbers, timestamps and ids move",
            format!("{} texts", texts.len().div_ceil(3)),
            number(moved as f64),
            Goal::AtMost(0.0),
        ),
    ]
}

fn simhash(text: &str) -> SimHash {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish().simhash
}
