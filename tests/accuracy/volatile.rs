//! Numbers, timestamps and ids, and texts that differ in nothing else.

/// A small generator of its own, so that every run takes the same texts.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.roll(list.len())]
    }

    fn hex(&mut self, digits: usize) -> String {
        (0..digits).map(|_| char::from(b"0123456789abcdef"[self.roll(16)])).collect()
    }

    fn number(&mut self) -> String {
        match self.roll(4) {
            0 => self.roll(10).to_string(),
            1 => format!("{}.{}", self.roll(1_000), self.roll(100)),
            2 => format!("{},{:03}", 1 + self.roll(99), self.roll(1_000)),
            _ => (1_000 + self.roll(2_000_000_000)).to_string(),
        }
    }

    fn timestamp(&mut self) -> String {
        let date = format!("20{:02}-{:02}-{:02}", self.roll(100), 1 + self.roll(12), 1 + self.roll(28));
        let time = format!("{:02}:{:02}:{:02}", self.roll(24), self.roll(60), self.roll(60));
        match self.roll(4) {
            0 => date,
            1 => format!("{date}T{time}Z"),
            2 => format!("{date}T{time}.{:03}Z", self.roll(1_000)),
            _ => format!("{date}T{time}+{:02}:30", self.roll(12)),
        }
    }

    fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|digits| self.hex(digits)).join("-")
    }

    /// A number, a timestamp or a UUID, by `kind`.
    fn volatile(&mut self, kind: usize) -> String {
        match kind % 3 {
            0 => self.number(),
            1 => self.timestamp(),
            _ => self.uuid(),
        }
    }
}

/// The text with a number, a timestamp or an id after every few words, of other values for each `dice`.
pub fn scattered(text: &str, dice: &mut Dice) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for (count, word) in text.split_inclusive(char::is_whitespace).enumerate() {
        out.push_str(word);
        if count % 5 == 0 {
            let kind = count / 5;
            out.push_str(if word.ends_with(char::is_whitespace) { "" } else { " " });
            out.push_str(&dice.volatile(kind));
            out.push(' ');
        }
    }
    out
}

/// The text with every digit replaced by another: all its numbers, dates and ids have other values and the same form.
pub fn other_digits(text: &str, dice: &mut Dice) -> String {
    let following = text.chars().skip(1).chain([' ']);
    let other = |(c, next): (char, char)| match c {
        // What stands before an x makes it a hexadecimal number, or not.
        '0'..='9' if !matches!(next, 'x' | 'X') => char::from(b'0' + dice.roll(10) as u8),
        _ => c,
    };
    text.chars().zip(following).map(other).collect()
}
