//! Who did something, in words for people.

/// Returns what people call the actor of an event: the name of the person or of the token, or what the kill switch and the
/// dashboard are called. The API has the actor itself, which also says what kind of credential was used.
pub fn actor_name(actor: &str) -> &str {
    match actor {
        "kill_switch" => "the kill switch",
        "dashboard" => "the dashboard",
        _ => actor.strip_prefix("token:").or_else(|| actor.strip_prefix("user:")).unwrap_or(actor),
    }
}

/// Returns who did something, for people: the person who was named, and the credential in brackets, or only that.
pub fn who(by: Option<&str>, actor: &str) -> String {
    match by {
        Some(by) => format!("{by} ({})", actor_name(actor)),
        None => actor_name(actor).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_are_called_by_their_names() {
        for (actor, name) in [
            ("kill_switch", "the kill switch"),
            ("dashboard", "the dashboard"),
            ("token:operator", "operator"),
            ("user:ada@example.com", "ada@example.com"),
            ("token:user:x", "user:x"),
        ] {
            assert_eq!(actor_name(actor), name);
        }
    }
}
