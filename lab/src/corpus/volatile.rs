//! Numbers, timestamps and ids, and texts that differ in nothing else.

use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;

/// Returns a number, a timestamp or a UUID.
pub(super) fn value(random: &mut Rng) -> String {
    let kind = random.usize(..3);
    value_of(kind, random)
}

fn value_of(kind: usize, random: &mut Rng) -> String {
    match kind % 3 {
        0 => number(random),
        1 => timestamp(random),
        _ => [8, 4, 4, 4, 12].map(|digits| (0..digits).map(|_| random.digit(16)).collect::<String>()).join("-"),
    }
}

fn number(random: &mut Rng) -> String {
    match random.u8(..4) {
        0 => random.digit(10).to_string(),
        1 => format!("{}.{}", random.u16(..1_000), random.u8(..100)),
        2 => format!("{},{:03}", random.u8(1..100), random.u16(..1_000)),
        _ => random.u32(1_000..2_000_000_000).to_string(),
    }
}

fn timestamp(random: &mut Rng) -> String {
    // Any millisecond of this century.
    let time = UNIX_EPOCH + Duration::from_millis(random.u64(946_684_800_000..4_102_444_800_000));
    let seconds = humantime::format_rfc3339_seconds(time).to_string();
    match random.u8(..4) {
        0 => seconds[..10].to_owned(),
        1 => seconds,
        2 => humantime::format_rfc3339_millis(time).to_string(),
        _ => format!("{}+{:02}:30", &seconds[..19], random.u8(..12)),
    }
}

/// Returns the text with a number, a timestamp or an id after every few words. The values differ with each call.
pub fn scattered(text: &str, random: &mut Rng) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for (count, word) in text.split_inclusive(char::is_whitespace).enumerate() {
        out.push_str(word);
        if count % 5 == 0 {
            out.push_str(if word.ends_with(char::is_whitespace) { "" } else { " " });
            out.push_str(&value_of(count / 5, random));
            out.push(' ');
        }
    }
    out
}

/// Returns the text with a random digit for every digit: all its numbers, dates and ids keep their form.
pub fn other_digits(text: &str, random: &mut Rng) -> String {
    let following = text.chars().skip(1).chain([' ']);
    let other = |(letter, next): (char, char)| match letter {
        // A zero before an x starts a hexadecimal number.
        '0'..='9' if !matches!(next, 'x' | 'X') => random.digit(10),
        _ => letter,
    };
    text.chars().zip(following).map(other).collect()
}
