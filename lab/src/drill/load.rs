//! Minutes of load: many agents, some of which loop, streams, clients that close early, and a link that fails every few
//! seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::stage::{Stage, names};
use super::table::Outcome;
use super::traffic::Tally;
use crate::agent::{Agent, Kind};
use crate::answer::Answer;
use crate::chat::{Caller, Conversation, Input};
use crate::fault::Fault;
use crate::format::Format;
use crate::prose;

/// How many HTTP clients the agents share.
const CLIENTS: usize = 16;
/// How long the link works, and how long it then fails.
const PHASE: Duration = Duration::from_secs(5);

/// How much load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub agents: usize,
    pub lasts: Duration,
    /// The pause between two calls of an agent.
    pub pause: Duration,
}

impl Load {
    /// One agent of a hundred loops.
    fn loops(&self) -> usize {
        (self.agents / 100).max(1)
    }
}

/// Lets the agents call while the link works and fails in turn.
pub async fn load(load: Load) -> Outcome {
    let stage = Stage::start().await;
    let (loops, healthy) = (names("load-loop", load.loops()), names("load-healthy", load.agents - load.loops()));
    stage.know(&[loops.clone(), healthy.clone()].concat(), true).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<Caller> = (0..CLIENTS).map(|_| stage.mesh.caller("nobody")).collect();
    let mut healthy_calls = JoinSet::new();
    for (number, agent) in healthy.iter().enumerate() {
        let worker = Worker { number, load, is_over: Arc::clone(&is_over) };
        healthy_calls.spawn(worker.work(clients[number % CLIENTS].clone().as_agent(agent)));
    }
    let mut looping_calls = JoinSet::new();
    for (number, agent) in loops.iter().enumerate() {
        // They begin at different times, and so with different faults.
        let begins = load.lasts * number as u32 / (load.loops() as u32 + 1);
        let caller = clients[number % CLIENTS].clone().as_agent(agent);
        looping_calls.spawn(loop_on(caller, begins, load.pause.min(Duration::from_millis(200)), Arc::clone(&is_over)));
    }
    fail_in_turn(&stage, load.lasts).await;
    is_over.store(true, Ordering::SeqCst);
    let mut tally = Tally::default();
    healthy_calls.join_all().await.into_iter().for_each(|other| tally.add(other));
    let let_through: usize = looping_calls.join_all().await.into_iter().filter(|is_stopped| !is_stopped).count();
    let recorded_after = stage.recorded(&loops).await;
    let name = format!("{} agents for {} s, link failing half of the time", load.agents, load.lasts.as_secs());
    let outcome = stage.outcome(&name, &loops, tally).await;
    let wrongly_recorded = stage.kills().await.keys().filter(|agent| !loops.contains(agent)).count();
    let healthy = Tally { stopped: outcome.healthy.stopped + wrongly_recorded, ..outcome.healthy.clone() };
    Outcome { recorded_after, lost: outcome.lost.max(let_through), healthy, ..outcome }
}

/// Switches the link to one fault after the other, and to none in between.
async fn fail_in_turn(stage: &Stage, lasts: Duration) {
    let began = Instant::now();
    let faults = Fault::EACH.iter().cycle().flat_map(|fault| [Fault::Pass, *fault]);
    for fault in faults {
        let left = lasts.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        stage.proxy.set(fault).await;
        tokio::time::sleep(PHASE.min(left)).await;
    }
    stage.proxy.set(Fault::Pass).await;
}

/// A healthy agent.
struct Worker {
    number: usize,
    load: Load,
    is_over: Arc<AtomicBool>,
}

impl Worker {
    /// Calls until the load is over. Every fifth agent closes each stream early.
    async fn work(self, caller: Caller) -> Tally {
        let kind = if self.number.is_multiple_of(2) { Kind::Chatty } else { Kind::Healthy };
        let format = Format::CHATS[self.number % Format::CHATS.len()];
        let mut agent = Agent::new(kind, caller.clone(), format, self.number.is_multiple_of(3));
        let mut tally = Tally::default();
        // The agents do not call all at the same time.
        tokio::time::sleep(self.load.pause * self.number as u32 / self.load.agents as u32).await;
        while !self.is_over.load(Ordering::SeqCst) {
            let began = Instant::now();
            let status = if self.number.is_multiple_of(5) {
                close_early(&caller, format, (self.number as u64) << 32 | tally.calls as u64).await
            } else {
                agent.call().await.reply.map(|reply| reply.status)
            };
            tally.count(began, status);
            tokio::time::sleep(self.load.pause).await;
        }
        tally
    }
}

/// Asks something new, and closes the connection at the beginning of the answer.
async fn close_early(caller: &Caller, format: Format, seed: u64) -> Result<u16, String> {
    let mut conversation = Conversation::new(format, true);
    conversation.say(&Input::Open(format!("Why is it that {}?", prose::sentence(seed))));
    let answer = Answer { piece_delay_ms: 5, ..Answer::text(prose::paragraph(!seed, 2)) };
    let reply = caller.call_until(&conversation.request(), Some(&answer), |_| true).await;
    reply.map(|reply| reply.status).map_err(|error| error.to_string())
}

/// Loops until the load is over, also after it was refused. Returns whether it was refused, and never answered after that.
async fn loop_on(caller: Caller, begins: Duration, pause: Duration, is_over: Arc<AtomicBool>) -> bool {
    tokio::time::sleep(begins).await;
    let mut agent = Agent::new(Kind::Looping, caller, Format::OpenAiChat, false);
    let (mut is_refused, mut let_through) = (false, 0);
    while !is_over.load(Ordering::SeqCst) {
        match agent.call().await.reply {
            Ok(reply) if reply.status == 403 => is_refused = true,
            _ if is_refused => let_through += 1,
            _ => {}
        }
        tokio::time::sleep(pause).await;
    }
    is_refused && let_through == 0
}
