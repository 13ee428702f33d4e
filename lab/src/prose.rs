//! Sentences that are the same for the same seed and share little for different ones.
//!
//! For answers and tool results that must differ from each other as real ones do. A template with a changing number would
//! not do, because a detector ignores numbers.

use fastrand::Rng;

#[rustfmt::skip]
const SUBJECTS: [&str; 24] = [
    "the billing service", "our nightly import", "the search index", "a stale lock file", "the payment webhook",
    "that retry policy", "the user table", "a background worker", "the session cache", "the release script",
    "an expired certificate", "the audit trail", "the message broker", "a feature flag", "the login page",
    "the invoice template", "this migration", "the rate limiter", "a nested transaction", "the thumbnail job",
    "the currency converter", "an orphaned record", "the mobile client", "the health check",
];
#[rustfmt::skip]
const VERBS: [&str; 24] = [
    "rejects", "duplicates", "silently drops", "waits for", "overwrites", "depends on", "was renamed after",
    "never reaches", "slows down", "validates", "leaks memory through", "falls back to", "disagrees with", "replaces",
    "reads twice from", "locks out", "times out behind", "rounds away", "shadows", "exposes", "forgets about",
    "serialises", "compresses", "schedules",
];
#[rustfmt::skip]
const OBJECTS: [&str; 24] = [
    "customer addresses with umlauts", "orders placed before midnight", "the secondary replica", "empty attachments",
    "tokens issued abroad", "the quarterly report", "cancelled subscriptions", "large uploads", "the archive bucket",
    "anonymous visitors", "cached translations", "partial refunds", "the staging cluster", "signed cookies",
    "leap-day bookings", "the warehouse feed", "unread notifications", "legacy passwords", "the tax calculation",
    "broken thumbnails", "long product names", "the legal footer", "guest checkouts", "out-of-stock items",
];
#[rustfmt::skip]
const ENDINGS: [&str; 24] = [
    "whenever traffic doubles", "since last Thursday", "on the second attempt", "unless debug logging is on",
    "because nobody owns it", "in the Dutch locale only", "once the queue is full", "and the tests never noticed",
    "as the design document warned", "until someone restarts it", "under heavy load", "for new accounts",
    "which explains the complaint", "so we should pin it", "while backups run", "despite the earlier fix",
    "after daylight saving ends", "if the header is missing", "when two tabs are open", "without any error",
    "behind the corporate proxy", "before the first login", "on older phones", "with the default settings",
];

/// Returns a sentence without a full stop.
pub fn sentence(seed: u64) -> String {
    let mut random = Rng::with_seed(seed);
    [SUBJECTS, VERBS, OBJECTS, ENDINGS].map(|list| list[random.usize(..24)]).join(" ")
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
