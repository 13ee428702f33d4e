//! Requirement: SimHash Algorithm.

use crate::common::sentence;
use crate::distance;

#[test]
fn similar_texts_produce_similar_hashes() {
    // WHEN two texts differ only in numbers or timestamps
    let pairs = [
        ("Retry order #12345, attempt 2", "Retry order #9, attempt 1,000"),
        ("Deployed at 2024-01-15T10:30:00Z", "Deployed at 2031-12-01T23:59:59.123+05:00"),
        ("balance: 1,204.50 EUR on 2024-01-15", "balance: 7 EUR on 2025-02-28"),
        ("let page = offset / 40 + 1; // 0x1f", "let page = offset / 1000 + 23; // 0xdeadbeef"),
        ("第3页，共100页，更新于2024-01-15", "第42页，共7页，更新于2030-06-30"),
        ("7", "123456"),
    ];
    for (a, b) in pairs {
        // THEN their SimHash Hamming distance SHALL be less than 3
        assert!(distance(a, b) < 3, "{a:?} {b:?}");
        assert_eq!(distance(a, b), 0, "{a:?} {b:?}: there is no difference at all");
    }
}

#[test]
fn different_texts_produce_different_hashes() {
    // WHEN two texts have substantially different content
    let mut texts: Vec<String> = (0..40).map(sentence).collect();
    let others =
        ["search", "status", "What time is it?", "Write a haiku.", "fn main() {}", "订单在哪里", "写一首诗", "ok"];
    texts.extend(others.map(str::to_owned));
    for (index, a) in texts.iter().enumerate() {
        for b in &texts[index + 1..] {
            // THEN their SimHash Hamming distance SHALL be greater than 5
            assert!(distance(a, b) > 5, "{a:?} {b:?}");
        }
    }
}
