//! The names of months in the large languages, as they stand next to a number in a date.
//!
//! The module contains only hashes of the names. A word is looked up only if a day and a year stand next to it. Case is
//! ignored by folding bytes, as in [`step`], which takes a few misspellings for months, and misses a few capitals.

/// The English names, which may also stand before the day.
pub const ENGLISH: [&str; 24] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
];

/// The names in other languages that differ from the English ones, in the form that they have in a date.
#[rustfmt::skip]
pub const OTHERS: [&str; 146] = [
    // French, and without accents
    "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
    "décembre", "janv", "févr", "avr", "juil", "déc", "fevrier", "aout", "decembre",
    // German
    "januar", "jänner", "februar", "märz", "mär", "juni", "juli", "oktober", "okt", "dezember", "dez",
    // Spanish
    "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre",
    "diciembre", "ene", "abr", "ago", "dic",
    // Italian
    "gennaio", "febbraio", "aprile", "maggio", "giugno", "luglio", "settembre", "ottobre", "dicembre", "gen", "mag",
    "giu", "lug", "set", "ott",
    // Portuguese
    "janeiro", "fevereiro", "março", "maio", "junho", "julho", "setembro", "outubro", "novembro", "dezembro", "fev",
    "out",
    // Dutch, Indonesian, and the Scandinavian languages
    "januari", "februari", "maart", "mei", "augustus", "mrt", "maret", "agustus", "desember", "maj", "marts", "augusti",
    // Polish
    "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października",
    "listopada", "grudnia",
    // Turkish
    "ocak", "şubat", "mart", "nisan", "mayıs", "haziran", "temmuz", "ağustos", "eylül", "ekim", "kasım", "aralık",
    // Russian
    "января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября", "октября", "ноября", "декабря",
    // Arabic
    "يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو", "يوليو", "أغسطس", "سبتمبر", "أكتوبر", "نوفمبر", "ديسمبر",
    // Hindi
    "जनवरी", "फरवरी", "मार्च", "अप्रैल", "मई", "जून", "जुलाई", "अगस्त", "सितंबर", "अक्टूबर", "नवंबर", "दिसंबर",
];

/// The length of the longest name, in bytes.
pub const NAME_MAX: usize = 24;

/// The hashes of the English names, and then of the others.
static HASHES: [u32; ENGLISH.len() + OTHERS.len()] = hashes();

const BASIS: u32 = 0x811C_9DC5;

/// One step of FNV-1a, without the bits that tell small letters from capitals: one in ASCII, and with few exceptions two in
/// Latin, Cyrillic and Turkish letters beyond it.
const fn step(hash: u32, byte: u8) -> u32 {
    let folded = byte | if byte < 0x80 { 0x20 } else { 0x21 };
    (hash ^ folded as u32).wrapping_mul(0x0100_0193)
}

#[allow(clippy::indexing_slicing)] // runs when the program is compiled
const fn hashes() -> [u32; ENGLISH.len() + OTHERS.len()] {
    let mut hashes = [0; ENGLISH.len() + OTHERS.len()];
    let mut index = 0;
    while index < hashes.len() {
        let name = if index < ENGLISH.len() { ENGLISH[index] } else { OTHERS[index - ENGLISH.len()] };
        let (mut hash, mut at) = (BASIS, 0);
        while at < name.len() {
            hash = step(hash, name.as_bytes()[at]);
            at += 1;
        }
        hashes[index] = hash;
        index += 1;
    }
    hashes
}

/// Returns whether a word is the name of a month, in any case.
#[inline(never)]
pub fn is_month(word: &[u8]) -> bool {
    let mut hash = BASIS;
    for &byte in word {
        hash = step(hash, byte);
    }
    // A plain loop: `contains` is compiled to ten times as much code.
    for &known in &HASHES {
        if known == hash {
            return true;
        }
    }
    false
}

/// Returns the bits of some letters. A capital has the same bit as the small letter.
const fn letters(all: &[u8]) -> u32 {
    let (mut bits, mut rest) = (0, all);
    while let [first, others @ ..] = rest {
        bits |= 1 << (*first & 31);
        rest = others;
    }
    bits
}

/// Returns whether a word of ASCII letters begins like an English month and is not longer than one. This is tested for most
/// words that stand before a number, so it must be quick.
#[inline(never)]
pub fn begins_like_month(word: &[u8]) -> bool {
    const fn begins(name: &[u8; 3]) -> u32 {
        u32::from_be_bytes([0, name[0], name[1], name[2]])
    }
    const JAN: u32 = begins(b"jan");
    const FEB: u32 = begins(b"feb");
    const MAR: u32 = begins(b"mar");
    const APR: u32 = begins(b"apr");
    const MAY: u32 = begins(b"may");
    const JUN: u32 = begins(b"jun");
    const JUL: u32 = begins(b"jul");
    const AUG: u32 = begins(b"aug");
    const SEP: u32 = begins(b"sep");
    const OCT: u32 = begins(b"oct");
    const NOV: u32 = begins(b"nov");
    const DEC: u32 = begins(b"dec");
    const FIRST: u32 = letters(b"jfmasond");
    const SECOND: u32 = letters(b"aepuco");
    const THIRD: u32 = letters(b"nbrylgptvc");
    let Some(first @ &[a, b, c]) = word.first_chunk() else { return false };
    // Rules out most words with a single branch. A branch for each letter would often be mispredicted.
    let may_be = (FIRST >> (a & 31)) & (SECOND >> (b & 31)) & (THIRD >> (c & 31)) & 1;
    if may_be == 0 {
        return false;
    }
    let begins = begins(first) | 0x20_20_20;
    matches!(begins, JAN | FEB | MAR | APR | MAY | JUN | JUL | AUG | SEP | OCT | NOV | DEC) && word.len() <= 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_other_words_are_not() {
        for name in ENGLISH.iter().chain(&OTHERS) {
            assert!(name.len() <= NAME_MAX, "{name}");
            assert!(is_month(name.as_bytes()), "{name}");
            // The Turkish dotless i has the capital I, and the capital of ź differs from it in other bits.
            let upper = name.to_uppercase();
            assert_eq!(is_month(upper.as_bytes()), !name.contains(['ı', 'ź']), "{name}");
            assert!(begins_like_month(name.as_bytes()) || !ENGLISH.contains(name), "{name}");
            assert_eq!(*name, name.to_lowercase());
        }
        for word in ["", "ma", "march1", "marching", "orders", "maybe", "décembrement", "\u{FFFD}"] {
            assert!(!is_month(word.as_bytes()), "{word}");
        }
        assert!(!is_month(b"m\xFFrz"));
    }
}
