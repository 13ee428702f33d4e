//! Sends alerts: decides where they may be sent, writes their text, and retries until they arrive.
//!
//! [`crate::service`] stores rules and deliveries; this module has the network connections. A target is checked when its
//! rule is saved, so that the person who saves it sees the error, and again at every connection, because its name may
//! have other addresses by then.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::{AlertRule, Channel, Delivery};
use crate::service::{Error, Identity, Result, RuleChange, Service};

mod address;
mod backoff;
mod courier;
mod email;
mod guard;
mod message;
mod pagerduty;
mod runtime;
mod send;
mod signature;
mod slack;
mod target;
mod teams;

pub use address::is_public;
pub use email::{Mailer, SmtpError};
pub use guard::{Guard, Lookup, SystemLookup};
pub(crate) use message::{loop_cost, session_name, tools};
pub use target::masked;

/// The operator's settings for alerts.
#[derive(Default)]
pub struct AlertOptions {
    /// How email is sent. Without it, rules with the channel email are refused.
    pub mailer: Option<Mailer>,
    /// The address of the dashboard, for links in notices.
    pub public_url: Option<String>,
}

/// Saves alert rules and delivers their notices.
pub struct Alerts {
    service: Arc<Service>,
    guard: Guard,
    http: reqwest::Client,
    mailer: Option<Mailer>,
    public_url: Option<String>,
}

/// A rule that was just created, with its secret, which is never shown again.
pub struct NewRule {
    /// The rule.
    pub rule: AlertRule,
    /// The key, `whsec_...`, with which the receiver of a signed channel verifies signatures.
    pub secret: Option<String>,
}

impl Alerts {
    /// Creates the alerts of a service. They connect only to addresses that `guard` allows.
    pub fn new(service: Arc<Service>, guard: Guard, options: AlertOptions) -> Result<Self> {
        let http = send::client(&guard).map_err(|error| Error::invalid("alerts", error.to_string()))?;
        Ok(Self { service, guard, http, mailer: options.mailer, public_url: options.public_url })
    }

    /// Returns whether email can be sent.
    pub fn has_mail(&self) -> bool {
        self.mailer.is_some()
    }

    /// Creates a rule, if its target is allowed.
    pub async fn create_rule(&self, change: RuleChange, by: &Identity) -> Result<NewRule> {
        let missing = |field: &str, what: &str| Error::invalid(field, format!("{field} must be {what}"));
        let channel = change.channel.ok_or_else(|| missing("channel", Channel::WORDS))?;
        let target =
            change.target.clone().ok_or_else(|| missing("target", "a URL, a key of PagerDuty or mail addresses"))?;
        self.check(channel, &target).await?;
        let rule = self.service.create_alert_rule(channel, &target, change, by).await?;
        let secret = rule.secret.as_ref().map(|secret| format!("whsec_{}", STANDARD.encode(secret)));
        Ok(NewRule { rule, secret })
    }

    /// Changes a rule, if its new target is allowed.
    pub async fn change_rule(&self, rule_id: &str, change: RuleChange, by: &Identity) -> Result<AlertRule> {
        if let Some(target) = &change.target {
            let rule = self.service.alert_rule(rule_id).await?;
            self.check(rule.channel, target).await?;
        }
        self.service.change_alert_rule(rule_id, change, by).await
    }

    /// Makes one attempt to send a test notice, and returns its outcome.
    pub async fn test(&self, rule_id: &str) -> Result<Delivery> {
        let rule = self.service.alert_rule(rule_id).await?;
        let delivery = self.service.test_delivery(&rule).await?;
        self.attempt(delivery, Some(&rule)).await
    }

    async fn check(&self, channel: Channel, target: &str) -> Result<()> {
        let refused = |detail: String| Error::invalid("target", detail);
        match channel {
            Channel::Email if self.mailer.is_none() => {
                Err(Error::invalid("channel", "email needs an SMTP server: start the sidecar with --smtp-url"))
            }
            Channel::Email => email::recipients(target).map(drop).map_err(refused),
            Channel::PagerDuty => {
                let (url, _) = pagerduty::target(target).map_err(refused)?;
                self.guard.check(&url).await.map(drop).map_err(refused)
            }
            Channel::Webhook | Channel::Slack | Channel::Teams | Channel::Runtime => {
                self.guard.check(target).await.map(drop).map_err(refused)
            }
        }
    }
}
