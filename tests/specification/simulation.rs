//! A service with many customers under one id, all of them at the same time.
//!
//! 500 conversations take turns. Some consist of one question, some have a dozen turns. Half of them begin with the same
//! popular question and get the same answer, and most go on with the same polite words. Every conversation sends its id.

use std::collections::BTreeMap;

use lab::Answer;
use lab::chat::{Conversation, Input};
use lab::prose::sentence;
use lab::scenario::Closes;
use serde_json::json;

use crate::filter::Filter;

const CUSTOMERS: u64 = 500;
const POPULAR: (&str, &str) =
    ("How do I reset my password?", "Open the settings, choose security, and press reset. You will get a mail.");
const FOLLOW_UP: (&str, &str) = ("Thank you! How long does that take?", "It usually takes a few minutes.");
const LOOP: (&str, &str) = ("Check the order again.", "I could not find that order in the system. Please check again.");

/// Returns what a customer says in one turn, and the answer. `None` if the customer is done.
fn turn(customer: u64, number: u64, loops: bool) -> Option<(String, String)> {
    let owned = |(question, answer): (&str, &str)| (question.to_owned(), answer.to_owned());
    let seed = customer * 100 + number;
    match number {
        _ if loops => (number < 20).then(|| owned(LOOP)),
        _ if number > customer % 12 => None,
        0 if customer.is_multiple_of(2) => Some(owned(POPULAR)),
        1 if customer.is_multiple_of(3) => Some(owned(FOLLOW_UP)),
        _ => Some((format!("Why is it that {}?", sentence(seed)), sentence(!seed))),
    }
}

/// Plays all conversations, one turn of each after the other. Returns which were refused, and at which turn.
fn play(settings: serde_json::Value, loops: impl Fn(u64) -> bool) -> BTreeMap<u64, u64> {
    let filter = Filter::new(&settings);
    let mut conversations: Vec<_> =
        (0..CUSTOMERS).map(|customer| (customer, Conversation::new(lab::Format::OpenAiChat, false))).collect();
    let mut refused = BTreeMap::new();
    for number in 0..20 {
        for (customer, conversation) in &mut conversations {
            let said = turn(*customer, number, loops(*customer)).filter(|_| !refused.contains_key(customer));
            let Some((question, answer)) = said else { continue };
            let answer = Answer::text(answer);
            conversation.say(&Input::User(question));
            let request = conversation.request().with("x-session-id", &format!("chat-{customer}"));
            match filter.send(&request) {
                Some(forwarded) => filter.answer(forwarded, &answer, Closes::AtEnd),
                None => {
                    refused.insert(*customer, number + 1);
                }
            }
            conversation.hear(&answer);
        }
    }
    refused
}

#[test]
fn five_hundred_healthy_conversations_of_one_agent_are_allowed() {
    assert_eq!(play(json!({}), |_| false), BTreeMap::new());
}

#[test]
fn five_loops_among_five_hundred_conversations_are_found_and_only_they_are_stopped() {
    let refused = play(json!({"scope": "session"}), |customer| customer % 100 == 7);
    assert_eq!(refused.keys().copied().collect::<Vec<_>>(), [7, 107, 207, 307, 407]);
    assert!(refused.values().all(|call| (6..=8).contains(call)), "{refused:?}");
}
