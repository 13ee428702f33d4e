use super::*;
use proptest::prelude::*;

fn find_in<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Option<Repetition> {
    let mut finder = RepetitionFinder::default();
    for chunk in chunks {
        finder.push(chunk);
    }
    finder.end_word();
    finder.found()
}

fn find(text: &str) -> Option<Repetition> {
    find_in([text.as_bytes()])
}

/// The obviously correct detector: after each word, tries every period on all words so far.
mod naive {
    use super::*;

    pub fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for part in text.split(|character: char| character.is_ascii_whitespace() || character.is_ascii_control()) {
            let mut word = String::new();
            for character in part.chars() {
                if ('\u{3000}'..='\u{9FFF}').contains(&character) && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                word.push(character);
            }
            if !word.is_empty() {
                words.push(word);
            }
        }
        words
    }

    /// Returns how many words at the end of `words` repeat with a period, the first round included.
    pub fn repeated(words: &[String], period: usize) -> usize {
        let same = |at: &usize| words[*at] == words[at - period];
        period + (period..words.len()).rev().take_while(same).count()
    }

    fn is_loop(words: &[String], period: usize, min_words: usize) -> bool {
        let needed = min_words.max(period * MIN_ROUNDS as usize);
        words.len() >= needed && repeated(words, period) >= needed
    }

    /// Returns after which word there is a loop for the first time.
    pub fn first_loop(text: &str, min_words: u32) -> Option<usize> {
        let words = words(text);
        let has_loop = |count: &usize| {
            (1..=MAX_PERIOD as usize).any(|period| is_loop(&words[..*count], period, min_words as usize))
        };
        (min_words as usize..=words.len()).find(has_loop)
    }
}

const LINE: &str = "I will try to read the file once more and then report what I found. ";

#[test]
fn a_sentence_that_is_repeated_ten_times_and_for_two_hundred_words_is_a_loop() {
    assert_eq!(LINE.split_whitespace().count(), 15);
    assert_eq!(find(&LINE.repeat(13)), None, "195 words");
    let enough = LINE.repeat(13) + "I will try to read";
    assert_eq!(find(&enough), Some(Repetition { period: 15, words: 200 }));
    assert_eq!(find(&LINE.repeat(1000)).map(Repetition::rounds), Some(13), "found as early as possible");
    let long: String = (0..100).map(|n| format!("{} ", letters(n))).collect();
    assert_eq!(find(&long.repeat(9)), None, "nine rounds of 100 words");
    assert_eq!(find(&long.repeat(10)), Some(Repetition { period: 100, words: 1000 }));
}

#[test]
fn what_stands_before_the_loop_does_not_matter() {
    for before in [0, 1, 7, 500, 5000] {
        let before: String = (0..before).map(|n| format!("{} ", letters(n))).collect();
        assert_eq!(find(&(before + &LINE.repeat(14))), Some(Repetition { period: 15, words: 200 }));
    }
}

#[test]
fn words_that_come_several_times_in_one_round_do_not_hide_it() {
    for line in [
        "he said that she said that they said nothing at all ",
        "go go stop stop wait wait ",
        "the cat and the dog and the bird and the fish sat on the mat. ",
    ] {
        let period = line.split_whitespace().count() as u32;
        assert_eq!(find(&line.repeat(60)).map(|found| found.period), Some(period), "{line}");
    }
}

#[test]
fn loops_in_other_scripts_are_found() {
    for line in [
        "我现在再检查一次这个文件，然后继续处理订单。",
        "Я сейчас ещё раз проверю этот файл и продолжу работу. ",
        "파일을 다시 확인하고 계속 진행하겠습니다. ",
        "سأتحقق من الملف مرة أخرى ثم أتابع العمل الآن. ",
    ] {
        assert!(find(&line.repeat(60)).is_some(), "{line}");
    }
}

