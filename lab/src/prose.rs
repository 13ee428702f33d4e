//! Sentences that are the same for the same seed and share little for different ones.
//!
//! For answers and tool results that must differ from each other as real ones do. A template with a changing number would
//! not do, because a detector ignores numbers.

use std::sync::LazyLock;

use fastrand::Rng;

/// Subjects, verbs, objects and endings: a line for each, separated by semicolons.
static PHRASES: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    let list = |line: &'static str| line.split("; ").collect();
    include_str!("../corpus/phrases.txt").lines().map(list).collect()
});

/// Returns a sentence without a full stop.
pub fn sentence(seed: u64) -> String {
    let mut random = Rng::with_seed(seed);
    PHRASES.iter().map(|list| list[random.usize(..list.len())]).collect::<Vec<_>>().join(" ")
}

/// Returns this many sentences.
pub fn paragraph(seed: u64, sentences: u64) -> String {
    let mut random = Rng::with_seed(seed);
    let each: Vec<String> = (0..sentences).map(|_| sentence(random.u64(..)) + ".").collect();
    each.join(" ")
}

/// Returns the mock LLM's answer to a message that no script answers.
pub fn reply_to(message: &str) -> String {
    // FNV-1a: the standard library's hash may change between versions.
    let seed = message
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    format!("I looked into it: {}. Also, {}.", sentence(seed), sentence(!seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_message_gets_the_same_reply_and_others_get_others() {
        assert_eq!(reply_to("hello"), reply_to("hello"));
        let replies: HashSet<String> = (0..1000).map(|n| reply_to(&format!("question {n}"))).collect();
        assert_eq!(replies.len(), 1000);
    }

    #[test]
    fn paragraphs_of_different_seeds_share_no_sentence() {
        let sentences: Vec<String> =
            (0..40).flat_map(|seed| paragraph(seed, 4).split(". ").map(str::to_owned).collect::<Vec<_>>()).collect();
        assert_eq!(sentences.iter().collect::<HashSet<_>>().len(), 160);
    }
}
