//! The rows of the scenario table that come from live traffic: clients that close early, outages, requests that are not
//! calls, and many conversations under one agent's id.

use fastrand::Rng;
use serde_json::{Value, json};

use super::moves::{Move, chatty, looping, tool, working};
use super::rows::{Row, at_once, chat, mcp, tried};
use super::{Closes, SESSION, Scenario, Sent, Step, Verdict};
use crate::answer::Answer;
use crate::chat::{Input, Request};
use crate::format::Format;
use crate::prose::{paragraph, sentence};

use Closes::{AtLastEvent, InTheMiddle};
use Verdict::{Allow, Ignore, KillAt, KillAtOneOf, KillBy};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("22/text", "MCP `tools/call` polled 15 times, a new result each time, streamed, closed at the result",
        Allow, || polled(sentence)),
    ("22/percent", "the same, but only a number in the result changes",
        Allow, || polled(|poll| json!({"state": "running", "percent": poll * 6}).to_string())),
    ("23/openai", "same prompt, same answer, closed at the last event before the stream has ended",
        KillAt(6), || streamed(Format::OpenAiChat).closing(AtLastEvent)),
    ("23/anthropic", "the same with Anthropic", KillAt(6), || streamed(Format::Anthropic).closing(AtLastEvent)),
    ("23/ollama", "the same with Ollama", KillAt(6), || streamed(Format::OllamaChat).closing(AtLastEvent)),

    ("24/batches", "creating a batch 30 times", Ignore, || posted("/v1/batches",
        json!({"input_file_id": "file-9kP2", "endpoint": "/v1/chat/completions", "completion_window": "24h"}))),
    ("24/messages-batches", "creating a batch of messages 30 times", Ignore, || posted("/v1/messages/batches",
        json!({"requests": [{"custom_id": "first", "params": {"model": "claude-mock", "messages": said()}}]}))),
    ("24/vector-store-files", "attaching a file 30 times", Ignore, || posted("/v1/vector_stores/vs_7Ab/files",
        json!({"file_id": "file-9kP2"}))),
    ("24/vector-store-search", "searching a vector store 30 times", Ignore, || posted("/v1/vector_stores/vs_7Ab/search",
        json!({"query": QUESTION, "max_num_results": 10}))),
    ("24/threads", "creating a thread 30 times", Ignore, || posted("/v1/threads", json!({"messages": said()}))),
    ("24/threads-messages", "adding a message to a thread 30 times", Ignore, || posted("/v1/threads/thread_5c/messages",
        json!({"role": "user", "content": QUESTION}))),
    ("24/threads-runs", "starting a run 30 times", Ignore, || posted("/v1/threads/thread_5c/runs",
        json!({"assistant_id": "asst_2f", "instructions": QUESTION}))),
    ("24/conversations", "creating a conversation 30 times", Ignore, || posted("/v1/conversations",
        json!({"items": [{"type": "message", "role": "user", "content": QUESTION}]}))),
    ("24/realtime-sessions", "opening a realtime session 30 times", Ignore, || posted("/v1/realtime/sessions",
        json!({"model": "gpt-realtime", "instructions": "You are a friendly assistant.", "voice": "alloy"}))),
    ("24/speech", "reading the same text aloud 30 times", Ignore, || posted("/v1/audio/speech",
        json!({"model": "gpt-4o-mini-tts", "input": QUESTION, "voice": "alloy"}))),
    ("24/images", "drawing the same picture 30 times", Ignore, || posted("/v1/images/generations",
        json!({"model": "gpt-image-1", "prompt": "A lighthouse at dusk, in watercolour", "n": 1}))),
    ("24/token", "asking for an access token 30 times", Ignore, token),
    ("24/graphql", "the same GraphQL query 30 times", Ignore, || posted("/graphql",
        json!({"query": "query Open { orders(status: OPEN) { id total } }", "operationName": "Open", "variables": {}}))),
    ("24/traces", "exporting the same span 30 times", Ignore, || posted("/v1/traces", span())),
    ("24/heartbeat", "30 heartbeats", Ignore, || posted("/heartbeat",
        json!({"agent": "shop-bot", "state": "idle and waiting for work", "version": "4.2"}))),
    ("24/embeddings", "embedding the same text 30 times", Ignore, || posted("/v1/embeddings",
        json!({"model": "text-embedding-3-small", "input": QUESTION}))),
    ("24/embed-v2", "the same with Cohere", Ignore, || posted("/v2/embed",
        json!({"model": "embed-v4.0", "input_type": "search_query", "texts": [QUESTION]}))),
    ("24/embed", "the same with a server of one's own", Ignore, || posted("/embed", json!({"inputs": QUESTION}))),
    ("24/predict", "the same with Vertex AI", Ignore, || posted(
        "/v1/projects/shop/locations/europe-west1/publishers/google/models/text-embedding-005:predict",
        json!({"instances": [{"task_type": "RETRIEVAL_QUERY", "content": QUESTION}]}))),
    ("24/invoke", "the same with Bedrock", Ignore, || posted("/model/amazon.titan-embed-text-v2:0/invoke",
        json!({"inputText": QUESTION, "dimensions": 512}))),
    ("24/json-rpc-array", "an array of `tools/list` 30 times", Ignore, || posted("/mcp", json!([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"cursor": "page-2"}}]))),

    ("25/401", "one prompt tried 40 times with a key that is not valid yet, then a success", Allow, || outage(401)),
    ("25/403", "the same, not permitted yet", Allow, || outage(403)),
    ("25/408", "the same, timed out", Allow, || outage(408)),
    ("25/429", "the same, limited", Allow, || outage(429)),
    ("25/500", "the same, failed", Allow, || outage(500)),
    ("25/503", "the same, unavailable", Allow, || outage(503)),
    ("25/529", "the same, overloaded", Allow, || outage(529)),

    ("26/10", "the client gives up after the model began and sends the same prompt again, threshold 10",
        KillBy(20), || given_up(10)),
    ("26/19", "the same, threshold 19", KillBy(20), || given_up(19)),
    ("26/25", "the same, threshold 25", KillBy(20), || given_up(25)),

    ("27/header", "200 users of one agent ask the same question once, each with a session id in a header",
        Allow, || users(|request, user| request.with(SESSION, user))),
    ("27/baggage", "the same, each with a session id in the baggage of a trace",
        Allow, || users(|request, user| request.with("baggage", &format!("tenant=shop,session.id={user}")))),
    ("27/body", "the same, each named in the body", Allow, || users(|mut request, user| {
        request.body["user"] = json!(user);
        request
    })),

    ("28/in-turn", "50 healthy conversations under one id that take turns", Allow, || in_turn(customers(50, 4))),
    ("28/at-random", "50 healthy conversations under one id in any order", Allow, || at_random(customers(50, 4))),
    // The conversation that loops is the last of each round of 32 calls. These are its 6th, 7th and 8th call.
    ("29", "one looping conversation among 31 healthy ones under one id",
        KillAtOneOf(&[6 * 32, 7 * 32, 8 * 32]), || in_turn(customers(31, 8).chain([chat(looping().take(8))]))),
    ("30", "every 10 minutes the same prompt, tool call, empty result and closing words, 50 runs", Allow, empty_inbox),
    ("31", "the same prompt and answer, 45 s apart", KillAt(6), || chat(vec![unanswerable(); 8])
        .with_steps(|_, step| step.sent = Sent::Later(45))),
    ("32/alone", "12 identical requests in flight at once", Allow, || at_once(12)),
    ("32/followed", "the same, and then one after the other: the 12 count as the first", KillAt(12 + 5), || {
        let (together, after) = (at_once(12), at_once(6).with_steps(|_, step| step.sent = Sent::Next));
        Scenario { steps: [together.steps, after.steps].concat(), ..after }
    }),
];