#[test]
fn code_tables_lists_numbers_and_data_are_not_loops() {
    let numbered = |line: &dyn Fn(usize) -> String| (0..400).map(line).collect::<String>();
    let cases = [
        ("similar functions", numbered(&|n| format!("def get_item_{n}(self):\n    return self.items[{n}]\n\n"))),
        ("rows of a table", numbered(&|n| format!("| {n} | Smith | active | yes | 0.00 |\n"))),
        ("a numbered list", numbered(&|n| format!("{n}. Check that the value is set.\n"))),
        ("zeros", "0, 0, 0, 0,\n".repeat(1000)),
        ("separators", "----- | ----- | -----\n".repeat(1000)),
        ("lines of a box", "│ ─── │ ┼ │\n".repeat(1000)),
        ("empty rows of a form", "<tr>\n  <td></td>\n  <td></td>\n</tr>\n".repeat(150)),
        ("a map", r#""grass", "water", "#.repeat(200)),
        ("white space", " \n\t".repeat(10_000)),
        ("dots", ". . . ".repeat(1000)),
        ("base64", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo".repeat(1000)),
        ("a refrain", format!("{LINE}{}", "la ".repeat(500))),
    ];
    for (name, text) in cases {
        assert_eq!(find(&text), None, "{name}");
    }
}

#[test]
fn code_that_is_repeated_for_a_thousand_words_is_a_loop() {
    let code = "self.assertEqual(item.price, 10)\n    self.save(item)\n";
    assert_eq!(find(&code.repeat(300)), None);
    assert_eq!(find(&code.repeat(500)), Some(Repetition { period: 3, words: 1000 }));
    assert!(find(&"no ".repeat(1000)).is_some());
}

#[test]
fn a_finder_takes_four_kilobytes_and_nothing_before_the_first_word() {
    assert_eq!(size_of::<Memory>(), 4096);
    let mut finder = RepetitionFinder::default();
    finder.push(b"Hel");
    assert!(finder.memory.is_none());
    finder.push(b"lo world");
    assert!(finder.memory.is_some());
}

#[test]
fn the_longest_round_is_found_and_a_longer_one_is_not() {
    for (words, period) in [(MAX_PERIOD, Some(MAX_PERIOD)), (MAX_PERIOD + 1, None)] {
        let round: String = (0..words).map(|number| letters(number as usize) + " ").collect();
        assert_eq!(find(&round.repeat(MIN_ROUNDS as usize + 1)).map(|found| found.period), period, "{words} words");
    }
}

/// A word without digits for each number.
pub(crate) fn letters(mut number: usize) -> String {
    let mut word = String::from("w");
    while number > 0 {
        word.push((b'a' + (number % 26) as u8) as char);
        number /= 26;
    }
    word
}

#[test]
fn a_multiple_of_the_period_is_not_taken_for_it_for_long() {
    // After the change, the table finds the sixteen words before it by chance at ten times the period.
    let before =
        "wf wb wd wc wyjb 再 woi wb wyc wc wb w w wd w w w w w w w w wb w wb wb wb wb wb wb wc weg 再 wd w wzv w 再";
    let round = "再 wc wb w w wd w w w w w w w w wb w wb wb wb wb wb wb wc weg 再 wd w wzv w 再";
    let changed = round.replace("wzv w", "wzv changed");
    let rounds: Vec<&str> = [before].into_iter().chain([round; 8]).chain([&*changed]).chain([round; 15]).collect();
    let text = rounds.join(" ");
    let first = naive::first_loop(&text, MIN_WORDS).unwrap();
    let words = naive::words(&text);
    assert!(find(&words[..first + 30].join(" ")).is_some(), "at most a round later than it is there");
}

/// Text that repeats more or less: a beginning, many rounds with few different words, perhaps a change in one of them.
fn repetitive() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => (0usize..6).prop_map(letters),
        1 => Just("再".to_owned()),
        1 => (0usize..1000).prop_map(letters)
    ];
    let words = |range| prop::collection::vec(word.clone(), range);
    (words(0..40), words(1..40), 0usize..40, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(before, period, rounds, changed, is_changed)| {
            let mut all = before;
            let start = all.len();
            all.extend(std::iter::repeat_n(period, rounds).flatten());
            if is_changed && all.len() > start {
                let at = start + changed.index(all.len() - start);
                all[at] = "changed".to_owned();
            }
            all.join(" ")
        },
    )
}

/// Longer texts, with loops of long periods in the middle, all kinds of words, and white space that differs or does not.
pub(crate) fn looping() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => (0usize..6).prop_map(letters),
        4 => (0usize..100_000).prop_map(letters),
        1 => (0u32..40).prop_map(|number| format!("{number}")),
        1 => prop::sample::select(vec!["再", "再次。", "\"no\"", "C:\\new", "a", "─────", "configuration_of_everything", "é", "}"])
            .prop_map(str::to_owned),
    ];
    let words = |range| prop::collection::vec(word.clone(), range);
    let spaces = prop_oneof![
        Just(vec![" "]),
        Just(vec!["\n"]),
        Just(vec![" ", " ", " ", "\n", "  ", "\n\n", "\t"]),
        Just(vec![" ", "", " "]),
    ];
    let period = prop_oneof![3 => words(1..25), 2 => words(20..200)];
    let change = prop::option::weighted(0.3, any::<prop::sample::Index>());
    (words(0..600), period, 0usize..30, words(0..300), change, spaces, any::<u64>()).prop_map(
        |(mut all, period, rounds, after, change, spaces, seed)| {
            all.extend(std::iter::repeat_n(period, rounds).flatten());
            all.extend(after);
            if let Some(change) = change.filter(|_| !all.is_empty()) {
                let at = change.index(all.len());
                all[at] = "changed".to_owned();
            }
            let mut text = String::new();
            for (number, word) in (0..).zip(all) {
                let space = mix(seed.wrapping_add(number)) as usize % spaces.len();
                text.extend([&*word, spaces[space]]);
            }
            text
        },
    )
}

proptest! {
    /// The fast detector finds nothing that is not there, and finds a loop at most one round after the naive one.
    #[test]
    fn the_finder_agrees_with_the_naive_detector(text in repetitive(), cuts: Vec<prop::sample::Index>) {
        let words = naive::words(&text);
        let found = find(&text);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        at.sort_unstable();
        let ends = at.iter().copied().chain([text.len()]);
        let starts = [0].into_iter().chain(at.iter().copied());
        let chunks: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &text.as_bytes()[start..end]).collect();
        prop_assert_eq!(find_in(chunks), found, "chunks");
        match (found, naive::first_loop(&text, MIN_WORDS)) {
            (Some(found), Some(first)) => {
                let mut finder = RepetitionFinder::default();
                let until = words.iter().position(|word| {
                    finder.push(word.as_bytes());
                    finder.end_word();
                    finder.found().is_some()
                });
                let until = until.unwrap() + 1;
                let repeated = naive::repeated(&words[..until], found.period as usize);
                prop_assert!(repeated >= found.words as usize, "{} of {}", repeated, found.words);
                prop_assert!(first <= until, "found before it was there");
            }
            (Some(_), None) => prop_assert!(false, "found, and not there"),
            (None, Some(first)) => {
                // Periods of fewer than three different words need more of them, and so do those of single letters.
                let latest = &words[first - 200..first];
                let is_varied = latest.iter().collect::<std::collections::HashSet<_>>().len() > 6;
                let is_language = is_varied && latest.iter().filter(|word| word.len() > 1).count() > 110;
                let rest = words.len() - first;
                prop_assert!(!is_language || rest < 80, "missed, {} words before the end", rest);
            }
            (None, None) => {}
        }
    }
}
