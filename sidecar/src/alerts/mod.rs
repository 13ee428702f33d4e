//! Alerts on their way out: who may be connected to, what is sent, and trying until it arrives.
//!
//! Rules and deliveries are kept by [`crate::service`]; this is the part with sockets. A target is checked when a rule
//! is saved, for the person's sake, and again at every connection, for safety's: a name may lead elsewhere by then.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::{AlertRule, Channel, Delivery};
use crate::service::{Error, Result, RuleChange, Service};

mod address;
mod backoff;
mod courier;
mod email;
mod guard;
mod message;
mod send;
mod signature;
mod target;

pub use address::is_public;
pub use email::{Mailer, SmtpError};
pub use guard::{Guard, Lookup, SystemLookup};
pub use target::masked;

/// What the operator decides about alerts.
#[derive(Default)]
pub struct AlertOptions {
    /// How mail is sent; none, no mail.
    pub mailer: Option<Mailer>,
    /// Where people find the dashboard, for links in notices.
    pub public_url: Option<String>,
}

/// Alerts: checked, sent, tried again.
pub struct Alerts {
    service: Arc<Service>,
    guard: Guard,
    http: reqwest::Client,
    mailer: Option<Mailer>,
    public_url: Option<String>,
}

/// A rule that was just made: the only moment at which its secret is known.
pub struct NewRule {
    /// What is stored.
    pub rule: AlertRule,
    /// What a webhook's receiver verifies signatures with: `whsec_...`.
    pub secret: Option<String>,
}

impl Alerts {
    /// Alerts over a service, connecting only where the guard lets them.
    pub fn new(service: Arc<Service>, guard: Guard, options: AlertOptions) -> Result<Self> {
        let http = send::client(&guard).map_err(|error| Error::invalid("alerts", error.to_string()))?;
        Ok(Self { service, guard, http, mailer: options.mailer, public_url: options.public_url })
    }

    /// Whether mail can be sent.
    pub fn has_mail(&self) -> bool {
        self.mailer.is_some()
    }

    /// Makes a rule, if its target may be connected to.
    pub async fn create_rule(&self, change: RuleChange) -> Result<NewRule> {
        let missing = |field: &str, what: &str| Error::invalid(field, format!("{field} must be {what}"));
        let channel = change.channel.ok_or_else(|| missing("channel", "webhook, slack or email"))?;
        let target = change.target.clone().ok_or_else(|| missing("target", "a URL or mail addresses"))?;
        self.check(channel, &target).await?;
        let rule = self.service.create_alert_rule(channel, &target, change).await?;
        let secret = rule.secret.as_ref().map(|secret| format!("whsec_{}", STANDARD.encode(secret)));
        Ok(NewRule { rule, secret })
    }

    /// Changes a rule, if its new target may be connected to.
    pub async fn change_rule(&self, rule_id: &str, change: RuleChange) -> Result<AlertRule> {
        if let Some(target) = &change.target {
            let rule = self.service.alert_rule(rule_id).await?;
            self.check(rule.channel, target).await?;
        }
        self.service.change_alert_rule(rule_id, change).await
    }

    /// Sends a test notice, once and now, and says how it went.
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
            Channel::Webhook | Channel::Slack => self.guard.check(target).await.map(drop).map_err(refused),
        }
    }
}