const QUESTION: &str = "Which of the orders that were placed last week have not been shipped yet?";

fn said() -> Value {
    json!([{"role": "user", "content": QUESTION}])
}

fn unanswerable() -> Move {
    Move::ask(QUESTION, "I could not determine the shipping status. Please check the orders again.")
}

fn polled(result: fn(u64) -> String) -> Scenario {
    let accept = |step: &mut Step| {
        step.request = step.request.clone().with("accept", "application/json, text/event-stream");
    };
    mcp(15, json!({"job": "reindex"}), result).with_steps(|_, step| accept(step)).closing(AtLastEvent)
}

fn streamed(format: Format) -> Scenario {
    Scenario::new(format, true, looping().take(8))
}

/// The same request 30 times, which is not a call of a model.
fn posted(path: &str, body: Value) -> Scenario {
    same_thirty_times(Request::new(Format::Other, path, body))
}

fn token() -> Scenario {
    let form = "grant_type=client_credentials&client_id=shop-bot&client_secret=not-a-secret&scope=orders.read";
    same_thirty_times(Request::raw("/oauth/token", "application/x-www-form-urlencoded", form))
}

fn same_thirty_times(request: Request) -> Scenario {
    let step = Step::new(request, Answer::text("The request was accepted and will be processed as soon as possible."));
    Scenario::of(Format::Other, vec![step; 30])
}

fn span() -> Value {
    let span = json!({
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "chat gpt-4o-mini", "kind": 3,
        "startTimeUnixNano": "1760000000000000000", "endTimeUnixNano": "1760000000500000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
    });
    json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "shop-bot"}, "spans": [span]}]}]})
}

fn outage(status: u16) -> Scenario {
    let error = Answer::error(status, "The service cannot answer at the moment. Please try again later.");
    let answers = [vec![error; 40], vec![Answer::text(paragraph(25, 3))]].concat();
    chat(tried("Summarise the incident report of last night for the team.", answers))
}

