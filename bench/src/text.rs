//! Generated text that does not repeat itself, the same for the same seed.
//!
//! As in natural languages, a few words are frequent and most are rare, with sentences, line breaks, quotes, numbers,
//! timestamps and ids in between. A repeated text would train the branch predictor and give times that are too good.

/// Random numbers that are the same on every machine. The bodies must not change, or results could not be compared with
/// earlier ones. A random number crate is not used, because its numbers may change with its version.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator whose numbers depend only on the seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5851_F42D_4C95_7F2D))
    }

    /// Returns a number from 0 to below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mix(self.0) % sides.max(1) as u64) as usize
    }

    /// Returns a number from 0 to below `sides`, with low numbers far more frequent.
    fn skewed(&mut self, sides: usize) -> usize {
        let part = self.roll(1 << 16) as f64 / f64::from(1 << 16);
        ((sides as f64) * part * part * part) as usize
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.roll(list.len())]
    }

    fn hex(&mut self, digits: usize) -> String {
        (0..digits).map(|_| char::from(b"0123456789abcdef"[self.roll(16)])).collect()
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

const COMMON: [&str; 72] = [
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "on", "with", "as", "be", "are", "this",
    "not", "by", "at", "from", "or", "have", "an", "but", "they", "which", "you", "we", "all", "there", "can", "more",
    "if", "when", "will", "would", "who", "so", "no", "out", "up", "into", "than", "them", "then", "some", "could",
    "time", "only", "new", "about", "may", "first", "do", "any", "its", "over", "such", "after", "also", "most",
    "user", "file", "error", "request", "before", "should", "because", "value", "system", "please",
];
const BEGINNINGS: [&str; 40] = [
    "con", "pro", "re", "in", "de", "ex", "com", "per", "dis", "pre", "sub", "trans", "over", "under", "out", "mis",
    "car", "mar", "sol", "ver", "ten", "lum", "gra", "bel", "cor", "fin", "hol", "jun", "kel", "lan", "mon", "nor",
    "pal", "qui", "ras", "sta", "tri", "val", "wes", "yar",
];
const MIDDLES: [&str; 32] = [
    "duc", "form", "ject", "mit", "port", "scrib", "spec", "struct", "tain", "tend", "tract", "vert", "vis", "fer",
    "gress", "her", "la", "mo", "ne", "pi", "ro", "su", "ti", "vo", "ber", "cal", "dor", "fil", "gan", "mer", "nal",
    "rim",
];
const ENDINGS: [&str; 20] = [
    "", "", "", "s", "ed", "ing", "er", "ion", "ions", "able", "al", "ment", "ly", "e", "y", "ive", "or", "ance",
    "ity", "ous",
];

/// Returns a word; frequent words are returned more often.
fn word(dice: &mut Dice) -> String {
    if dice.roll(100) < 45 {
        return COMMON[dice.skewed(COMMON.len())].to_owned();
    }
    let number = dice.skewed(BEGINNINGS.len() * MIDDLES.len() * ENDINGS.len());
    // The number is multiplied so that frequent words differ in all of their parts.
    let number = number.wrapping_mul(7919);
    let (first, second) = (BEGINNINGS[number % 40], MIDDLES[number / 40 % 32]);
    format!("{first}{second}{}", ENDINGS[number / 1280 % 20])
}

/// Returns a number, timestamp or id as in logs and tickets.
fn volatile(dice: &mut Dice) -> String {
    match dice.roll(8) {
        0 => format!(
            "2024-{:02}-{:02}T{:02}:{:02}:00Z",
            1 + dice.roll(12),
            1 + dice.roll(28),
            dice.roll(24),
            dice.roll(60)
        ),
        1 => [8, 4, 4, 4, 12].map(|digits| dice.hex(digits)).join("-"),
        2 => format!("{}.{:02}", dice.roll(1000), dice.roll(100)),
        3 => format!("#{}", dice.roll(100_000)),
        4 => format!("{}ms", dice.roll(900)),
        _ => dice.roll(500).to_string(),
    }
}

/// Returns what follows a word.
fn gap(dice: &mut Dice) -> &'static str {
    match dice.roll(100) {
        0..80 => " ",
        80..88 => ", ",
        88..94 => ". ",
        94..96 => ".\n",
        96 => ".\n\n",
        97 => " \"",
        98 => "\" ",
        _ => dice.pick(&[": ", "; ", " (", ") ", " - ", "_", "/", "();\n    "]),
    }
}

/// Returns text that takes this many bytes as a JSON string without its quotes, or a few fewer.
pub fn english(bytes: usize, seed: u64) -> String {
    let mut dice = Dice::new(seed);
    fill(bytes, || {
        let mut piece = if dice.roll(40) == 0 { volatile(&mut dice) } else { word(&mut dice) };
        if dice.roll(12) == 0
            && let Some(first) = piece.get_mut(..1)
        {
            first.make_ascii_uppercase();
        }
        piece + gap(&mut dice)
    })
}

/// The frequent characters of which Chinese texts are made.
const CHARACTERS: &str = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去\
行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从请查询订单状态处理错误超时重试文件\
读取失败系统户数据接口返回结果任务完开始更新删除创建";

/// Returns Chinese of this many bytes, or a few fewer.
pub fn chinese(bytes: usize, seed: u64) -> String {
    let characters: Vec<char> = CHARACTERS.chars().collect();
    let mut dice = Dice::new(seed);
    fill(bytes, || match dice.roll(60) {
        0 | 1 => "，".to_owned(),
        2 => "。\n".to_owned(),
        3 => dice.roll(1000).to_string(),
        _ => characters[dice.roll(characters.len())].to_string(),
    })
}

/// Returns base64 of this many bytes.
pub fn base64(bytes: usize, seed: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut dice = Dice::new(seed);
    (0..bytes).map(|_| char::from(LETTERS[dice.roll(64)])).collect()
}

fn fill(bytes: usize, mut next: impl FnMut() -> String) -> String {
    let mut text = String::with_capacity(bytes);
    let mut taken = 0;
    loop {
        let piece = next();
        taken += piece.len() + piece.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\n')).count();
        if taken > bytes {
            return text;
        }
        text.push_str(&piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn text_has_the_length_asked_for_and_is_the_same_for_the_same_seed() {
        for bytes in [0, 100, 1024, 102_400] {
            for text in [english(bytes, 1), chinese(bytes, 1)] {
                let quoted = serde_json::to_string(&text).expect("a string").len() - 2;
                assert!(quoted <= bytes && quoted + 50 > bytes, "{quoted} of {bytes}");
            }
        }
        assert_eq!(english(5000, 7), english(5000, 7));
        assert_ne!(english(5000, 7), english(5000, 8));
    }

    #[test]
    fn a_hundred_kilobytes_do_not_repeat_themselves() {
        let text = english(102_400, 1);
        let words: Vec<&str> = text.split_whitespace().collect();
        let runs: HashSet<&[&str]> = words.windows(6).collect();
        assert!(runs.len() + 20 > words.len() - 5, "{} of {} runs of six words", runs.len(), words.len());
        let distinct: HashSet<&str> = words.iter().copied().collect();
        assert!(distinct.len() > 3000, "{} distinct words", distinct.len());
    }
}
