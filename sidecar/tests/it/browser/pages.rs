//! Every page of the dashboard, for the tests that look at all of them.

/// The pages of somebody who is signed in, after [`furnish`](super::screenshots::furnish) and
/// [`kill_it`](super::screenshots::kill_it): the name of the picture, and the path.
pub const PAGES: [(&str, &str); 6] = [
    ("overview", "/"),
    ("agents", "/agents"),
    ("agent-after", "/agents/research-assistant"),
    ("alerts", "/alerts"),
    ("events", "/events"),
    ("envoys", "/envoys"),
];

/// Pages that say what went wrong, and one for each kind of content that other pages do not have: an agent that a person has
/// deactivated, stopped conversations, and what was just done.
pub const OTHER_PAGES: [&str; 9] = [
    "/agents/crawler-eu-west",
    "/agents/chat-frontend",
    "/agents?q=nobody",
    "/agents?undo=crawler-eu-west",
    "/?did=activated&agent_id=research-assistant",
    "/agents/support-triage?did=saved",
    "/alerts?did=failed",
    "/no-such-page",
    "/agents/unknown",
];

/// The themes that people may prefer.
pub const THEMES: [&str; 2] = ["light", "dark"];
