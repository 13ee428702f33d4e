//! Loops inside one answer, in public recordings of real agents: every answer that is found is one in which the model
//! repeats itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::decode::format::by_path;
use agent_kill_switch::turn::Format;
use agent_kill_switch::wire::Repetition;
use kill_switch::replay::recording::{Calls, Recording};
use lab::recordings::public;
use serde_json::Value;

use crate::traces::each_line;

/// The runs in which an answer is found, with the number of such answers, unless KILL_SWITCH_TRACES names others.
/// docs/detection.md argues each of them.
const FOUND: [(&str, usize); 2] =
    [("aider-pydata__xarray-4094-5", 1), ("intercode-sql_multiturn_text-davinci-003_10_turns-620", 3)];

fn find(format: Format, documents: &[&[u8]]) -> Option<Repetition> {
    let head = ResponseHead { status: 200, content_type: b"application/json" };
    let mut reader = AnswerReader::new(format, head, Rc::from([]), 1 << 24);
    reader.find_repetition();
    documents.iter().for_each(|document| reader.push(document));
    reader.end_text();
    reader.take_repetition()
}

/// An event before the answer, so that the answer is part of a stream, of which every word is read.
const EVENT: &[u8] = br#"{"choices":[{"index":0,"delta":{"content":" "}}]}"#;

/// Calls `each` with the body of every answer of a line.
fn each_answer(line: &[u8], mut each: impl FnMut(Format, &[u8])) -> String {
    let Recording::Run(label, calls) = Recording::read(line).unwrap() else { panic!("a run") };
    match calls {
        Calls::Messages(messages) => {
            for message in messages {
                let role = serde_json::from_str::<Value>(message.get()).unwrap()["role"].clone();
                if role == "assistant" {
                    each(Format::OpenAiChat, format!(r#"{{"choices":[{{"message":{message}}}]}}"#).as_bytes());
                }
            }
        }
        Calls::Recorded(exchanges) => {
            for exchange in exchanges {
                let format = by_path(exchange.path.as_bytes()).unwrap_or(Format::OpenAiChat);
                exchange.response.iter().for_each(|response| each(format, response));
            }
        }
    }
    label.agent.unwrap_or_default()
}

/// The recordings, and those in the folder `more` beside them.
fn files() -> Option<Vec<PathBuf>> {
    let mut files = public()?;
    let more = files.first()?.with_file_name("more");
    files.extend(std::fs::read_dir(more).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())));
    Some(files)
}

#[test]
fn only_answers_in_which_the_model_repeats_itself_are_found() {
    let Some(files) = files() else { return };
    let (mut answers, mut found) = (0, BTreeMap::new());
    for file in files {
        each_line(&file, |line| {
            let mut of_run = Vec::new();
            let agent = each_answer(line, |format, body| {
                answers += 1;
                let repetition = find(format, &[body]);
                if format == Format::OpenAiChat {
                    assert_eq!(repetition, find(format, &[EVENT, body]), "{}", String::from_utf8_lossy(body));
                }
                of_run.extend(repetition);
            });
            for repetition in of_run {
                println!("{} {agent}: {repetition}", file.display());
                *found.entry(agent.clone()).or_insert(0) += 1;
            }
        });
    }
    println!("{answers} answers");
    if std::env::var_os("KILL_SWITCH_TRACES").is_none() {
        let expected: BTreeMap<_, _> = FOUND.map(|(agent, count)| (agent.to_owned(), count)).into();
        assert_eq!(found, expected);
    }
}
