//! The URLs of webhooks: which are allowed, and how they are shown.

use reqwest::Url;

use crate::model::Channel;

/// Domains that are never public: they mean this machine or the network that it is in.
const INTERNAL: [&str; 7] = ["localhost", "local", "internal", "localdomain", "lan", "home.arpa", "intranet"];

/// Parses a URL. Unless private targets are allowed, it must be https and its name must be a public one.
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

/// Returns a target without its secret parts. Whoever knows the URL of Slack or Teams can post to it, and the query of any
/// URL may hold a key.
pub fn masked(channel: Channel, target: &str) -> String {
    let Ok(url) = Url::parse(target) else {
        // Of a key only the end, by which a person can tell one from another.
        let is_key = channel == Channel::PagerDuty;
        let end = target.char_indices().rev().nth(3).map_or(0, |(start, _)| start);
        return if is_key { format!("...{}", target.get(end..).unwrap_or_default()) } else { target.to_owned() };
    };
    let origin = url.origin().ascii_serialization();
    match channel {
        Channel::Email => target.to_owned(),
        Channel::Slack | Channel::Teams | Channel::PagerDuty => format!("{origin}/..."),
        Channel::Webhook | Channel::Runtime if url.query().is_some() => format!("{origin}{}?...", url.path()),
        Channel::Webhook | Channel::Runtime => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_parts_of_a_target_are_not_shown() {
        for (channel, target, shown) in [
            (Channel::Slack, "https://hooks.slack.com/services/T0/B0/sesame", "https://hooks.slack.com/..."),
            (Channel::Teams, "https://x.logic.azure.com/workflows/1?sig=sesame", "https://x.logic.azure.com/..."),
            (Channel::PagerDuty, "open0123456789abcdef0123456789ab", "...89ab"),
            (Channel::PagerDuty, "https://a.example/v2/enqueue?routing_key=sesame", "https://a.example/..."),
            (Channel::Runtime, "https://a.example/stop?key=sesame", "https://a.example/stop?..."),
            (Channel::Webhook, "https://a.example/in?key=sesame", "https://a.example/in?..."),
            (Channel::Webhook, "https://a.example/in", "https://a.example/in"),
            (Channel::Email, "ops@a.example", "ops@a.example"),
        ] {
            assert_eq!(masked(channel, target), shown);
        }
    }
}
