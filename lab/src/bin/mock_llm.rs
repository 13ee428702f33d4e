//! The mock LLM as a separate process, for the demo and for clients in other languages.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use lab::MockLlm;

/// A mock LLM that speaks OpenAI, Anthropic, Gemini, Ollama, MCP and A2A on one port and gives prepared answers.
///
/// Request headers choose the answer to a request: x-lab-answer (text), x-lab-status, x-lab-delay-ms, x-lab-script (JSON).
/// GET /lab/received returns the number of requests.
#[derive(Parser)]
#[command(name = "mock-llm")]
struct Arguments {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How many requests to keep in memory.
    #[arg(long, default_value_t = 1000)]
    keep: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match MockLlm::start_at(arguments.listen, arguments.keep).await {
        Ok(llm) => {
            println!("mock-llm listening on {}", llm.url());
            llm.forever().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mock-llm: cannot listen on {}: {error}", arguments.listen);
            ExitCode::FAILURE
        }
    }
}
