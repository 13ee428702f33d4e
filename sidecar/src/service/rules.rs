//! Alert rules: parsing what a person sets on a rule, and storing it.
//!
//! Whether a target may be connected to is decided in [`crate::alerts`], which resolves its name before it calls this
//! module.

use serde_json::{Map, Value};

use super::agents::check_agent_id;
use super::settings::{boolean, must_be, name};
use super::tokens::{random_bytes, random_hex};
use super::{Error, Identity, Result, Service};
use crate::model::{AlertRule, Channel, Delivery};
use crate::store::DeliveryQuery;

/// The cooldown of a rule that does not set one.
pub const DEFAULT_COOLDOWN_SECONDS: u32 = 300;
/// The longest cooldown: a week.
pub const MAX_COOLDOWN_SECONDS: u32 = 7 * 86_400;
/// The longest target, in bytes.
const MAX_TARGET: usize = 2_000;
/// The largest number of rules.
const MAX_RULES: usize = 200;

/// The settings of a rule to change. A setting that is absent keeps its value, or gets its default in a new rule.
#[derive(Clone, Debug, Default)]
pub struct RuleChange {
    name: Option<String>,
    agent_id: Option<Option<String>>,
    /// How notices are delivered.
    pub channel: Option<Channel>,
    /// Where notices are delivered to.
    pub target: Option<String>,
    cooldown_seconds: Option<u32>,
    recovery: Option<bool>,
    enabled: Option<bool>,
}

impl RuleChange {
    /// Parses a JSON object. Unknown members are refused.
    pub fn parse(body: &Map<String, Value>) -> Result<Self> {
        let mut change = Self::default();
        for (field, value) in body {
            match field.as_str() {
                "type" if value == "kill_switch" => {}
                "type" => return Err(must_be(field, value, "kill_switch")),
                "name" => change.name = Some(name(field, value)?),
                "agent_id" => change.agent_id = Some(agent(field, value)?),
                "channel" => {
                    let channel = value.as_str().and_then(Channel::parse);
                    change.channel = Some(channel.ok_or_else(|| must_be(field, value, Channel::WORDS))?);
                }
                "target" => change.target = Some(target(field, value)?),
                "cooldown_seconds" => change.cooldown_seconds = Some(cooldown(field, value)?),
                "recovery" => change.recovery = Some(boolean(field, value)?),
                "enabled" => change.enabled = Some(boolean(field, value)?),
                _ => {
                    let known = "name, agent_id, channel, target, cooldown_seconds, recovery, enabled";
                    return Err(Error::invalid(field, format!("only {known} are understood here")));
                }
            }
        }
        Ok(change)
    }

    fn apply(self, rule: &mut AlertRule) {
        rule.name = self.name.unwrap_or_else(|| rule.name.clone());
        rule.agent_id = self.agent_id.unwrap_or_else(|| rule.agent_id.clone());
        rule.target = self.target.unwrap_or_else(|| rule.target.clone());
        rule.cooldown_seconds = self.cooldown_seconds.unwrap_or(rule.cooldown_seconds);
        rule.recovery = self.recovery.unwrap_or(rule.recovery);
        if let Some(enabled) = self.enabled {
            rule.enabled = enabled;
            rule.disabled_reason.clear();
        }
    }
}

fn agent(field: &str, value: &Value) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(id) => check_agent_id(id).map(|()| Some(id.clone())),
        _ => Err(must_be(field, value, "an agent's id, or null for all agents")),
    }
}

fn target(field: &str, value: &Value) -> Result<String> {
    let refused = || {
        Error::invalid(
            field,
            format!("{field} must be a URL, a key of PagerDuty or mail addresses, at most {MAX_TARGET} bytes"),
        )
    };
    let text = value.as_str().map(str::trim).ok_or_else(refused)?;
    if text.is_empty() || text.len() > MAX_TARGET || text.chars().any(char::is_control) {
        return Err(refused());
    }
    Ok(text.to_owned())
}

