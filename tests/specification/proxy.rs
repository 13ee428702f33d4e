//! An agent behind the proxy: policy, window, verdict and refusal in the order in which the filter uses them.
//!
//! There is no host here. Whatever involves Envoy is covered by tests/envoy.

use agent_kill_switch::agent::record::Record;
use agent_kill_switch::config::InactiveReply;
use agent_kill_switch::decode::envelope::Delivery;
use agent_kill_switch::detect::verdict::Verdict;
use agent_kill_switch::reply::{Cause, Refusal, Reply};
use agent_kill_switch::turn::Format;
use agent_kill_switch::wire::AgentPolicy;
use serde_json::{Value, json};

use lab::Answer;
use lab::chat::Request;

use crate::common::Agent;

/// Returns an agent's policy as the sidecar sends it: these fields, and defaults for all others.
pub fn policy(fields: Value) -> AgentPolicy {
    let mut policy = json!({"agent_id": "bot", "active": true});
    policy.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    serde_json::from_value(policy).unwrap()
}

pub struct Proxy {
    pub record: Record,
    pub agent: Agent,
    pub now_ms: u64,
}

impl Proxy {
    pub fn new(fields: Value) -> Self {
        let record = Record::new(&policy(fields), 1);
        let mut proxy = Self { record, agent: Agent::new(), now_ms: 1_700_000_000_000 };
        proxy.apply(record);
        proxy
    }

    /// Applies a policy update from the sidecar.
    pub fn sync(&mut self, fields: Value) {
        self.apply(Record::updated(Some(&self.record), &policy(fields), 1));
    }

    fn apply(&mut self, record: Record) {
        if record.window_generation() != self.record.window_generation() {
            self.agent.activate();
        }
        self.agent.scorer.window_size = record.window_size;
        self.agent.scorer.counting = record.counting;
        self.agent.threshold = record.threshold;
        self.agent.action = record.action;
        self.record = record;
    }

    /// Returns the refusal, or `None` if the request is forwarded.
    pub fn call(&mut self, request: &Request, answer: &Answer) -> Option<Reply> {
        if !self.record.active {
            return Some(refusal(Cause::Inactive { by: self.record.deactivated_by, reason: String::new() }));
        }
        let retry_after_seconds = self.record.blocked_for_seconds(self.now_ms);
        if retry_after_seconds > 0 {
            return Some(refusal(Cause::Blocked { retry_after_seconds, reason: String::new() }));
        }
        if !self.record.enabled {
            return None;
        }
        match self.agent.call(request, answer) {
            Verdict::Allow | Verdict::WouldKill => None,
            Verdict::Kill => {
                self.apply(self.record.killed());
                Some(refusal(Cause::Inactive { by: self.record.deactivated_by, reason: String::new() }))
            }
            Verdict::Block => {
                self.apply(self.record.blocked(self.now_ms));
                Some(refusal(Cause::Blocked {
                    retry_after_seconds: self.record.retry_after_seconds,
                    reason: String::new(),
                }))
            }
        }
    }

    /// Makes one call of a plain loop.
    pub fn repeat(&mut self) -> Option<Reply> {
        self.call(&crate::ask("Where is my order?"), &Answer::text("I cannot find that order in the system."))
    }

    /// Returns the number of the request of a plain loop, from 1, that is the first to be refused.
    pub fn refused_at(&mut self, requests: usize) -> Option<usize> {
        (1..=requests).find(|_| self.repeat().is_some())
    }
}

fn refusal(cause: Cause) -> Reply {
    let refusal = Refusal {
        is_call: true,
        format: Format::OpenAiChat,
        delivery: Delivery::Whole,
        json_rpc_id: None,
        model: None,
        agent_id: Some("bot"),
        cause,
        style: InactiveReply::Error,
        dashboard_url: None,
        at_ms: 0,
    };
    refusal.reply()
}

/// Returns the error in a refusal's body.
pub fn error(reply: &Reply) -> Value {
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["error"].clone()
}
