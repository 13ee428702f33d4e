//! `make faults`: runs every drill, and prints the figures as a table.
//!
//! It ends successfully only if no kill was lost or recorded twice, and no healthy agent was stopped.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use lab::drill::{self, Load, Outcome, Stage};
use lab::fault::Fault;

/// Healthy agents beside the loops that are spread over several Envoys.
const FLEET_AGENTS: usize = 20;

/// Runs a real Envoy, the real sidecar and agents, and lets things fail.
#[derive(Parser)]
struct Options {
    /// Seconds of load
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Agents of the load, of which one in a hundred loops
    #[arg(long, default_value_t = 500)]
    agents: usize,
    /// Seconds that each fault of the link lasts after agents have looped
    #[arg(long, default_value_t = 5)]
    fault_seconds: u64,
    /// Run only this part; may be given several times
    #[arg(long)]
    only: Vec<Part>,
    /// Also write the figures into the table of this page. Rows of faults that were not tried stay as they are
    #[arg(long)]
    write: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Link,
    Crash,
    Listener,
    Disk,
    Load,
    Fleet,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let began = Instant::now();
    let outcomes = run(&options).await;
    let table = drill::table(&outcomes);
    println!("\n{table}\n{} drills in {} s", outcomes.len(), began.elapsed().as_secs());
    let problems: Vec<String> = outcomes.iter().filter_map(Outcome::problem).collect();
    for problem in &problems {
        eprintln!("FAILED: {problem}");
    }
    if let Some(page) = &options.write
        && let Err(error) = write(page, &outcomes)
    {
        eprintln!("{}: {error}", page.display());
        return ExitCode::FAILURE;
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(options: &Options) -> Vec<Outcome> {
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    let mut outcomes = Vec::new();
    let mut note = |outcome: Outcome| {
        println!("{}", outcome.problem().unwrap_or_else(|| format!("{}: as promised", outcome.fault)));
        outcomes.push(outcome);
    };
    if wanted(Part::Link) {
        let stage = Stage::start().await;
        for fault in Fault::EACH {
            note(drill::faulty_link(&stage, fault, Duration::from_secs(options.fault_seconds)).await);
        }
    }
    if wanted(Part::Crash) {
        note(drill::sidecar_crashes().await);
        note(drill::envoy_crashes().await);
    }
    if wanted(Part::Listener) {
        note(drill::listener_updates().await);
    }
    if wanted(Part::Disk) {
        match drill::full_disk().await {
            Some(outcome) => note(outcome),
            None => println!("full disk: skipped, because this machine has neither permission to mount nor prlimit"),
        }
    }
    if wanted(Part::Load) {
        let lasts = Duration::from_secs(options.seconds);
        note(drill::load(Load { agents: options.agents, lasts, pause: Duration::from_secs(2) }).await);
    }
    if wanted(Part::Fleet) {
        let lasts = Duration::from_secs(options.seconds);
        note(drill::fleet(FLEET_AGENTS, lasts).await);
        match drill::replicas(FLEET_AGENTS, lasts).await {
            Some(outcome) => note(outcome),
            None => println!("loops over replicas: skipped, because PostgreSQL is not installed (tools/get-postgres)"),
        }
    }
    outcomes
}

/// Writes the figures into a page. A page that does not exist is not created.
fn write(page: &PathBuf, outcomes: &[Outcome]) -> Result<(), String> {
    if !page.exists() {
        println!("{} does not exist, so the table is only printed", page.display());
        return Ok(());
    }
    let text = std::fs::read_to_string(page).map_err(|error| error.to_string())?;
    let text = drill::written(&text, outcomes).ok_or("the page has no markers for the table")?;
    std::fs::write(page, text).map_err(|error| error.to_string())
}
