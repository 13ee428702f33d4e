//! The demo: a healthy and a looping agent behind a real Envoy.
//!
//! Everything that it prints is observed: scores come from the sidecar, refusals from the client, the kill from the event
//! log. With `--once` it ends by itself, and successfully only if everything happened as expected.
//!
//! It starts all processes itself on the loopback interface, unless it is given the addresses of running ones (`--envoy`,
//! `--sidecar`, `--llm`), as in docker-compose.
#![allow(clippy::indexing_slicing)] // indexing a JSON value by name returns null and never panics

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use lab::agent::{Agent, Call, Kind};
use lab::mesh::{Mesh, MeshOptions, OPERATOR, Remote};
use lab::{EnvoyConfig, Format};
use serde_json::{Value, json};

const HEALTHY: &str = "researcher";
const LOOPING: &str = "support-bot";
const CALLS: usize = 8;

/// Runs the demo on loopback, or against processes that run already.
#[derive(Parser)]
struct Options {
    /// http://host:port of a running Envoy
    #[arg(long, requires_all = ["sidecar", "llm"], conflicts_with_all = ["envoy_port", "sidecar_port"])]
    envoy: Option<String>,
    /// http://host:port of its sidecar; the operator's token is taken from KILL_SWITCH_TOKEN
    #[arg(long, requires = "envoy")]
    sidecar: Option<String>,
    /// http://host:port of the mock LLM behind it
    #[arg(long, requires = "envoy")]
    llm: Option<String>,
    /// End after the demo, successfully only if everything happened as expected
    #[arg(long)]
    once: bool,
    /// Port of Envoy; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    envoy_port: u16,
    /// Port of the sidecar; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    sidecar_port: u16,
    /// Milliseconds between calls
    #[arg(long, default_value_t = 150)]
    pause_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let story = tokio::select! {
        story = run(&options) => story,
        _ = tokio::signal::ctrl_c() => return ExitCode::FAILURE,
    };
    match story {
        Ok(stage) => {
            if !options.once {
                invite(&stage);
                let _ = tokio::signal::ctrl_c().await;
                println!("\nstopped.");
            }
            ExitCode::SUCCESS
        }
        Err(missing) => {
            eprintln!("\nthe demo did not observe: {missing}");
            ExitCode::FAILURE
        }
    }
}

/// The processes of the demo.
struct Stage {
    mesh: Remote,
    llm: String,
    /// The processes that the demo has started. They end with this value.
    _own: Option<Mesh>,
}

async fn run(options: &Options) -> Result<Stage, String> {
    let stage = start(options).await;
    let mesh = &stage.mesh;
    println!("  Envoy    {}\n  sidecar  {}\n  mock LLM {}", mesh.envoy, mesh.sidecar, stage.llm);
    for agent in [HEALTHY, LOOPING] {
        // A running mesh may know the agents from an earlier demo.
        mesh.api("DELETE", &format!("/v1/agents/{agent}"), None).await;
        mesh.enable(agent, json!({})).await;
    }
    let pause = Duration::from_millis(options.pause_ms);

    chapter(&format!("{HEALTHY}: one task, a new tool call each time. Nothing adds up"));
    let healthy = calls(mesh, HEALTHY, Kind::Healthy, pause).await;
    check(healthy.iter().all(Call::answered), "every call of the healthy agent answered")?;

    chapter(&format!("{LOOPING}: the same question, only the order number changes, and the same answer"));
    let before = received(&stage.llm).await?;
    let looping = calls(mesh, LOOPING, Kind::Looping, pause).await;
    let refused = looping.iter().position(|call| !call.answered()).map(|index| index + 1);
    check(refused == Some(6), "the looping agent stopped at its sixth call")?;
    let reached = received(&stage.llm).await? - before;
    check(reached == 5, "the model called five times, never for the sixth")?;

    chapter("The refused call, as the agent saw it");
    show_refusal(&looping)?;

    chapter("What the sidecar recorded");
    let event = mesh.event(LOOPING, "kill_switch").await;
    println!("  {}: {}", text(&event["event_type"]), text(&event["reason"]));
    let agent = mesh.agent(LOOPING).await;
    println!("  {LOOPING}: active {}, deactivated_by {}", agent["active"], agent["deactivated_by"]);
    check(agent["active"] == false && agent["deactivated_by"] == "kill_switch", "the agent deactivated")?;

    chapter("A person looks at it and activates the agent again");
    mesh.activate(LOOPING).await;
    mesh.settled().await;
    let call = Agent::new(Kind::Chatty, mesh.caller(LOOPING), Format::OpenAiChat, false).call().await;
    println!("{call}");
    check(call.answered(), "the activated agent answered again")?;
    let healthy = Agent::new(Kind::Healthy, mesh.caller(HEALTHY), Format::OpenAiChat, false).call().await;
    check(healthy.answered(), "the healthy agent untouched")?;
    println!("\n  One loop, stopped at its sixth call; {reached} calls paid for; nobody else noticed.");
    Ok(stage)
}