fn cooldown(field: &str, value: &Value) -> Result<u32> {
    let seconds = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
    let bounds = format!("a whole number from 0 to {MAX_COOLDOWN_SECONDS}");
    seconds.filter(|seconds| *seconds <= MAX_COOLDOWN_SECONDS).ok_or_else(|| must_be(field, value, &bounds))
}

impl Service {
    /// Returns every alert rule, oldest first.
    pub async fn alert_rules(&self) -> Result<Vec<AlertRule>> {
        Ok(self.store.alert_rules().await?)
    }

    /// Returns an alert rule.
    pub async fn alert_rule(&self, rule_id: &str) -> Result<AlertRule> {
        self.store.alert_rule(rule_id).await?.ok_or_else(|| no_rule(rule_id))
    }

    /// Whether any rule would announce a kill of this agent.
    pub async fn is_alert_configured(&self, agent_id: &str) -> Result<bool> {
        let rules = self.store.alert_rules().await?;
        Ok(rules.iter().any(|rule| rule.enabled && rule.agent_id.as_deref().is_none_or(|id| id == agent_id)))
    }

    /// Returns a page of deliveries, newest first.
    pub async fn deliveries(&self, query: &DeliveryQuery) -> Result<Vec<Delivery>> {
        Ok(self.store.deliveries(query).await?)
    }

    /// Creates a rule whose target was checked before. For a signed channel, the returned rule contains the secret, which is
    /// shown only now.
    pub(crate) async fn create_alert_rule(
        &self,
        channel: Channel,
        target: &str,
        change: RuleChange,
        by: &Identity,
    ) -> Result<AlertRule> {
        let secret = if channel.is_signed() { Some(random_bytes::<32>()?.to_vec()) } else { None };
        let mut rule = AlertRule {
            rule_id: random_hex::<6>()?,
            name: String::new(),
            agent_id: None,
            channel,
            target: target.to_owned(),
            secret,
            cooldown_seconds: DEFAULT_COOLDOWN_SECONDS,
            recovery: true,
            enabled: true,
            disabled_reason: String::new(),
            created_ms: self.now(),
        };
        change.apply(&mut rule);
        let mut tx = self.store.begin().await?;
        if tx.alert_rules().await?.len() >= MAX_RULES {
            return Err(Error::invalid("rule_id", format!("there are {MAX_RULES} rules already: delete one first")));
        }
        tx.save_alert_rule(&rule).await?;
        tx.commit().await?;
        by.log("alert_rule_created", &rule.rule_id);
        self.beat();
        Ok(rule)
    }

    /// Changes a rule. A new target must have been checked before.
    pub(crate) async fn change_alert_rule(
        &self,
        rule_id: &str,
        change: RuleChange,
        by: &Identity,
    ) -> Result<AlertRule> {
        let mut tx = self.store.begin().await?;
        let rules = tx.alert_rules().await?;
        let mut rule = rules.into_iter().find(|rule| rule.rule_id == rule_id).ok_or_else(|| no_rule(rule_id))?;
        if change.channel.is_some_and(|channel| channel != rule.channel) {
            return Err(Error::invalid("channel", "channel cannot be changed: make another rule"));
        }
        let action = match change.enabled {
            Some(true) => "alert_rule_switched_on",
            Some(false) => "alert_rule_switched_off",
            None => "alert_rule_changed",
        };
        change.apply(&mut rule);
        tx.save_alert_rule(&rule).await?;
        tx.commit().await?;
        by.log(action, rule_id);
        self.beat();
        Ok(rule)
    }

    /// Deletes a rule and gives up its pending deliveries.
    pub async fn delete_alert_rule(&self, rule_id: &str, by: &Identity) -> Result<()> {
        let mut tx = self.store.begin().await?;
        if !tx.delete_alert_rule(rule_id).await? {
            return Err(no_rule(rule_id));
        }
        tx.commit().await?;
        by.log("alert_rule_deleted", rule_id);
        self.beat();
        Ok(())
    }
}

pub(super) fn no_rule(rule_id: &str) -> Error {
    Error::NotFound { what: "alert rule", id: rule_id.to_owned() }
}
