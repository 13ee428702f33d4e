//! Dates and times as people write them, as regular expressions.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::fingerprint::months::{ENGLISH, OTHERS};

/// Rules for what begins with a number, and for what begins with the name of a month. In each match, group 1 is the date or
/// time; in `day_first`, group 2 is the name of a month.
struct Rules {
    time: Regex,
    numbers: Vec<Regex>,
    day_first: Vec<Regex>,
    month_first: Regex,
}

/// The names that may stand before the day: those that begin like an English one.
static BEFORE_DAY: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let begins = |name: &&str| ENGLISH.iter().any(|english| name.is_ascii() && name.starts_with(&english[..3]));
    ENGLISH.iter().chain(&OTHERS).copied().filter(begins).collect()
});

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rule = |pattern: String| Regex::new(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let end = "(?:[^0-9A-Za-z.:,]|[.:,](?:[^0-9]|$)|$)";
    let half = r" ?[AaPp](?:\.[Mm]\.|[Mm])";
    let zone = "[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?";
    let (hour, minute, second) = ("(?:[01][0-9]|2[0-3])", "[0-5][0-9]", "(?:[0-5][0-9]|60)");
    let long = format!("(?:{hour}|[0-9]):{minute}(?::{second}(?:[.,][0-9]{{1,9}})?(?:{half}|{zone})?|{half})");
    let time = format!("(?:{long}|{hour}:{minute})");
    let then_time = format!("(?:,? {{1,2}}|:){time}");
    let (year, month, day) = ("(?:19|20)[0-9]{2}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])");
    let date = |date: String| rule(format!("^({date}(?:{then_time})?){end}"));
    let numeric = |dot: &str| {
        let forms = format!("(?:{day}{dot}{month}|{month}{dot}{day}){dot}{year}|{year}{dot}{month}{dot}{day}");
        date(format!("(?:{forms})"))
    };
    let number = " ?[0-9]{1,2} ?";
    let (days, seconds) = ("[日일号號]", format!("(?:{number}[秒초])?"));
    let hours = format!("(?:{number}[时時시点](?:{number}[分분]{seconds})?)?");
    let to_month = format!("(?:[0-9]{{4}} ?[年년]{number}[月월]|[0-9]{{1,2}} ?[月월])");
    let any_day = format!("(?:{day}|[1-9])(?i:st|nd|rd|th)?");
    let word = r"([A-Za-z\u{80}-\u{10FFFF}]+)";
    let before_day = format!("(?i:{})", BEFORE_DAY.join("|"));
    Rules {
        time: rule(format!("^({time}){end}")),
        numbers: vec![
            rule(format!("^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{then_time}){end}")),
            numeric(r"\."),
            numeric("/"),
            rule(format!("^({to_month}{number}{days},? {{0,2}}{time}){end}")),
            rule(format!("^({to_month}{number}{days}{hours})")),
            rule(format!("^([0-9]{{4}} ?[年년]{number}[月월])")),
            rule(format!("^([0-9]{{1,2}} ?[时時시点]{number}[分분]{seconds})")),
        ],
        day_first: vec![
            date(format!(r"{any_day}\.? (?:of |de )?{word}\.?,? (?:de |del )?{year}")),
            date(format!("{any_day}-{word}-{year}")),
            date(format!("{any_day}/{word}/{year}")),
        ],
        month_first: rule(format!(
            r"^({before_day}\.? {{1,2}}{any_day}(?:,? {year}(?:{then_time})?|{then_time})){end}"
        )),
    }
});

/// Returns the length of the date or time that begins at `at` with `word`, if there is one.
pub fn stamp(text: &str, at: usize, word: &str) -> Option<usize> {
    let (rules, rest) = (&*RULES, &text[at..]);
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        let is_month = BEFORE_DAY.contains(&&*word.to_ascii_lowercase());
        return if is_month { first_group(&rules.month_first, rest) } else { None };
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        let before = text[..at].chars().next_back();
        let may_be_time = !before.is_some_and(|c| c.is_ascii_alphanumeric() || ".:".contains(c));
        let time = if may_be_time { first_group(&rules.time, rest) } else { None };
        if let Some(len) = time.or_else(|| rules.numbers.iter().find_map(|rule| first_group(rule, rest))) {
            return Some(len);
        }
    }
    rules.day_first.iter().find_map(|rule| {
        let hit = rule.captures(rest)?;
        let name = hit.get(2)?.as_str().to_lowercase();
        let is_month = ENGLISH.iter().chain(&OTHERS).any(|month| *month == name);
        if is_month { Some(hit.get(1)?.len()) } else { None }
    })
}

fn first_group(rule: &Regex, text: &str) -> Option<usize> {
    Some(rule.captures(text)?.get(1)?.len())
}
