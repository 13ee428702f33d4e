//! The normaliser against a slow, obvious one made of regular expressions, on arbitrary text in arbitrary chunks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test fails by panicking

use agent_kill_switch::detect::display::normalised;
use agent_kill_switch::detect::fingerprint::{Fingerprint, Fingerprinter};
use proptest::prelude::*;
use regex_lite::Regex;

fn fingerprint(text: &str) -> Fingerprint {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish()
}

#[test]
fn volatile_text_becomes_placeholders() {
    let cases = [
        ("Order #12345", "order #<NUM>"),
        ("page 42 of 100", "page <NUM> of <NUM>"),
        ("id: 550e8400-e29b-41d4-a716-446655440000", "id: <ID>"),
        ("ID: 550E8400-E29B-41D4-A716-446655440000.", "id: <ID>."),
        ("at 2024-01-15T10:30:00Z", "at <TS>"),
        ("at 2024-01-15T10:30:00.123Z,", "at <TS>,"),
        ("at 2024-01-15T10:30:00+05:00!", "at <TS>!"),
        ("on 2024-01-15.", "on <TS>."),
        ("at 2024-01-15T10:30", "at <TS>"),
        ("at 2024-01-15T10:30:00.123abc", "at <TS>.<NUM>abc"),
        ("log 2024-01-15 10:30:00", "log <TS> <NUM>:<NUM>:<NUM>"),
        ("hash: 0123456789abcdef0123", "hash: <ID>"),
        ("commit 9f3c2ab", "commit <ID>"),
        ("call_oIHazX6yQrB8hUwl4cRilFKj", "call_<ID>"),
        ("at 0x7f8b1c2d3e4f>", "at <NUM>>"),
        ("3.14 and 1,234,567 and 10.0.0.1", "<NUM> and <NUM> and <NUM>"),
        ("v2 utf8 x86_64 15ms", "v<NUM> utf<NUM> x<NUM>_<NUM> <NUM>ms"),
        ("orders are idle; identify the messages", "orders are idle; identify the messages"),
        ("deadbeef facade added", "deadbeef facade added"),
        ("a\tb\r\nc   d", "a b c d"),
        ("  padded  ", "padded"),
        ("", ""),
        ("Größe: ÄRGER", "größe: ärger"),
        ("订单12345在2024-01-15T10:30:00Z的550e8400-e29b-41d4-a716-446655440000", "订单<NUM>在<TS>的<ID>"),
        ("“quoted” – dashed", "“quoted” – dashed"),
    ];
    for (text, expected) in cases {
        assert_eq!(normalised(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn invalid_utf8_separates_words_and_is_never_a_panic() {
    assert_eq!(normalised(b"caf\xff\xfe ok"), "caf\u{FFFD}\u{FFFD} ok");
    assert_eq!(normalised(&[0x80; 1000]).chars().count(), 1000);
}

#[test]
fn texts_that_differ_only_in_volatile_parts_have_one_fingerprint() {
    let pairs = [
        ("retry order #1001 at 2024-01-15T10:30:00Z", "retry order #99 at 2025-11-02T23:59:59.999+02:00"),
        ("session 550e8400-e29b-41d4-a716-446655440000 lost", "session 00000000-e29b-41d4-a716-44665544ffff lost"),
        ("for i in 0..10 { v[i] += 0x1f; }", "for i in 7..4096 { v[i] += 0xdeadbeef; }"),
        ("处理订单12345，时间2024-01-15", "处理订单7，时间2031-12-31"),
    ];
    for (a, b) in pairs {
        assert_eq!(fingerprint(a).simhash, fingerprint(b).simhash, "{a:?} {b:?}");
    }
}

#[test]
fn the_digest_tells_plain_numbers_apart_and_labels_not() {
    let same = |a, b| fingerprint(a).is_same(fingerprint(b));
    assert!(!same("12 tests failed", "7 tests failed"));
    assert!(!same("progress: 10%", "progress: 20%"));
    assert!(!same("order a then b", "order b then a"));
    for (a, b) in [
        ("request #12 timed out", "request #13 timed out"),
        ("job-7 timed out after 30.02s", "job-8 timed out after 30.5s"),
        ("session 1700000001 expired", "session 1700000002 expired"),
        ("took 15ms for the request", "took 7ms for the request"),
        (r#"{"order_id": 1001, "state": "lost"}"#, r#"{"order_id": 1002, "state": "lost"}"#),
        ("Attempt 2 failed, retry 3 follows", "Attempt 3 failed, retry 4 follows"),
    ] {
        assert!(same(a, b), "{a:?} {b:?}");
    }
}

/// Text that is likely to hold what the normaliser looks for, and its near misses.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,9}",
        "[0-9]{1,12}",
        "[0-9a-f]{6,20}",
        "[0-9a-zA-Z]{10,70}",
        "0x[0-9a-fA-F]{0,5}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?([.,][0-9]{1,11})?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[0-9]{1,3}([.,][0-9]{1,3}){0,4}",
        "[ \\t\\n\\r.,:;#_+-]{1,3}",
        "[\\u{80}-\\u{24f}]{1,5}",
        "[а-яА-Я]{1,40}",
        "[\\u{4e00}-\\u{4e40}\\u{3000}-\\u{3020}\\u{1f600}]{1,30}",
        "\\PC{0,8}",
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_normaliser_agrees_with_the_oracle(text in text()) {
        prop_assert_eq!(normalised(text.as_bytes()), oracle::normalised(&text));
    }

    #[test]
    fn chunk_boundaries_are_invisible(text in text(), repeat in 1usize..60, cuts in prop::collection::vec(1usize..700, 1..20)) {
        let text = text.repeat(repeat);
        let mut chunked = Fingerprinter::default();
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (now, later) = rest.split_at(rest.len().min(*cut));
            chunked.push(now);
            rest = later;
        }
        prop_assert_eq!(chunked.finish(), fingerprint(&text));
    }
}

mod oracle {
    //! The rules as regular expressions, applied word by word.

    use std::sync::LazyLock;

    use super::Regex;

    const END: &str = "(?:[^0-9A-Za-z]|$)";

    struct Rules {
        run: Regex,
        uuid: Regex,
        timestamp: Regex,
        group: Regex,
    }

    static RULES: LazyLock<Rules> = LazyLock::new(|| {
        let hex = "[0-9a-fA-F]";
        Rules {
            run: Regex::new("^[0-9A-Za-z]{1,64}").unwrap(),
            uuid: Regex::new(&format!("^{hex}{{8}}-{hex}{{4}}-{hex}{{4}}-{hex}{{4}}-{hex}{{12}}{END}")).unwrap(),
            timestamp: Regex::new(&format!(
                r"^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[Tt][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]{{1,9}})?)?(?:[Zz]|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?){END}"
            ))
            .unwrap(),
            group: Regex::new(&format!("^([.,][0-9]{{1,64}}){END}")).unwrap(),
        }
    });

    pub fn normalised(text: &str) -> String {
        let mut out = Out::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                c if c.is_ascii_alphanumeric() => RULES.word(rest, &mut out),
                c if c.is_ascii() => {
                    out.gap(c);
                    &rest[1..]
                }
                _ => other(rest, &mut out),
            };
        }
        out.text
    }

    impl Rules {
        fn word<'a>(&self, rest: &'a str, out: &mut Out) -> &'a str {
            let run = self.run.find(rest).unwrap().as_str();
            if run.len() == 8 && self.uuid.is_match(rest) {
                out.write("<ID>");
                return &rest[36..];
            }
            let digits = run.chars().all(|c| c.is_ascii_digit());
            if digits {
                if run.len() == 4
                    && let Some(hit) = self.timestamp.captures(rest)
                {
                    out.write("<TS>");
                    return &rest[hit.get(1).unwrap().len()..];
                }
                out.write("<NUM>");
                let mut rest = &rest[run.len()..];
                while let Some(group) = self.group.captures(rest) {
                    rest = &rest[group.get(1).unwrap().len()..];
                }
                return rest;
            }
            out.write(&mixed(&run.to_lowercase()));
            &rest[run.len()..]
        }
    }

    fn mixed(run: &str) -> String {
        let is = |pattern: &str| Regex::new(pattern).unwrap().is_match(run);
        let groups = Regex::new("[0-9]+").unwrap().find_iter(run).count();
        match () {
            () if is("^0x[0-9a-f]+$") => "<NUM>".into(),
            () if is("^[0-9a-f]{7,}$") && is("[0-9]") => "<ID>".into(),
            () if run.len() >= 16 && groups >= 2 => "<ID>".into(),
            () => Regex::new("[0-9]+").unwrap().replace_all(run, "<NUM>").into_owned(),
        }
    }

    fn other<'a>(rest: &'a str, out: &mut Out) -> &'a str {
        let mut len = 0;
        for c in rest.chars().take_while(|c| !c.is_ascii()) {
            if len + c.len_utf8() > 64 {
                break;
            }
            len += c.len_utf8();
        }
        for c in rest[..len].chars() {
            let symbol = matches!(c as u32, 0x2000..=0x2BFF | 0x3000..=0x303F | 0xFE00..=0xFE0F | 0xFF00..=0xFF0F)
                || c.is_control()
                || c.is_whitespace()
                || ((c as u32) < 0xE00 && !c.is_alphanumeric());
            if symbol { out.gap(c) } else { out.write(&c.to_lowercase().to_string()) }
        }
        &rest[len..]
    }

    #[derive(Default)]
    struct Out {
        text: String,
        space: bool,
    }

    impl Out {
        fn write(&mut self, piece: &str) {
            if std::mem::take(&mut self.space) && !self.text.is_empty() {
                self.text.push(' ');
            }
            self.text.push_str(piece);
        }

        fn gap(&mut self, c: char) {
            if c.is_whitespace() { self.space = true } else { self.write(&c.to_string()) }
        }
    }
}
