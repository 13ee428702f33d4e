//! An agent as a separate process, for the demo and the shell. It prints a line for each call.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use lab::Format;
use lab::agent::{Agent, Kind};
use lab::chat::Caller;

/// An AI agent that is healthy or stuck in a loop, against the mock LLM or a proxy in front of it.
#[derive(Parser)]
#[command(name = "lab-agent")]
struct Arguments {
    /// What the agent does.
    #[arg(long)]
    kind: Kind,
    /// http://host:port of the proxy or the mock LLM.
    #[arg(long)]
    base: String,
    /// Sent as x-agent-id.
    #[arg(long)]
    agent_id: String,
    /// How many calls to make, including refused ones.
    #[arg(long, default_value_t = 10)]
    calls: usize,
    /// openai, anthropic, gemini or ollama.
    #[arg(long, default_value = "openai")]
    format: Format,
    /// Ask for streamed answers.
    #[arg(long)]
    stream: bool,
    /// Milliseconds between two calls.
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
    /// End at the first call that is refused or gets no answer.
    #[arg(long)]
    until_refused: bool,
}

/// Exits with 0 if every call was answered, and with 2 if some were refused or got no answer.
#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let caller = Caller::new(&arguments.base, &arguments.agent_id);
    let mut agent = Agent::new(arguments.kind, caller, arguments.format, arguments.stream);
    let mut all_answered = true;
    for index in 0..arguments.calls {
        if index > 0 {
            tokio::time::sleep(Duration::from_millis(arguments.pause_ms)).await;
        }
        let call = agent.call().await;
        println!("{:<14}{call}", arguments.agent_id);
        all_answered &= call.answered();
        if arguments.until_refused && !call.answered() {
            break;
        }
    }
    if all_answered { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
