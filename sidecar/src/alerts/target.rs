//! Targets of webhooks: what a URL must look like, and how it is shown.

use reqwest::Url;

/// Names that mean this machine or this network wherever they are asked for.
const INTERNAL: [&str; 7] = ["localhost", "local", "internal", "localdomain", "lan", "home.arpa", "intranet"];

/// Reads a URL and refuses what no webhook needs.
pub(super) fn url(text: &str, allow_private: bool) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("target must be a URL: {error}"))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_private => {}
        "http" => return Err("target must be https: plain http needs --allow-private-webhooks".to_owned()),
        _ => return Err("target must be an https URL".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("target must not hold a user name or password".to_owned());
    }
    if let Some(name) = url.domain() {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_internal = |suffix: &&str| name == *suffix || name.ends_with(&format!(".{suffix}"));
        if !allow_private && (!name.contains('.') || INTERNAL.iter().any(is_internal)) {
            return Err(format!("target leads to {name}, which is not a public name"));
        }
    }
    if url.host().is_none() {
        return Err("target must name a host".to_owned());
    }
    Ok(url)
}

/// A target as it may be shown: a Slack URL is a secret by itself, and so may be the query of any other.
pub fn masked(channel: crate::model::Channel, target: &str) -> String {
    use crate::model::Channel;
    let Ok(url) = Url::parse(target) else { return target.to_owned() };
    let origin = url.origin().ascii_serialization();
    match channel {
        Channel::Email => target.to_owned(),
        Channel::Slack => format!("{origin}/..."),
        Channel::Webhook if url.query().is_some() => format!("{origin}{}?...", url.path()),
        Channel::Webhook => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Channel;

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let slack = "https://hooks.slack.com/services/T0/B0/sesame";
        assert_eq!(masked(Channel::Slack, slack), "https://hooks.slack.com/...");
        assert_eq!(masked(Channel::Webhook, "https://a.example/in?key=sesame"), "https://a.example/in?...");
        assert_eq!(masked(Channel::Webhook, "https://a.example/in"), "https://a.example/in");
        assert_eq!(masked(Channel::Email, "ops@a.example"), "ops@a.example");
    }
}
