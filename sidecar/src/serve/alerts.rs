//! The flags that configure alerts.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::ServeError;
use crate::alerts::{AlertOptions, Alerts, Guard, Mailer, SystemLookup};
use crate::service::Service;

/// How alerts are sent.
#[derive(Args, Clone)]
pub(super) struct AlertFlags {
    /// Allow webhooks to private, loopback and link-local addresses, and over plain HTTP
    #[arg(long, env = "KILL_SWITCH_ALLOW_PRIVATE_WEBHOOKS")]
    allow_private_webhooks: bool,
    /// How long the delivery of an alert is retried before it is given up
    #[arg(long, env = "KILL_SWITCH_ALERT_GIVE_UP_AFTER", default_value = "24h", value_name = "DURATION",
          value_parser = humantime::parse_duration)]
    pub(super) alert_give_up_after: Duration,
    /// SMTP server for alerts by email: smtps://user:password@host, smtp://host:25, or with ?tls=required for STARTTLS.
    /// Prefer the environment variable: every user of the machine can see the arguments of a process
    #[arg(long, env = "KILL_SWITCH_SMTP_URL", value_name = "URL", hide_env_values = true, requires = "smtp_from")]
    smtp_url: Option<String>,
    /// Sender of alerts by email
    #[arg(long, env = "KILL_SWITCH_SMTP_FROM", value_name = "ADDRESS")]
    smtp_from: Option<String>,
    /// Address under which people reach the dashboard, for links in alerts
    #[arg(long, env = "KILL_SWITCH_PUBLIC_URL", value_name = "URL")]
    pub(super) public_url: Option<String>,
}

impl std::fmt::Debug for AlertFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The SMTP URL holds a password.
        f.debug_struct("AlertFlags").field("public_url", &self.public_url).finish_non_exhaustive()
    }
}

impl AlertFlags {
    /// Creates the alerts that these flags configure.
    pub(super) fn alerts(&self, service: &Arc<Service>) -> Result<Arc<Alerts>, ServeError> {
        let lookup = Arc::new(SystemLookup);
        let guard = if self.allow_private_webhooks { Guard::anywhere(lookup) } else { Guard::public(lookup) };
        let mailer = match (&self.smtp_url, &self.smtp_from) {
            (Some(url), Some(from)) => Some(Mailer::new(url, from)?),
            _ => None,
        };
        let options = AlertOptions { mailer, public_url: self.public_url.clone() };
        Ok(Arc::new(Alerts::new(Arc::clone(service), guard, options)?))
    }
}
