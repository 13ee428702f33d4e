//! One try of one delivery.
//!
//! Anything but a 2xx is a failure, redirects included: following one would leave the address that was checked. Of a
//! failure only the status is kept, never the body: an error page of something internal is nobody's business.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode, header};
use serde_json::json;
use tokio::time::Instant;

use super::message::Message;
use super::{Alerts, Guard, backoff, signature};
use crate::model::{AlertRule, Channel, Delivery, Millis};
use crate::service::{Attempt, Next, Result};

/// Receivers are asked to take a notice, not to work on it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a receiver said.
pub(super) enum Answer {
    /// It has it.
    Taken(u32),
    /// It has not.
    Failed {
        /// Its answer, if it gave one.
        code: Option<u32>,
        /// When it wants to be asked again.
        retry_after_s: Option<u64>,
        /// Why.
        error: String,
    },
    /// It does not want to hear from us again.
    Gone(u32),
}

impl Answer {
    pub(super) fn failed(code: Option<u32>, error: impl Into<String>) -> Self {
        Self::Failed { code, retry_after_s: None, error: error.into() }
    }
}

pub(super) fn client(guard: &Guard) -> reqwest::Result<Client> {
    // Somebody else may have installed a provider before; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        // A proxy would connect in our place, and ask no guard.
        .no_proxy()
        .dns_resolver(guard.resolver())
        .user_agent(concat!("kill-switch/", env!("CARGO_PKG_VERSION")))
        .build()
}

impl Alerts {
    /// Tries a delivery and writes down how it went.
    pub(super) async fn attempt(&self, delivery: Delivery, rule: Option<&AlertRule>) -> Result<Delivery> {
        let started = Instant::now();
        let answer = match (rule, delivery.channel) {
            (None, _) => Answer::failed(None, "the rule was switched off or deleted meanwhile"),
            (Some(rule), Channel::Email) => self.mail(&delivery, rule).await,
            (Some(rule), Channel::Webhook | Channel::Slack) => self.post(&delivery, rule).await,
        };
        let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let attempt = match answer {
            Answer::Taken(code) => Attempt { latency_ms, code: Some(code), next: Next::Done },
            Answer::Gone(code) => Attempt { latency_ms, code: Some(code), next: Next::Gone },
            Answer::Failed { code, retry_after_s, error } => {
                // Without its rule there is nobody to tell: the next try is never.
                let never = rule.is_none().then_some(Millis::MAX);
                let after_ms =
                    never.unwrap_or_else(|| backoff::wait_ms(delivery.attempts + 1, retry_after_s, jitter()));
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

    async fn mail(&self, delivery: &Delivery, rule: &AlertRule) -> Answer {
        let Some(mailer) = &self.mailer else { return Answer::failed(None, "no SMTP server is configured") };
        let message = Message::of(delivery, self.public_url.as_deref());
        mailer.send(&rule.target, &delivery.delivery_id, message).await
    }

    async fn post(&self, delivery: &Delivery, rule: &AlertRule) -> Answer {
        let url = match self.guard.check_literal(&rule.target) {
            Ok(url) => url,
            Err(refused) => return Answer::failed(None, refused),
        };
        let request = self.http.post(url).header(header::CONTENT_TYPE, "application/json");
        let request = match delivery.channel {
            Channel::Slack => {
                let message = Message::of(delivery, self.public_url.as_deref());
                request.body(json!({"text": slack_text(&message)}).to_string())
            }
            _ => {
                let timestamp_s = self.service.now() / 1_000;
                let secret = rule.secret.as_deref().unwrap_or_default();
                let signed = signature::sign(secret, &delivery.delivery_id, timestamp_s, &delivery.payload);
                request
                    .header("webhook-id", &delivery.delivery_id)
                    .header("webhook-timestamp", timestamp_s)
                    .header("webhook-signature", signed)
                    .body(delivery.payload.clone())
            }
        };
        match request.send().await {
            Ok(response) => self.answer(&response),
            Err(error) => Answer::failed(None, cause(&error)),
        }
    }

    fn answer(&self, response: &Response) -> Answer {
        let status = response.status();
        let code = u32::from(status.as_u16());
        if status.is_success() {
            return Answer::Taken(code);
        }
        if status == StatusCode::GONE {
            return Answer::Gone(code);
        }
        let error = match status.is_redirection() {
            true => format!("{status}: redirects are not followed"),
            false => format!("the receiver answered {status}"),
        };
        let asked = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after_s = asked.and_then(|value| backoff::retry_after(value, self.service.now()));
        Answer::Failed { code: Some(code), retry_after_s, error }
    }
}

/// Slack's own escapes: without them a reason could hold a link, or call a whole channel.
fn slack_text(message: &Message) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut lines = vec![format!("*{}*", escape(&message.subject))];
    lines.extend(message.lines.iter().map(|line| escape(line)));
    lines.join("\n")
}

/// The innermost reason, without the URL: it may be a secret.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", TIMEOUT.as_secs());
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn jitter() -> u8 {
    let mut byte = [255];
    // Without randomness the longest wait will do.
    let _ = getrandom::fill(&mut byte);
    let [byte] = byte;
    byte
}
