//! Makes one attempt of one delivery.
//!
//! Every status but 2xx is a failure, also a redirect: following it would mean connecting to an address that was not
//! checked. Of a failure only the status is stored, never the body, which may be an error page of an internal service.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode, header};
use tokio::time::Instant;

use super::message::Message;
use super::{Alerts, Guard, backoff, pagerduty, runtime, signature, slack, teams};
use crate::http_client;
use crate::model::{AlertRule, Channel, Delivery, Millis};
use crate::service::{Attempt, Next, Result};

/// Receivers should accept a notice at once and process it later.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How an attempt ended.
pub(super) enum SendOutcome {
    /// The receiver accepted the notice, with this code.
    Accepted(u32),
    /// The receiver did not accept the notice, or could not be reached.
    Failed {
        /// The code of the receiver's response, if there was one.
        code: Option<u32>,
        /// How long the receiver asks to wait before the next attempt.
        retry_after_s: Option<u64>,
        /// What went wrong.
        error: String,
    },
    /// The receiver answered 410 Gone: it wants no more notices.
    Gone(u32),
}

impl SendOutcome {
    pub(super) fn failed(code: Option<u32>, error: impl Into<String>) -> Self {
        Self::Failed { code, retry_after_s: None, error: error.into() }
    }
}

pub(super) fn client(guard: &Guard) -> reqwest::Result<Client> {
    http_client::builder(TIMEOUT)
        // A proxy would resolve names itself, without the guard.
        .no_proxy()
        .dns_resolver(guard.clone())
        .user_agent(concat!("kill-switch/", env!("CARGO_PKG_VERSION")))
        .build()
}

impl Alerts {
    /// Makes an attempt and stores its outcome. `rule` is `None` if it no longer exists or is switched off.
    pub(super) async fn attempt(&self, delivery: Delivery, rule: Option<&AlertRule>) -> Result<Delivery> {
        let started = Instant::now();
        let outcome = match (rule, delivery.channel) {
            (None, _) => SendOutcome::failed(None, "the rule has been switched off or deleted"),
            (Some(rule), Channel::Email) => self.mail(&delivery, rule).await,
            (Some(rule), _) => self.post(&delivery, rule).await,
        };
        let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let attempt = match outcome {
            SendOutcome::Accepted(code) => Attempt { latency_ms, code: Some(code), next: Next::Done },
            SendOutcome::Gone(code) => Attempt { latency_ms, code: Some(code), next: Next::Gone },
            SendOutcome::Failed { code, retry_after_s, error } => {
                // So that there are several attempts before the delivery is given up.
                let longest_s = delivery.give_up_ms.saturating_sub(delivery.created_ms) / 4_000;
                let asked_s = retry_after_s.map(|asked_s| asked_s.min(longest_s));
                // Without a rule there is no receiver, so the delivery is never attempted again.
                let never = rule.is_none().then_some(Millis::MAX);
                let after_ms = never.unwrap_or_else(|| backoff::wait_ms(delivery.attempts + 1, asked_s, jitter()));
                tracing::warn!(
                    delivery_id = delivery.delivery_id,
                    rule_id = delivery.rule_id,
                    attempt = delivery.attempts + 1,
                    error,
                    "an alert was not delivered"
                );
                Attempt { latency_ms, code, next: Next::Retry { after_ms, error } }
            }
        };
        self.service.record_attempt(delivery, attempt).await
    }

    async fn mail(&self, delivery: &Delivery, rule: &AlertRule) -> SendOutcome {
        let Some(mailer) = &self.mailer else { return SendOutcome::failed(None, "no SMTP server is configured") };
        let message = Message::of(delivery, self.public_url.as_deref());
        mailer.send(&rule.target, &delivery.delivery_id, message).await
    }

    /// Sends the requests of a delivery one after the other. The first that fails ends the attempt.
    async fn post(&self, delivery: &Delivery, rule: &AlertRule) -> SendOutcome {
        let (target, bodies) = match self.requests(delivery, rule) {
            Ok(requests) => requests,
            Err(refused) => return SendOutcome::failed(None, refused),
        };
        let url = match self.guard.check_literal(&target) {
            Ok(url) => url,
            Err(refused) => return SendOutcome::failed(None, refused),
        };
        let mut last = SendOutcome::failed(None, "there is nothing to send");
        for body in bodies {
            let mut request = self.http.post(url.clone()).header(header::CONTENT_TYPE, "application/json");
            if delivery.channel.is_signed() {
                let timestamp_s = self.service.now() / 1_000;
                let secret = rule.secret.as_deref().unwrap_or_default();
                let signed = signature::sign(secret, &delivery.delivery_id, timestamp_s, &body);
                request = request
                    .header("webhook-id", &delivery.delivery_id)
                    .header("webhook-timestamp", timestamp_s)
                    .header("webhook-signature", signed);
            }
            last = match request.body(body).send().await {
                Ok(response) => self.outcome_of(&response),
                Err(error) if error.is_timeout() => {
                    SendOutcome::failed(None, format!("no answer within {} s", TIMEOUT.as_secs()))
                }
                Err(error) => SendOutcome::failed(None, http_client::cause(&error)),
            };
            if !matches!(last, SendOutcome::Accepted(_)) {
                break;
            }
        }
        last
    }

    /// Returns where the requests of a delivery go, and their bodies. They are the same for every attempt.
    fn requests(&self, delivery: &Delivery, rule: &AlertRule) -> std::result::Result<(String, Vec<String>), String> {
        let message = Message::of(delivery, self.public_url.as_deref());
        let target = rule.target.clone();
        let body = match delivery.channel {
            Channel::Webhook | Channel::Email => return Ok((target, vec![delivery.payload.clone()])),
            Channel::Slack => slack::body(&message),
            Channel::Teams => teams::body(&message),
            Channel::Runtime => runtime::body(delivery, &message),
            Channel::PagerDuty => {
                let (url, key) = pagerduty::target(&target)?;
                let events = pagerduty::events(delivery, &message, &key);
                return Ok((url, events.iter().map(ToString::to_string).collect()));
            }
        };
        Ok((target, vec![body.to_string()]))
    }

    fn outcome_of(&self, response: &Response) -> SendOutcome {
        let status = response.status();
        let code = u32::from(status.as_u16());
        if status.is_success() {
            return SendOutcome::Accepted(code);
        }
        if status == StatusCode::GONE {
            return SendOutcome::Gone(code);
        }
        let error = if status.is_redirection() {
            format!("{status}: redirects are not followed")
        } else {
            format!("the receiver answered {status}")
        };
        let asked = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after_s = asked.and_then(|value| backoff::retry_after(value, self.service.now()));
        SendOutcome::Failed { code: Some(code), retry_after_s, error }
    }
}

pub(super) fn jitter() -> u8 {
    let mut byte = [255];
    // If no random byte can be had, the wait is the longest one.
    let _ = getrandom::fill(&mut byte);
    let [byte] = byte;
    byte
}
