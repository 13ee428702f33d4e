//! Text by the yard: sentences that are the same for the same seed and share little for different ones.
//!
//! For answers and tool results that must differ from each other as real ones do. A template with a changing number
//! would not do: numbers are what a detector looks through.

use crate::fresh::mix;

const SUBJECTS: [&str; 24] = [
    "the billing service",
    "our nightly import",
    "the search index",
    "a stale lock file",
    "the payment webhook",
    "that retry policy",
    "the user table",
    "a background worker",
    "the session cache",
    "the release script",
    "an expired certificate",
    "the audit trail",
    "the message broker",
    "a feature flag",
    "the login page",
    "the invoice template",
    "this migration",
    "the rate limiter",
    "a nested transaction",
    "the thumbnail job",
    "the currency converter",
    "an orphaned record",
    "the mobile client",
    "the health check",
];
const VERBS: [&str; 24] = [
    "rejects",
    "duplicates",
    "silently drops",
    "waits for",
    "overwrites",
    "depends on",
    "was renamed after",
    "never reaches",
    "slows down",
    "validates",
    "leaks memory through",
    "falls back to",
    "disagrees with",
    "replaces",
    "reads twice from",
    "locks out",
    "times out behind",
    "rounds away",
    "shadows",
    "exposes",
    "forgets about",
    "serialises",
    "compresses",
    "schedules",
];
const OBJECTS: [&str; 24] = [
    "customer addresses with umlauts",
    "orders placed before midnight",
    "the secondary replica",
    "empty attachments",
    "tokens issued abroad",
    "the quarterly report",
    "cancelled subscriptions",
    "large uploads",
    "the archive bucket",
    "anonymous visitors",
    "cached translations",
    "partial refunds",
    "the staging cluster",
    "signed cookies",
    "leap-day bookings",
    "the warehouse feed",
    "unread notifications",
    "legacy passwords",
    "the tax calculation",
    "broken thumbnails",
    "long product names",
    "the legal footer",
    "guest checkouts",
    "out-of-stock items",
];
const ENDINGS: [&str; 24] = [
    "whenever traffic doubles",
    "since last Thursday",
    "on the second attempt",
    "unless debug logging is on",
    "because nobody owns it",
    "in the Dutch locale only",
    "once the queue is full",
    "and the tests never noticed",
    "as the design document warned",
    "until someone restarts it",
    "under heavy load",
    "for new accounts",
    "which explains the complaint",
    "so we should pin it",
    "while backups run",
    "despite the earlier fix",
    "after daylight saving ends",
    "if the header is missing",
    "when two tabs are open",
    "without any error",
    "behind the corporate proxy",
    "before the first login",
    "on older phones",
    "with the default settings",
];

/// One sentence, without a full stop.
pub fn sentence(seed: u64) -> String {
    let seed = mix(seed);
    let pick = |list: &[&'static str; 24], step: u32| list[(seed >> (step * 16)) as usize % 24];
    format!("{} {} {} {}", pick(&SUBJECTS, 0), pick(&VERBS, 1), pick(&OBJECTS, 2), pick(&ENDINGS, 3))
}

/// So many sentences.
pub fn paragraph(seed: u64, sentences: u64) -> String {
    let each = (0..sentences).map(|index| sentence(mix(seed) ^ index.wrapping_mul(0x9E37_79B9)) + ". ");
    let text: String = each.collect();
    text.trim_end().to_owned()
}

/// The mock LLM's answer to a message that no script answers.
pub fn reply_to(message: &str) -> String {
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