async fn start(options: &Options) -> Stage {
    if let Options { envoy: Some(envoy), sidecar: Some(sidecar), llm: Some(llm), .. } = options {
        chapter("With the Envoy, the sidecar and the mock LLM that are running");
        let operator = std::env::var("KILL_SWITCH_TOKEN").unwrap_or_else(|_| OPERATOR.to_owned());
        let mesh = Remote { envoy: envoy.clone(), sidecar: sidecar.clone(), operator };
        mesh.settled().await;
        return Stage { mesh, llm: llm.clone(), _own: None };
    }
    chapter("Starting a mock LLM, the sidecar, and Envoy with the filter in two workers");
    let own = start_mesh(options).await;
    Stage { mesh: Remote::clone(&own), llm: own.llm.url(), _own: Some(own) }
}

async fn start_mesh(options: &Options) -> Mesh {
    let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let listen = local(options.envoy_port);
    Mesh::with(MeshOptions {
        envoy: Box::new(move |config| EnvoyConfig { listen, ..config }),
        sidecar_listen: Some(options.sidecar_port).filter(|port| *port != 0).map(local),
        ..MeshOptions::default()
    })
    .await
}

/// Makes the calls of an agent, and prints each with its score.
async fn calls(mesh: &Remote, agent: &str, kind: Kind, pause: Duration) -> Vec<Call> {
    let earlier = mesh.scores(agent, 0).await.len();
    let mut living = Agent::new(kind, mesh.caller(agent), Format::OpenAiChat, false);
    let mut calls: Vec<Call> = Vec::new();
    for number in 1..=CALLS {
        let call = living.call().await;
        let was_refused = calls.last().is_some_and(|call| !call.answered());
        // Calls of an inactive agent are not scored.
        let score = if was_refused { None } else { Some(score(mesh, agent, earlier + number).await) };
        let line = call.to_string();
        let (first, rest) = line.split_once('\n').map_or((line.as_str(), ""), |(first, rest)| (first, rest));
        match score {
            Some(score) => println!("  score {score:>4}  {first}"),
            None => println!("  not scored  {first}"),
        }
        if !call.answered() && !was_refused {
            println!("              >>> KILLED: score above the threshold of 10. {}", rest.trim());
        }
        calls.push(call);
        tokio::time::sleep(pause).await;
    }
    calls
}

/// Waits until the sidecar has the score of a call, and returns it.
async fn score(mesh: &Remote, agent: &str, number: usize) -> f64 {
    let scores = mesh.scores(agent, number).await;
    scores.get(number - 1).and_then(|score| score["score"].as_f64()).unwrap_or_default()
}

/// Returns how many requests have reached the model so far.
async fn received(llm: &str) -> Result<usize, String> {
    let answer = lab::http::client().get(format!("{llm}/lab/received")).send().await;
    let text = async { answer?.text().await }.await.map_err(|error| format!("the mock LLM at {llm}: {error}"))?;
    text.trim().parse().map_err(|_| format!("a number of requests, not {text:?}"))
}

fn show_refusal(calls: &[Call]) -> Result<(), String> {
    let refused = calls.iter().find(|call| !call.answered()).and_then(|call| call.reply.as_ref().ok());
    let refused = refused.ok_or("a refused call")?;
    println!("  HTTP {}, x-should-retry: {}", refused.status, refused.header("x-should-retry"));
    println!("  {}", refused.body.trim());
    check(refused.status == 403 && refused.body.contains("agent_inactive"), "a 403 that says agent_inactive")
}

fn invite(stage: &Stage) {
    let Remote { envoy, sidecar, operator } = &stage.mesh;
    chapter("Still running. Try it yourself; Ctrl-C ends everything");
    println!("  dashboard  {sidecar} (sign in with the token {operator})\n");
    println!(
        "  for i in 1 2 3 4 5 6 7; do curl -s {envoy}/v1/chat/completions -H 'x-agent-id: {LOOPING}' \\\n    \
         -H 'content-type: application/json' -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"hello?\"}}]}}'; echo; done\n\n  \
         curl -s {sidecar}/v1/events -H 'authorization: Bearer {operator}'\n"
    );
}

fn chapter(title: &str) {
    println!("\n== {title}");
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn check(seen: bool, what: &str) -> Result<(), String> {
    if seen { Ok(()) } else { Err(what.to_owned()) }
}
