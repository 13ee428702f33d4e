use super::super::RepetitionFinder;
use super::super::tests::{letters, looping};
use super::*;
use crate::fingerprint::hash::mix;
use proptest::prelude::*;

fn has_loop(text: &str) -> bool {
    let mut finder = RepetitionFinder::default();
    finder.push(text.as_bytes());
    finder.end_word();
    finder.found().is_some()
}

/// The text as in a JSON string.
fn escaped(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap()
}

/// Words that hardly ever repeat.
fn words(count: u64, seed: u64) -> String {
    (0..count).map(|number| letters(mix(seed << 32 | number) as usize % 50_000) + " ").collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_loop_that_the_finder_finds_passes_the_check(text in looping()) {
        if has_loop(&text) {
            prop_assert!(may_repeat(text.as_bytes()));
            prop_assert!(may_repeat(&escaped(&text)));
        }
    }
}

#[test]
fn loops_of_every_period_at_every_place_pass_the_check() {
    for period in (1..100).chain((100..=960).step_by(61)) {
        let round = words(period, period);
        let rounds = if period < 20 { 200_u64.div_ceil(period) } else { 10 };
        for before in [0, 1, 2, 17, 130, 999] {
            let text = words(before, !period) + &round.repeat(rounds as usize);
            assert!(may_repeat(text.as_bytes()), "{before} words before a loop of {period}");
        }
    }
}

#[test]
fn the_shortest_loops_pass_the_check_wherever_they_are() {
    for round in ["ab c cd e ef g ", "ab cd ef ", "再a 再b 再", "no way out "] {
        let mut finder = RepetitionFinder::default();
        let chant: String = round
            .chars()
            .cycle()
            .take_while(|character| {
                finder.push(character.encode_utf8(&mut [0; 4]).as_bytes());
                finder.found().is_none()
            })
            .collect();
        assert!(chant.len() >= LOOP_BYTES_MIN - 1, "{round}: {} bytes", chant.len());
        for before in 0..400 {
            let text = words(100, 5)[..before].to_owned() + " " + &chant + " " + &words(200, 6);
            assert!(has_loop(&text) && may_repeat(text.as_bytes()), "{before} bytes before {round}");
        }
    }
}

#[test]
fn white_space_may_differ_from_round_to_round_wherever_the_loop_is() {
    let spaces = [" ", "\n", "\t", "  "];
    for period in [7, 30, 45, 80] {
        let round: Vec<String> = (0..period).map(letters).collect();
        let rounds = round.iter().cycle().take((11 * period).max(220)).zip(0_u64..);
        let chant: String = rounds.map(|(word, at)| word.clone() + spaces[mix(at) as usize % 4]).collect();
        for before in 0..300 {
            let text = words(100, 5)[..before].to_owned() + " " + &chant;
            assert!(may_repeat(&escaped(&text)), "{before} bytes before {period} words");
        }
    }
}

#[test]
fn texts_without_loops_fail_the_check() {
    let numbered = |line: &dyn Fn(usize) -> String| (0..400).map(line).collect::<String>();
    let mut cases = vec![
        ("short", "no ".repeat(100)),
        ("functions", numbered(&|n| format!("def get_{}(self):\n    return self.items[{n}]\n\n", letters(n)))),
        ("a table", numbered(&|n| format!("| {n} | {} | active | yes | {}.00 |\n", letters(n * 7), n * 31))),
        ("a list", numbered(&|n| format!("{n}. Check that the value of {} is set.\n", letters(n)))),
        ("headings", numbered(&|n| format!("{}\n-----------\n{}\n", letters(n), words(20, n as u64)))),
    ];
    cases.extend((1..200).map(|seed| ("words", words(50 * seed, seed))));
    for (name, text) in cases {
        assert!(!may_repeat(text.as_bytes()), "{name}");
        assert!(!may_repeat(&escaped(&text)), "{name}");
    }
}

#[test]
fn a_text_in_which_landmarks_are_everywhere_is_not_compared_for_long() {
    // Each byte of a row of dashes begins the same landmark.
    let rows: String = (0..2000).map(|n| "-".repeat(90) + &letters(n)).collect();
    let mut sampler = Sampler { text: rows.as_bytes(), effort: 1000 };
    assert!((0..rows.len() / 2).step_by(SPACING).any(|at| sampler.repeats_at(at, REACH_MIN << 8)));
    assert_eq!(sampler.effort, 0);
}
