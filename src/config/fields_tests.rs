use super::*;

#[test]
fn each_check_takes_what_its_bounds_say_and_nothing_else() {
    let name_64 = "h".repeat(64);
    let name_65 = "h".repeat(65);
    let cases: &[(&Text, &[&str], &[&str])] = &[
        (&CLUSTER, &["kill_switch", "outbound|8080||ks.ops.svc.cluster.local"], &["", " ", "a b", "a\n", "käse"]),
        (&AUTHORITY, &["kill-switch", "ks.ops:8080", "[::1]:80"], &["", "http://ks", "a b"]),
        (&TOKEN, &["ks_enf_1234"], &["", "two words", "line\n"]),
        (&TOKEN_ENV, &["KS_TOKEN", "x1"], &["", "KS TOKEN", "$KS", "A=B"]),
        (&SESSION_HEADER, &["x-session-id", "X-Session", &name_64], &["", "x session", ":path", "x:y", &name_65]),
        (&ENVOY_NAME, &["edge-1", "eu/edge:7"], &["", "edge 1", "<b>"]),
        (&PATH_PREFIX, &["/agents/", "/a/b/"], &["", "/", "agents/", "/agents", "/a?/", "/a b/"]),
        (&PATTERN, &["x"], &[""]),
        (&PLACEHOLDER, &["<T>", "<TICKET_2>", "<ABCDEFGHIJKLMNOP>"], &["", "<>", "T", "<t>", "<ABCDEFGHIJKLMNOPQ>"]),
        (
            &DASHBOARD_URL,
            &["http://127.0.0.1:8080", "https://ks.example/team/?a=b"],
            &["", "https://", "ftp://x", "ks.example", "https://u:p@ks.example", "https://a b", "https://a\"b"],
        ),
    ];
    for (field, good, bad) in cases {
        for text in *good {
            assert!((field.fits)(text), "{} takes {text:?}", field.name);
        }
        for text in *bad {
            assert!(!(field.fits)(text), "{} refuses {text:?}", field.name);
        }
    }
}

#[test]
fn a_misspelt_name_finds_the_field_that_was_meant() {
    let cases = [
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
    for (given, meant) in cases {
        assert_eq!(nearest(given, FIELDS), meant, "{given:?}");
    }
}

#[test]
fn edits_counts_insertions_removals_and_replacements() {
    let cases =
        [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("ab", "ba", 2)];
    for (from, to, expected) in cases {
        assert_eq!(edits(from, to), expected, "{from} -> {to}");
    }
}
