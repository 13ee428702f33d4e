//! Tests of `Config::parse`.

use super::raw::TextRule;
use super::rules::*;
use super::*;

fn parse(json: &str) -> Result<Config, ConfigError> {
    Config::parse(json.as_bytes(), &|_| None)
}

/// Returns the error of a configuration that has a cluster and these fields.
fn error_of(fields: &str) -> String {
    let json = format!(r#"{{"cluster": "ks", {fields}}}"#);
    parse(&json).expect_err(&json).to_string()
}

fn config_of(fields: &str) -> Config {
    parse(&format!(r#"{{"cluster": "ks", {fields}}}"#)).unwrap_or_else(|error| panic!("{fields}: {error}"))
}

#[test]
fn a_cluster_is_enough_and_everything_else_has_its_default() {
    let config = parse(r#"{"cluster": "ks"}"#).unwrap();
    assert_eq!(config.cluster, "ks");
    assert_eq!(config.authority, "kill-switch");
    assert_eq!(config.token, None);
    assert_eq!(config.agent_id, [AgentSource::Header("x-agent-id".into())]);
    assert!(!config.require_agent);
    assert_eq!(config.on_no_policy, OnNoPolicy::Allow);
    assert_eq!(config.on_unjudged, OnUnjudged::Allow);
    assert!(!config.judge_unknown);
    assert_eq!((config.session_slots, config.max_session_bytes), (256, 64 << 20));
    assert_eq!(config.hold, Hold::Headers);
    assert_eq!(config.max_request_bytes, 8 << 20);
    assert_eq!(config.max_event_bytes, 262_144);
    assert_eq!(config.accept_encoding, AcceptEncoding::Identity);
    assert!(config.patterns.is_empty());
    assert_eq!(config.inactive_reply, InactiveReply::Error);
    assert_eq!(config.dashboard_url, None);
    assert_eq!(config.evidence, Evidence::None);
    assert_eq!(config.envoy_name, None);
    assert_eq!(config.sync_wait_seconds, 4);
    assert_eq!(config.observe_interval_ms, 1000);
    assert!(config.fleet);
}

#[test]
fn every_field_can_be_set() {
    let config = config_of(
        r#""authority": "ks.ops:8080", "token": "s3cret",
           "agent_id": [{"header": "X-Agent"}, {"path_prefix": "/agents/"}, {"path_prefix": "/a/", "strip": false},
                        {"property": ["connection", "uri_san_peer_certificate"]}, {"api_key": "Authorization"}],
           "require_agent": true, "on_no_policy": "deny", "on_unjudged": "deny", "session_header": "X-Session", "session_slots": 64,
           "hold": "body", "max_request_bytes": 16777216, "max_event_bytes": 1024, "accept_encoding": "keep",
           "patterns": [{"pattern": "TCK-\\d+", "placeholder": "<TICKET>"}], "inactive_reply": "completion",
           "dashboard_url": "https://ks.example/", "evidence": "excerpt", "envoy_name": "edge-1",
           "sync_wait_seconds": 55, "observe_interval_ms": 100, "fleet": false"#,
    );
    assert_eq!(config.authority, "ks.ops:8080");
    assert_eq!(config.token.map(|token| token.bearer()), Some("Bearer s3cret".into()));
    let sources = [
        AgentSource::Header("x-agent".into()),
        AgentSource::PathPrefix { prefix: "/agents/".into(), forwarded: Forwarded::Stripped },
        AgentSource::PathPrefix { prefix: "/a/".into(), forwarded: Forwarded::Whole },
        AgentSource::Property(vec!["connection".into(), "uri_san_peer_certificate".into()]),
        AgentSource::ApiKey("authorization".into()),
    ];
    assert_eq!(config.agent_id, sources);
    assert!(config.require_agent);
    assert_eq!(config.on_no_policy, OnNoPolicy::Deny);
    assert_eq!(config.on_unjudged, OnUnjudged::Deny);
    assert_eq!(config.session.of_headers, [(0, SessionSource::Header("x-session".to_owned()))]);
    assert_eq!(config.session_slots, 64);
    assert_eq!(config.hold, Hold::Body);
    assert_eq!(config.max_request_bytes, 16 << 20);
    assert_eq!(config.max_event_bytes, 1 << 10);
    assert_eq!(config.accept_encoding, AcceptEncoding::Keep);
    assert_eq!(config.patterns[0].placeholder, "<TICKET>");
    assert_eq!(config.patterns[0].regex.find("see TCK-77.").unwrap().as_str(), "TCK-77");
    assert_eq!(config.inactive_reply, InactiveReply::Completion);
    assert_eq!(config.dashboard_url.as_deref(), Some("https://ks.example"));
    assert_eq!(config.evidence, Evidence::Excerpt);
    assert_eq!(config.envoy_name.as_deref(), Some("edge-1"));
    assert_eq!(config.sync_wait_seconds, 55);
    assert_eq!(config.observe_interval_ms, 100);
    assert!(!config.fleet);
}

/// Checks the message for each of these fields.
fn assert_refused(cases: &[(&str, &str)]) {
    for (fields, message) in cases {
        assert_eq!(error_of(fields), *message);
    }
}

#[test]
fn what_is_not_a_configuration_at_all_is_refused() {
    let deep = format!(r#"{{"cluster": {}"#, "[".repeat(100_000));
    let cases = [
        ("", "the configuration is empty: it must be a JSON object with at least cluster"),
        (" \n", "the configuration is empty: it must be a JSON object with at least cluster"),
        ("{}", "cluster is required and must be the name of an Envoy cluster, 1 to 255 characters without spaces"),
        ("null", "the configuration (null) must be a JSON object"),
        ("[]", "the configuration (a list) must be a JSON object"),
        (r#"["ks", {"token": "s3cret"}]"#, "the configuration (a list) must be a JSON object"),
        (r#""{\"token\": \"s3cret\"}""#, "the configuration (a string) must be a JSON object"),
        ("cluster: ks", "the configuration is not valid JSON: expected value at line 1 column 1"),
        (r#"{"cluster": "ks"} {}"#, "the configuration is not valid JSON: trailing characters at line 1 column 19"),
        (r#"{"cluster": "ks""#, "the configuration is not valid JSON: EOF while parsing an object at line 1 column 16"),
        (&deep, "the configuration is not valid JSON: EOF while parsing a list at line 1 column 100012"),
    ];
    for (json, message) in cases {
        assert_eq!(parse(json).unwrap_err().to_string(), message, "{json:?}");
    }
    let invalid_utf8 = Config::parse(b"{\"cluster\": \"\xff\"}", &|_| None).unwrap_err().to_string();
    assert!(invalid_utf8.starts_with("the configuration is not valid JSON: invalid utf-8"), "{invalid_utf8}");
}

#[test]
fn an_unknown_field_is_named_with_the_field_that_was_probably_meant() {
    assert_refused(&[
        (r#""a\nb": 1"#, r#""a\nb" is not a known field"#),
        (r#""agent_id": [{"heder": "x"}]"#, r#"agent_id[0]."heder" is not a known field: did you mean header?"#),
        (
            r#""patterns": [{"pattern": "x", "placeholdr": "<X>"}]"#,
            r#"patterns[0]."placeholdr" is not a known field: did you mean placeholder?"#,
        ),
    ]);
    let names = [
        ("clutser", Some("cluster")),
        ("Cluster", Some("cluster")),
        ("agent-id", Some("agent_id")),
        ("agentId", Some("agent_id")),
        ("max_request_byte", Some("max_request_bytes")),
        ("dashboard", None),
        ("threshold", None),
        ("", None),
        ("日本語", None),
    ];
    for (given, nearest) in names {
        let suggestion = nearest.map_or(String::new(), |name| format!(": did you mean {name}?"));
        let message = format!("\"{given}\" is not a known field{suggestion}");
        assert_eq!(error_of(&format!(r#""{given}": "x""#)), message);
    }
    let long = error_of(&format!(r#""{}": 1"#, "é".repeat(1000)));
    assert_eq!(long, format!("\"{}... is not a known field", "é".repeat(59)));
}

#[test]
fn the_sources_of_sessions_keep_their_order() {
    let sources = r#"[{"body": "a.b"}, {"header": "X-S"}, {"property": ["p", "q"]}, {"body": "c"}, {"baggage": "d"}]"#;
    let config = parse(&format!(r#"{{"cluster": "ks", "session": {sources}}}"#)).unwrap();
    let of_headers = [
        (1, SessionSource::Header("x-s".into())),
        (2, SessionSource::Property(vec!["p".into(), "q".into()])),
        (4, SessionSource::Baggage("d".into())),
    ];
    assert_eq!(config.session.of_headers, of_headers);
    for (place, members) in [(0, 0), (1, 1), (2, 1), (4, 2), (usize::MAX, 2)] {
        assert_eq!(config.session.of_body_before(place).len(), members, "before {place}");
    }
    let nowhere = parse(r#"{"cluster": "ks", "session": []}"#).unwrap();
    assert_eq!(nowhere.session, SessionSources::default());
}

#[test]
fn a_wrong_name_type_or_value_names_field_value_and_bounds() {
    assert_refused(&[
        (r#""hold": "body", "hold": "headers""#, "hold is given twice"),
        (r#""agent_id": [{"header": "a", "header": "b"}]"#, "agent_id[0].header is given twice"),
        (
            r#""authority": 7"#,
            "authority (7) must be a host name, optionally with a port, 1 to 255 characters without spaces or slashes",
        ),
        (r#""require_agent": "yes""#, r#"require_agent ("yes") must be true or false"#),
        (r#""hold": "trailers""#, r#"hold ("trailers") must be headers or body"#),
        (r#""on_no_policy": "Deny""#, r#"on_no_policy ("Deny") must be allow or deny"#),
        (r#""on_unjudged": true"#, "on_unjudged (true) must be allow or deny"),
        (r#""inactive_reply": true"#, "inactive_reply (true) must be error or completion"),
        (r#""evidence": {}"#, "evidence (an object) must be none or excerpt"),
        (r#""accept_encoding": "gzip""#, r#"accept_encoding ("gzip") must be identity or keep"#),
        (r#""accept_encoding": ["keep"]"#, "accept_encoding (a list) must be identity or keep"),
        (r#""hold": "a\nb""#, r#"hold ("a\nb") must be headers or body"#),
        (r#""agent_id": "x-agent-id""#, r#"agent_id ("x-agent-id") must be a list of 1 to 8 sources"#),
        (r#""agent_id": []"#, "agent_id (a list of 0) must be a list of 1 to 8 sources"),
        (
            r#""session": [{"header": "a", "body": "b"}]"#,
            "session[0] (header and body) must be an object with one of header, baggage, body and property",
        ),
        (
            r#""session": [{"body": "a..b"}]"#,
            r#"session[0].body ("a..b") must be names of members with dots between them, at most 255 bytes, such as metadata.session_id"#,
        ),
        (r#""session": [], "session_header": "x""#, r#"session_header ("x") must be absent where session is given"#),
        (r#""patterns": {}"#, "patterns (an object) must be a list of 0 to 32 patterns"),
    ]);
    let numbers = [
        ("session_slots", &["0", "4097", "2.5", "-1", "1e400", r#""8""#][..], "1 to 4096"),
        ("max_session_bytes", &["-1", "1073741825"], "0 to 1073741824"),
        ("max_request_bytes", &["1023", "16777217"], "1024 to 16777216"),
        ("max_event_bytes", &["4194305"], "1024 to 4194304"),
        ("sync_wait_seconds", &["56"], "1 to 55"),
        ("observe_interval_ms", &["99"], "100 to 60000"),
    ];
    for (field, values, bounds) in numbers {
        for value in values {
            let message = format!("{field} ({value}) must be a whole number from {bounds}");
            assert_eq!(error_of(&format!(r#""{field}": {value}"#)), message);
        }
    }
    let long = error_of(&format!(r#""hold": "{}""#, "é".repeat(1000)));
    assert_eq!(long, format!("hold (\"{}...) must be headers or body", "é".repeat(59)));
}

#[test]
fn each_text_rule_accepts_what_it_says_and_nothing_else() {
    let name_64 = "h".repeat(64);
    let name_65 = "h".repeat(65);
    let cases: &[(&TextRule, &[&str], &[&str])] = &[
        (&CLUSTER, &["kill_switch", "outbound|8080||ks.ops.svc.cluster.local"], &["", " ", "a b", "a\n", "käse"]),
        (&AUTHORITY, &["kill-switch", "ks.ops:8080", "[::1]:80"], &["", "http://ks", "a b"]),
        (&TOKEN, &["ks_enf_1234"], &["", "two words", "line\n"]),
        (&VARIABLE, &["KS_TOKEN", "x1"], &["", "KS TOKEN", "$KS", "A=B"]),
        (&HEADER_NAME, &["x-session-id", "X-Session", &name_64], &["", "x session", ":path", "x:y", &name_65]),
        (&ENVOY_NAME, &["edge-1", "eu/edge:7"], &["", "edge 1", "<b>"]),
        (&PATH_PREFIX, &["/agents/", "/a/b/"], &["", "/", "agents/", "/agents", "/a?/", "/a b/"]),
        (&PATTERN, &["x"], &[""]),
        (&PLACEHOLDER, &["<T>", "<TICKET_2>", "<ABCDEFGHIJKLMNOP>"], &["", "<>", "T", "<t>", "<ABCDEFGHIJKLMNOPQ>"]),
        (
            &URL,
            &["http://127.0.0.1:8080", "https://ks.example/team/?a=b"],
            &["", "https://", "ftp://x", "ks.example", "https://u:p@ks.example", "https://a b", "https://a\"b"],
        ),
    ];
    for (rule, good, bad) in cases {
        for (texts, accepted) in [(good, true), (bad, false)] {
            for text in *texts {
                assert_eq!((rule.fits)(text), accepted, "{text:?} must be {}", rule.must);
            }
        }
    }
}

#[test]
fn a_whole_number_may_be_written_as_a_double_and_null_means_the_default() {
    let config = config_of(r#""session_slots": 16.0, "max_request_bytes": 2.097152e6, "hold": null, "agent_id": null"#);
    assert_eq!(config.session_slots, 16);
    assert_eq!(config.max_request_bytes, 2 << 20);
    assert_eq!(config.hold, Hold::Headers);
    assert_eq!(config.agent_id.len(), 1);
}

#[test]
fn a_source_of_agent_ids_names_exactly_one_place() {
    let one_place = "must be an object with one of header, path_prefix, property and api_key";
    let segments = "must be a list of 1 to 16 path segments";
    let prefix = "must be a path that begins and ends with a slash, at most 255 characters, such as /agents/";
    let cases = [
        ("{}", format!("[0] (an object) {one_place}")),
        (r#"{"header": "a", "api_key": "b"}"#, format!("[0] (header and api_key) {one_place}")),
        (r#""x-agent-id""#, r#"[0] ("x-agent-id") must be a JSON object"#.into()),
        (r#"{"header": "a", "strip": true}"#, "[0].strip (true) must be given with path_prefix only".into()),
        (r#"{"property": []}"#, format!("[0].property (a list of 0) {segments}")),
        (r#"{"property": ["a", ""]}"#, r#"[0].property[1] ("") must be non-empty text"#.into()),
        (r#"{"property": ["a", null]}"#, "[0].property[1] (null) must be non-empty text".into()),
        (r#"{"property": "connection.mtls"}"#, format!(r#"[0].property ("connection.mtls") {segments}"#)),
        (r#"{"header": "a"}, {"path_prefix": "agents"}"#, format!(r#"[1].path_prefix ("agents") {prefix}"#)),
    ];
    for (sources, message) in cases {
        assert_eq!(error_of(&format!(r#""agent_id": [{sources}]"#)), format!("agent_id{message}"));
    }
}

#[test]
fn a_bad_pattern_is_refused_with_its_index_and_its_text() {
    let second = |pattern: &str| {
        let good = r#"{"pattern": "x", "placeholder": "<X>"}"#;
        error_of(&format!(r#""patterns": [{good}, {{"pattern": {pattern:?}, "placeholder": "<T>"}}]"#))
    };
    let broken = second("(");
    assert!(
        broken.starts_with(r#"patterns[1].pattern ("(") must be a regular expression that compiles: "#),
        "{broken}"
    );
    let huge = second("(a{1000}){1000}");
    assert!(huge.contains("must be a regular expression that compiles: "), "{huge}");
    for empty in ["a*", "^", "$", "(?m)$", r"\b", r"\B", "x?|y", r"\bq*", "()", r"(?m)^", r"[^\S\s]*"] {
        let message = second(empty);
        assert!(
            message.ends_with("must be a regular expression that never matches the empty text"),
            "{empty}: {message}"
        );
    }
}

#[test]
fn a_placeholder_is_capitals_between_angle_brackets() {
    let message = error_of(r#""patterns": [{"pattern": "x", "placeholder": "TICKET"}]"#);
    assert_eq!(
        message,
        "patterns[0].placeholder (\"TICKET\") must be 1 to 16 of A-Z, 0-9 and _ between < and >, such as <TICKET>"
    );
    let missing = error_of(r#""patterns": [{"pattern": "x"}]"#);
    assert!(missing.starts_with("patterns[0].placeholder is required and must be 1 to 16 of"), "{missing}");
}

#[test]
fn thirty_two_patterns_are_taken_and_thirty_three_are_not() {
    let patterns = |count| vec![r#"{"pattern": "x", "placeholder": "<X>"}"#; count].join(",");
    assert_eq!(config_of(&format!(r#""patterns": [{}]"#, patterns(32))).patterns.len(), 32);
    let message = error_of(&format!(r#""patterns": [{}]"#, patterns(33)));
    assert_eq!(message, "patterns (a list of 33) must be a list of 0 to 32 patterns");
}

#[test]
fn a_token_never_shows_in_debug_output_or_errors() {
    let config = config_of(r#""token": "s3cret-value""#);
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
    for fields in [r#""token": "s3cret value""#, r#""token": 53728"#, r#""token": ["s3cret"]"#] {
        assert_eq!(error_of(fields), "token (hidden) must be 1 to 4096 visible ASCII characters", "{fields}");
    }
}

#[test]
fn a_token_may_come_from_the_environment() {
    let env = |name: &str| match name {
        "KS_TOKEN" => Some("from-env\n".to_owned()),
        "EMPTY" => Some(" ".to_owned()),
        "TWO_WORDS" => Some("s3cret value".to_owned()),
        _ => None,
    };
    let parse = |fields: &str| Config::parse(format!(r#"{{"cluster": "ks", {fields}}}"#).as_bytes(), &env);
    let token = parse(r#""token_env": "KS_TOKEN""#).unwrap().token.unwrap();
    assert_eq!(token.bearer(), "Bearer from-env");

    let unset = "must be a variable that is set, and not empty, in the VM's environment";
    let cases = [
        (r#""token_env": "NO_SUCH""#, format!("token_env (NO_SUCH) {unset}")),
        (r#""token_env": "EMPTY""#, format!("token_env (EMPTY) {unset}")),
        (
            r#""token_env": "TWO_WORDS""#,
            "token_env (TWO_WORDS) must be a variable whose value is 1 to 4096 visible ASCII characters".into(),
        ),
        (r#""token": "x", "token_env": "KS_TOKEN""#, "token (hidden) must be left out if token_env is given".into()),
    ];
    for (fields, message) in cases {
        assert_eq!(parse(fields).unwrap_err().to_string(), message);
    }
}

#[test]
fn session_ids_are_looked_for_under_the_names_in_use() {
    let session = parse(r#"{"cluster": "ks"}"#).unwrap().session;
    let name = |(_, source): &(usize, SessionSource)| match source {
        SessionSource::Header(name) => name.clone(),
        SessionSource::Baggage(key) => format!("baggage: {key}"),
        SessionSource::Property(path) => path.join("."),
    };
    let of_headers: Vec<_> = session.of_headers.iter().map(name).collect();
    let of_body: Vec<_> = session.of_body.iter().map(|member| member.0.join(".")).collect();
    let headers = "mcp-session-id, x-session-id, session-id, x-claude-code-session-id, x-opencode-session, \
        x-litellm-session-id, x-agent-session, baggage: session.id, baggage: gen_ai.conversation.id";
    let members = "conversation, conversation.id, prompt_cache_key, metadata.session_id, metadata.conversation_id, \
        metadata.user_id, safety_identifier, user, contextId, params.message.contextId, threadId";
    assert_eq!((of_headers.join(", ").as_str(), of_body.join(", ").as_str()), (headers, members));
}
