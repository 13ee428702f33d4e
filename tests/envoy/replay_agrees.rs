//! `kill-switch replay` predicts what the filter does to a recording: the same call is refused, with the same score and a
//! reason.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lab::chat::Request;
use lab::mesh::Mesh;
use lab::proc::binary;
use lab::{Answer, Format, recordings};
use serde_json::{Value, json};

/// The number of calls of the longest public run that is played.
const CALLS_MAX: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn recordings_written_for_the_project_are_killed_at_the_call_that_replay_predicts() {
    let folder = root().join("tests/traces");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "jsonl"));
    files.sort();
    let stage = Stage::start().await;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(stage.play(&text.lines().map(str::to_owned).collect::<Vec<_>>()).await > 0, "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn public_recordings_are_killed_at_the_call_that_replay_predicts() {
    let Some(mut files) = recordings::public() else { return };
    files.retain(|path| path.to_string_lossy().ends_with(".jsonl.gz"));
    let lines: Vec<String> = files.iter().flat_map(|file| sample(file)).collect();
    assert_eq!(Stage::start().await.play(&lines).await, lines.len());
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the first loops and healthy runs of a file that are short enough.
fn sample(file: &Path) -> Vec<String> {
    let output = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut taken = Vec::new();
    for (expect, count) in [("loop", 9), ("healthy", 6)] {
        let kind = format!("\"expect\": \"{expect}\"");
        let fitting = text.lines().filter(|line| {
            line.contains(&kind) && {
                let run = serde_json::from_str(line).unwrap();
                exchanges(&run).len() <= CALLS_MAX
            }
        });
        taken.extend(fitting.take(count).map(str::to_owned));
    }
    taken
}

/// Returns the prediction of `replay` for each run.
fn replayed(lines: &[String]) -> Vec<Value> {
    let mut replay = Command::new(binary("kill-switch", "KILL_SWITCH_BIN"))
        .args(["replay", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = replay.stdin.take().unwrap();
    let text = lines.join("\n");
    let feeding = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = replay.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    assert!(output.status.success());
    let objects = String::from_utf8(output.stdout).unwrap();
    let mut runs: Vec<Value> = objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(runs.pop().unwrap()["summary"].is_object());
    runs
}

/// Returns the runs of these lines, in the order in which `replay` lists them. This does not use the code of `replay`, so
/// that the two cannot share a mistake.
fn runs(lines: &[String]) -> Vec<Vec<Exchange>> {
    let mut runs: Vec<(Value, Vec<Exchange>)> = Vec::new();
    for line in lines {
        let line: Value = serde_json::from_str(line).unwrap();
        let same = runs.iter_mut().find(|(agent, _)| line["request"].is_object() && *agent == line["agent"]);
        match same {
            Some((_, calls)) => calls.extend(exchanges(&line)),
            None => runs.push((line["agent"].clone(), exchanges(&line))),
        }
    }
    runs.into_iter().map(|(_, calls)| calls).collect()
}

struct Exchange {
    request: Request,
    answer: Answer,
}

fn exchanges(line: &Value) -> Vec<Exchange> {
    if let Some(messages) = line["messages"].as_array() {
        let answers = messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant");
        let exchange = |(index, message): (usize, &Value)| {
            let request = json!({"model": "recorded", "messages": messages[..index]});
            recorded("/v1/chat/completions", &request, &json!({"choices": [{"index": 0, "message": message}]}), 200)
        };
        return answers.map(exchange).collect();
    }
    let calls = line["calls"].as_array().cloned().unwrap_or_else(|| vec![line.clone()]);
    calls
        .iter()
        .map(|call| {
            let chat = if call["request"]["prompt"].is_string() { "/v1/completions" } else { "/v1/chat/completions" };
            let path = call["path"].as_str().unwrap_or(chat);
            recorded(path, &call["request"], &call["response"], call["status"].as_u64().unwrap_or(200) as u16)
        })
        .collect()
}

fn recorded(path: &str, request: &Value, response: &Value, status: u16) -> Exchange {
    let answer = match response.as_str() {
        Some(stream) => Answer::text(streamed_text(stream)),
        None => Answer { raw: Some(response.to_string()), ..Answer::default() },
    };
    Exchange { request: Request::new(Format::Other, path, request.clone()), answer: Answer { status, ..answer } }
}

/// Returns the text of a recorded stream, which the mock LLM streams again.
fn streamed_text(stream: &str) -> String {
    let events = stream.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    events.map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What a kill is based on.
const SIGNALS: [&str; 5] =
    ["similar_prompts", "similar_responses", "repeated_tool_calls", "failures_in_a_row", "repeated_steps"];

/// A mesh whose upstream gives the recorded answers.
struct Stage {
    mesh: Mesh,
    answer: Arc<Mutex<Answer>>,
    /// The number of agents so far: each run gets its own.
    agents: AtomicUsize,
}

impl Stage {
    async fn start() -> Stage {
        let mesh = Mesh::start().await;
        let answer = Arc::new(Mutex::new(Answer::default()));
        let next = Arc::clone(&answer);
        mesh.llm.decide(move |_| Some(next.lock().unwrap().clone()));
        Stage { mesh, answer, agents: AtomicUsize::new(0) }
    }

    /// Plays the runs of these lines and compares each with the prediction of `replay`. Returns the number of runs.
    async fn play(&self, lines: &[String]) -> usize {
        let (runs, expected) = (runs(lines), replayed(lines));
        assert_eq!(runs.len(), expected.len());
        for (calls, said) in runs.iter().zip(&expected) {
            self.play_run(calls, said).await;
        }
        runs.len()
    }

    async fn play_run(&self, calls: &[Exchange], said: &Value) {
        let agent = format!("recorded-{}", self.agents.fetch_add(1, Ordering::Relaxed));
        self.mesh.enable(&agent, json!({})).await;
        let caller = self.mesh.caller(&agent);
        let mut refused_at = None;
        for (index, call) in calls.iter().enumerate() {
            *self.answer.lock().unwrap() = call.answer.clone();
            let reply = caller.call(&call.request, None).await.unwrap();
            if !reply.from_upstream() {
                refused_at = Some(index as u64 + 1);
                break;
            }
        }
        assert_eq!(refused_at, said["killed_at"].as_u64(), "{said}");
        if refused_at.is_some() {
            let kill = &self.mesh.kills(&agent, 1).await[0];
            assert_eq!(kill["score"], said["score"], "{kill}");
            for signal in SIGNALS {
                assert_eq!(kill[signal], said[signal], "{signal} of {kill}");
            }
            assert!(kill["reason"].as_str().unwrap().contains(" call"), "{kill}");
        }
    }
}
