//! Every page of the dashboard, for the tests that look at all of them.

/// The pages of somebody who is signed in, after [`furnish`](super::screenshots::furnish) and
/// [`kill_it`](super::screenshots::kill_it): the name of the picture, the path, and the greatest height of the picture on a desktop.
pub const PAGES: [(&str, &str, u32); 6] = [
    ("overview", "/", 1000),
    ("agents", "/agents", 720),
    ("agent-after", "/agents/research-assistant", 880),
    ("alerts", "/alerts", 720),
    ("events", "/events", 720),
    ("envoys", "/envoys", 720),
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
