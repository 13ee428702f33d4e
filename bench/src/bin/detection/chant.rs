//! A model that repeats itself within one answer, by the documented rule of gemini-cli.
//!
//! The same 50 characters must occur 10 times, on average at most 250 characters apart, and what is between them must be
//! mostly the same too. Lines of code, tables, lists, headings and quotations start the count anew.

use std::collections::{HashMap, HashSet};

const PIECE: usize = 50;
const TIMES: usize = 10;
const FARTHEST: usize = 5 * PIECE;

/// Returns whether an answer repeats itself.
pub fn chants(answer: &str) -> bool {
    let mut stretch: Vec<char> = Vec::new();
    let mut in_code = false;
    for line in answer.split_inclusive('\n') {
        let start = line.trim_start();
        let is_fence = start.starts_with("```");
        let is_listed = start.starts_with(['|', '#', '>']) || is_item(start);
        if is_fence || is_listed {
            if repeats(&stretch) {
                return true;
            }
            stretch.clear();
        }
        in_code ^= is_fence;
        if !in_code && !is_fence {
            stretch.extend(line.chars());
        }
    }
    repeats(&stretch)
}

fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["* ", "- ", "+ "].iter().any(|mark| line.starts_with(mark))
        || (numbered.len() < line.len() && numbered.starts_with(". "))
}

fn repeats(text: &[char]) -> bool {
    let mut places: HashMap<&[char], Vec<usize>> = HashMap::new();
    for (at, piece) in text.windows(PIECE).enumerate() {
        let places = places.entry(piece).or_default();
        places.push(at);
        let Some(first) = places.len().checked_sub(TIMES) else { continue };
        let latest = &places[first..];
        if at - latest[0] > FARTHEST * (TIMES - 1) {
            continue;
        }
        let between: HashSet<&[char]> = latest.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        if between.len() <= TIMES / 2 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_the_same_ten_times_chants() {
        let sentence = "I will now look at the file again, because I am not sure what it says. ";
        assert!(chants(&sentence.repeat(10)));
        assert!(!chants(&sentence.repeat(9)));
        assert!(!chants(&format!("```\n{}\n```", sentence.repeat(20))));
        assert!(!chants(&format!("- {sentence}\n").repeat(20)));
        assert!(!chants(&(0..20).map(|n| format!("{sentence}{}", "x".repeat(n))).collect::<String>()));
    }
}
