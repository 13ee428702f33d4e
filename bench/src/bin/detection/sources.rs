//! The public recordings that the page can tell something about: where they come from, and how they got their labels.

/// What is known about one source of recordings.
pub struct Known {
    /// The `source` of its runs.
    pub name: &'static str,
    /// The project and the data set.
    pub from: &'static str,
    /// What makes a run healthy.
    pub healthy: &'static str,
}

const RESOLVED: &str = "the issue was resolved, and no rule for loops applies";
const BY_RULE: &str = "success by its own score, and no rule for loops applies";

pub const KNOWN: [Known; 16] = [
    Known {
        name: "acr",
        from: "AutoCodeRover: the conversations of its published SWE-bench results",
        healthy: RESOLVED,
    },
    Known { name: "acrswe", from: "SWE-agent with GPT-4: its published SWE-bench trajectories", healthy: RESOLVED },
    Known { name: "aider", from: "aider: the chat histories of its SWE-bench runs", healthy: RESOLVED },
    Known {
        name: "autogpt",
        from: "AutoGPT: the recorded requests and responses (cassettes) of its challenges",
        healthy: "the agent says that its task is complete, and no rule for loops applies",
    },
    Known {
        name: "bfcl",
        from: "Berkeley Function-Calling Leaderboard (BFCL): multi-turn results of gpt-oss",
        healthy: BY_RULE,
    },
    Known { name: "dab", from: "DataAgentBench: the logs of six models", healthy: BY_RULE },
    Known {
        name: "hotpot",
        from: "ReAct and Reflexion: the HotpotQA trajectories in their repositories",
        healthy: BY_RULE,
    },
    Known {
        name: "intercode",
        from: "InterCode: the bash, SQL and CTF logs in its repository; requests are rebuilt from the logs",
        healthy: BY_RULE,
    },
    Known { name: "ko", from: "Ko-AgentBench: the results of 15 models", healthy: BY_RULE },
    Known { name: "luna", from: "tool agents under prompt injection, in the manner of AgentDojo", healthy: BY_RULE },
    Known {
        name: "mast",
        from: "MAST: the AG2 mathematics chats of the MAST data set",
        healthy: "a long chat in which no prompt comes more than twice in a row",
    },
    Known {
        name: "miniswe",
        from: "mini-swe-agent with gemini-3-pro: SWE-bench Verified trajectories",
        healthy: "the run ended with a submission",
    },
    Known {
        name: "mswe",
        from: "Multi-SWE-bench: the SWE-agent trajectories on Java, of five models",
        healthy: RESOLVED,
    },
    Known {
        name: "tau",
        from: "tau-bench: the gpt-4o trajectories of the airline domain in its repository",
        healthy: "reward 1",
    },
    Known {
        name: "trail",
        from: "TRAIL (trail-benchmark of Patronus AI): smolagents traces of GAIA and SWE-bench",
        healthy: "no annotator noted an abuse of resources",
    },
    Known {
        name: "whowhen",
        from: "Who&When (ag2ai): failed runs of teams of agents",
        healthy: "none: all of its runs failed and are unlabelled",
    },
];