fn given_up(threshold: u64) -> Scenario {
    let scenario = Scenario::new(Format::OpenAiChat, true, vec![unanswerable(); 20]).closing(InTheMiddle);
    Scenario { settings: json!({"kill_switch_threshold": threshold}), ..scenario }
}

fn users(name: fn(Request, &str) -> Request) -> Scenario {
    let question = Move::ask("What are your opening hours?", "We are open from nine to five, from Monday to Friday.");
    chat(vec![question; 200]).with_steps(|number, step| {
        step.request = name(step.request.clone(), &format!("user-{number}"));
    })
}

/// Healthy conversations: each opens with a question of its own and goes on with what everybody says. Some answers are
/// given to everybody.
fn customers(count: u64, turns: usize) -> impl Iterator<Item = Scenario> {
    const POPULAR: &str = "You can change that at any time in the settings. Can I help you with anything else?";
    (0..count).map(move |number| {
        let own = |turn: u64| paragraph(1000 + number * 10 + turn, 2);
        let user = |text: &str, answer: String| Move::new(Input::User(text.to_owned()), Answer::text(answer));
        let opening = format!("Why is it that {}?", sentence(500 + number));
        let first = [
            Move::ask(opening, if number % 3 == 0 { POPULAR.to_owned() } else { own(0) }),
            user("Thanks, that helps. Could you explain it in a little more detail?", own(1)),
            user("And what would you recommend in my case?", POPULAR.to_owned()),
            user("Great, thank you very much for your help!", "You are welcome! Have a nice day.".to_owned()),
        ];
        let further = chatty().skip(number as usize * turns);
        chat(first.into_iter().chain(further).take(turns))
    })
}

/// Mixes conversations of the same length: each makes its first call, then each its second, and so on.
fn in_turn(conversations: impl Iterator<Item = Scenario>) -> Scenario {
    let conversations: Vec<Scenario> = conversations.collect();
    let turns = conversations.first().map_or(0, |first| first.steps.len());
    mixed(&conversations, (0..turns).flat_map(|_| 0..conversations.len()))
}

/// Mixes conversations in an order that is the same every time.
fn at_random(conversations: impl Iterator<Item = Scenario>) -> Scenario {
    let conversations: Vec<Scenario> = conversations.collect();
    let turns = conversations.iter().enumerate().flat_map(|(number, one)| vec![number; one.steps.len()]);
    let mut order: Vec<usize> = turns.collect();
    Rng::with_seed(28).shuffle(&mut order);
    mixed(&conversations, order)
}

/// Takes the next step of the conversation whose turn it is.
fn mixed(conversations: &[Scenario], order: impl IntoIterator<Item = usize>) -> Scenario {
    let mut rest: Vec<_> = conversations.iter().map(|one| one.steps.iter().cloned()).collect();
    Scenario::of(Format::OpenAiChat, order.into_iter().filter_map(|number| rest[number].next()).collect())
}

fn empty_inbox() -> Scenario {
    let run = || {
        let steps = [tool("check_inbox", json!({"folder": "orders"}), ""), tool("", json!({}), "")];
        let mut moves: Vec<Move> = working("", steps).collect();
        moves[0].input = Input::Open("Answer the new messages in the inbox, if there are any.".to_owned());
        moves[1].answer = Answer::text("There are no new messages in the inbox. Nothing to do.");
        moves
    };
    chat((0..50).flat_map(|_| run())).with_steps(|number, step| {
        if number.is_multiple_of(2) {
            step.sent = Sent::Later(600);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::row;
    use std::collections::HashSet;

    #[test]
    fn mixed_conversations_keep_their_own_history() {
        for name in ["28/in-turn", "28/at-random"] {
            let scenario = row(name);
            let history = |step: &Step| step.request.body["messages"].as_array().map(Vec::len).unwrap_or_default();
            let mut lengths: Vec<usize> = scenario.steps.iter().map(history).collect();
            lengths.sort_unstable();
            // A system message, and for each turn before the last a question and its answer.
            assert_eq!(lengths, [vec![2; 50], vec![4; 50], vec![6; 50], vec![8; 50]].concat(), "{name}");
        }
    }

    #[test]
    fn healthy_conversations_open_with_different_questions() {
        let openings: HashSet<String> =
            customers(50, 1).map(|one| one.steps[0].request.body["messages"][1].to_string()).collect();
        assert_eq!(openings.len(), 50);
    }

    #[test]
    fn the_looping_conversation_is_the_last_of_each_round() {
        for (index, step) in row("29").steps.iter().enumerate() {
            let loops = step.request.body["messages"][1].to_string().contains("shipped");
            assert_eq!(loops, index % 32 == 31, "call {}", index + 1);
        }
    }
}
