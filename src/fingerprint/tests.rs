//! Long texts: what is read of them, and that how they arrive does not show.

use super::*;

const KB: usize = 1024;

fn fingerprint<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Fingerprint {
    let mut fingerprinter = Fingerprinter::default();
    for chunk in chunks {
        fingerprinter.push(chunk);
    }
    fingerprinter.finish()
}

/// Words that do not repeat, so that each change has its place.
fn long_text(bytes: usize) -> Vec<u8> {
    let letters = |mut n: usize| {
        std::iter::from_fn(move || {
            let letter = b'a' + (n % 26) as u8;
            n /= 26;
            (n > 0 || letter > b'a').then_some(letter)
        })
    };
    (1..).flat_map(|n| letters(n).chain([b' '])).take(bytes).collect()
}

#[test]
fn chunk_boundaries_are_invisible_in_long_texts() {
    for bytes in [KB, 99 * KB, 130 * KB, 301 * KB + 77, 1_100 * KB] {
        let text = long_text(bytes);
        let whole = fingerprint([&text[..]]);
        for chunk in [100, 65_536] {
            assert_eq!(fingerprint(text.chunks(chunk)), whole, "{bytes} bytes in chunks of {chunk}");
        }
    }
}

#[test]
fn a_question_after_a_long_document_is_always_read() {
    for bytes in (80 * KB..600 * KB).step_by(61_113) {
        let document = long_text(bytes);
        let ask = |question: &'static str| fingerprint([&document[..], question.as_bytes()]);
        let (cost, author) = (ask("\nWhat does it cost in total?"), ask("\nWho wrote it, and for whom?"));
        assert!(!cost.is_same(author), "after {bytes} bytes");
        assert_eq!(cost, ask("\nWhat does it cost in total?"));
    }
}

#[test]
fn the_same_holds_where_the_question_is_a_part_of_its_own() {
    let ask = |question: &str| {
        let mut fingerprinter = Fingerprinter::default();
        for part in [&long_text(215 * KB), question.as_bytes()] {
            fingerprinter.push(part);
            fingerprinter.part();
        }
        fingerprinter.finish()
    };
    assert!(!ask("What does it cost?").is_same(ask("Who wrote it?")));
}

#[test]
fn text_after_a_large_image_is_read_in_full() {
    let ask = |detail: &str| {
        let mut fingerprinter = Fingerprinter::default();
        fingerprinter.opaque(&vec![b'h'; 315 * KB]);
        fingerprinter.push(format!("{detail} {}", String::from_utf8_lossy(&long_text(8 * KB))).as_bytes());
        fingerprinter.finish()
    };
    assert!(!ask("In the first picture").is_same(ask("In the second one")));
}

#[test]
fn numbers_of_other_lengths_change_nothing_in_long_texts() {
    let document = long_text(400 * KB);
    let log = |counter: u64| -> Vec<u8> {
        let line = |(number, words): (usize, &[u8])| {
            let stamp = format!("\n#{} 2024-01-15T10:30:00Z ", number as u64 * counter);
            [stamp.as_bytes(), words].concat()
        };
        document.chunks(80).enumerate().flat_map(line).collect()
    };
    let (short, long) = (log(1), log(1_000_003));
    assert!(short.len() + 10_000 < long.len());
    assert_eq!(fingerprint([&short[..]]), fingerprint([&long[..]]));
}

#[test]
fn a_text_without_steady_bytes_is_read_up_to_a_limit() {
    let digits: Vec<u8> = (0..200_000).flat_map(|n: u32| format!("{n},{} ", n * 7).into_bytes()).collect();
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(&digits);
    assert_eq!(fingerprinter.read, READ_MAX);
    let whole = fingerprinter.finish();
    for chunk in digits.chunks(100) {
        fingerprinter.push(chunk);
        assert!(fingerprinter.skipped.len() <= 2 * END_BYTES);
    }
    assert_eq!(fingerprinter.finish(), whole);
}

#[test]
fn passing_steady_bytes_agrees_with_counting_them_one_by_one() {
    let text = "The quick 2024-01-15T10:30:00Z brown FOX, 处理订单 42; jumps over the lazy dog. ".repeat(9);
    let bytes = text.as_bytes();
    let all = bytes.iter().filter(|byte| is_steady(**byte)).count();
    for wanted in 1..=all + 1 {
        let (len, passed) = advance(bytes, wanted);
        assert_eq!(bytes[..len].iter().filter(|byte| is_steady(**byte)).count(), passed);
        assert_eq!(passed, wanted.min(all));
        assert!(wanted > all || is_steady(bytes[len - 1]), "no further than the last one wanted");
    }
}
