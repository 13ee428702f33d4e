//! A trap in one worker ends only that worker's streams: other workers continue, the next requests are served, and windows,
//! kills and policy are kept.

use lab::Answer;
use lab::chat::{Conversation, Input};
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{trap_module, wait_until};
use lab::raw::Raw;
use serde_json::json;

use crate::support::{Loop, SIXTH_REFUSED, by_hand, chatting, looping, run, sent};

#[test]
fn a_trap_cuts_one_workers_streams_and_windows_and_kills_survive_it() {
    let module = trap_module();
    run(async {
        let mesh = Mesh::with(MeshOptions { module: Some(module), ..MeshOptions::default() }).await;
        for agent in ["dead", "looper", "streams"] {
            mesh.enable(agent, json!({})).await;
        }
        assert_eq!(looping(&mesh.caller("dead"), 6).await, SIXTH_REFUSED);
        mesh.kills("dead", 1).await;
        let mut looper = Loop::new(&mesh.caller("looper"));
        assert_eq!(looper.calls(4).await, [200; 4]);

        let streams = open_streams(&mesh).await;
        trap(&mesh).await;
        mesh.llm.open(END);
        let mut whole = 0;
        for mut stream in streams {
            whole += usize::from(stream.to_end().await.contains("[DONE]"));
        }
        assert!((1..STREAMS).contains(&whole), "one worker's streams are cut and the other's are not: {whole} whole");

        every_worker_serves(&mesh).await;
        assert_eq!(
            chatting(&mesh.caller("dead").without_keep_alive(), 12).await,
            [403; 12],
            "a killed agent stays killed"
        );
        assert_eq!(looper.calls(2).await, [200, 403], "the window was kept: this was its sixth call");
        assert_eq!(mesh.kills("looper", 1).await.len(), 1, "reports still arrive");
        mesh.activate("dead").await;
        wait_until("policy still arrives", SOON, || async { chatting(&mesh.caller("dead"), 1).await == [200] }).await;
    });
}

#[test]
fn traps_in_every_worker_lose_neither_kills_nor_policy() {
    let module = trap_module();
    run(async {
        let mesh = Mesh::with(MeshOptions { module: Some(module), ..MeshOptions::default() }).await;
        for round in ["first", "second"] {
            mesh.enable(round, json!({})).await;
            assert_eq!(looping(&mesh.caller(round), 6).await, SIXTH_REFUSED, "{round}");
            let before = mesh.connections().await;
            while mesh.connections().await.iter().zip(&before).any(|(after, before)| after < &(before + 3)) {
                trap(&mesh).await;
            }
            every_worker_serves(&mesh).await;
            assert_eq!(chatting(&mesh.caller(round).without_keep_alive(), 12).await, [403; 12], "{round}");
            assert_eq!(mesh.kills(round, 1).await.len(), 1, "{round}: the report outlives the worker that made it");
        }
    });
}

/// Sends a request that traps the worker that takes it, unless that worker has no VM at the moment.
async fn trap(mesh: &Mesh) {
    let request = "GET / HTTP/1.1\r\nhost: llm\r\nx-trap: 1\r\nconnection: close\r\n\r\n";
    let answer = sent(mesh, request).await.to_end().await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "the request that traps gets no answer from the upstream: {answer}");
}

const STREAMS: usize = 16;
/// The gate at which the streams wait for their end.
const END: &str = "end";

/// Opens streams on both workers. Every stream has begun, and none has ended.
async fn open_streams(mesh: &Mesh) -> Vec<Raw> {
    let before = mesh.connections().await;
    let mut conversation = Conversation::new(lab::Format::OpenAiChat, true);
    conversation.say(&Input::User("Tell me a long story.".to_owned()));
    let (start, body) = (format!("POST {}", conversation.request().path), conversation.request().body_text());
    let script = Answer { pieces: 4, gate: END.to_owned(), ..Answer::text("Once upon a time there was an end.") };
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let script = format!("x-lab-script: {}", script.to_header());
        streams.push(sent(mesh, by_hand(&start, "stranger", &script, &body)).await);
    }
    for stream in &mut streams {
        stream.until("data:").await;
    }
    let after = mesh.connections().await;
    assert!(before.iter().zip(&after).all(|(before, after)| after > before), "both workers stream: {after:?}");
    streams
}

/// Waits until both workers have a VM again, which takes Envoy about a second.
async fn every_worker_serves(mesh: &Mesh) {
    let caller = mesh.caller("stranger").without_keep_alive();
    wait_until("both workers serve again", SOON, || async { looping(&caller, 12).await == [200; 12] }).await;
}
