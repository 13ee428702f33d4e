//! Policies as files: what is applied, what is left alone, and what is refused, by the API and by the command line.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use kill_switch::service::Limits;
use kill_switch::store::Store;
use serde_json::{Value, json};

use crate::support::postgres::database;
use crate::support::process::{Process, cli};
use crate::support::{Api, Sidecar, assert_members, kill};

const SCHEMA: &str = include_str!("../../policies.schema.json");
const EXAMPLE: &str = include_str!("../../../deploy/policies/policies.yaml");

fn example() -> Value {
    serde_yaml_ng::from_str(EXAMPLE).unwrap()
}

async fn apply(api: &Api, query: &str, mut document: Value) -> Value {
    document["version"] = json!(1);
    api.put(&format!("/v1/policies/team?{query}"), document).await.ok()
}

/// Reports the agents as seen, and waits until they are written.
async fn seen(sidecar: &Sidecar, ids: &[&str]) {
    let agents: Vec<_> = ids.iter().map(|id| json!({"agent_id": id})).collect();
    sidecar.api.report("/v1/observations", json!({"agents": agents})).await.ok();
    sidecar.service.write_observations().await.unwrap();
}

fn ids(steps: &Value) -> Vec<(&str, &str)> {
    let steps = steps.as_array().unwrap().iter();
    steps.map(|one| (one["agent_id"].as_str().unwrap(), one["step"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_file_is_applied_once_and_then_changes_nothing() {
    let sidecar = Sidecar::guarding("billing-assistant").await;
    let api = &sidecar.api;
    let planned = api.put("/v1/policies/policies?dry_run=true&prune=true", example()).await.ok();
    assert_eq!(planned["agents"].as_array().unwrap().len(), 3);
    assert_eq!(api.get("/v1/agents/load-test").await.status, 404, "a dry run changes nothing");
    assert!(api.events("event_type=policies_applied").await.is_empty());

    let applied = api.put("/v1/policies/policies?reason=PR+12&by=Ada", example()).await.ok();
    assert_eq!((&applied["agents"], &applied["rules"]), (&planned["agents"], &planned["rules"]));
    assert_eq!(
        ids(&applied["agents"]),
        [("billing-assistant", "changed"), ("load-test", "created"), ("nightly-report", "created")]
    );
    let agent = api.agent("billing-assistant").await;
    assert_members(
        &agent,
        json!({"kill_switch_threshold": 12.0, "scope": "session", "session_stop_seconds": 1800, "name": "Billing assistant",
               "managed_by": "policies", "managed_rule": null}),
    );
    assert_eq!(api.agent("load-test").await["kill_switch_enabled"], false);
    let event = &api.events("event_type=policies_applied").await[0];
    assert_members(
        event,
        json!({"agent_id": "", "file": "policies", "agents_changed": 3, "reason": "PR 12", "by": "Ada"}),
    );
    let changed = &api.events("event_type=policy_changed").await[0];
    assert_members(changed, json!({"agent_id": "billing-assistant", "file": "policies", "reason": "PR 12"}));
    assert_eq!(changed["changes"]["kill_switch_threshold"], json!({"from": 10.0, "to": 12.0}));

    let (rev, events) = (sidecar.service.rev(), api.events("").await.len());
    let again = api.put("/v1/policies/policies?prune=true", example()).await.ok();
    assert_members(&again, json!({"agents": [], "rules": [], "unchanged": 3, "left_agents": []}));
    assert_eq!((sidecar.service.rev(), api.events("").await.len()), (rev, events), "nothing was written");
}

#[tokio::test]
async fn a_new_agent_gets_its_rule_in_the_transaction_in_which_it_is_first_seen() {
    let mut stores = vec![None];
    stores.extend(database().await.map(Some));
    for url in stores {
        let dir = tempfile::tempdir().unwrap();
        let store = match &url {
            Some(url) => Store::postgres(url).await.unwrap(),
            None => Store::sqlite(&dir.path().join("test.db")).await.unwrap(),
        };
        let sidecar = Sidecar::over(Arc::new(store), Limits::default(), dir).await;
        let rules = json!([
            {"match": "team-a/prod-*", "enabled": true, "action": "block"},
            {"match": "team-a/*", "enabled": true, "action": "observe", "threshold": 7},
        ]);
        apply(&sidecar.api, "", json!({"rules": rules})).await;
        let rev = sidecar.service.rev();
        seen(&sidecar, &["team-a/x", "team-a/prod-1", "team-b/x"]).await;
        assert_eq!(sidecar.service.rev(), rev + 3, "each agent was written once: {url:?}");
        let x = json!({"kill_switch_enabled": true, "action": "observe", "kill_switch_threshold": 7.0,
                       "managed_by": "team", "managed_rule": "team-a/*"});
        assert_members(&sidecar.api.agent("team-a%2Fx").await, x);
        let first = json!({"action": "block", "kill_switch_threshold": 10.0, "managed_rule": "team-a/prod-*"});
        assert_members(&sidecar.api.agent("team-a%2Fprod-1").await, first);
        assert_members(
            &sidecar.api.agent("team-b%2Fx").await,
            json!({"kill_switch_enabled": false, "managed_by": null}),
        );
        // An agent of which the sidecar first hears by its kill, because the database was restored from a backup.
        sidecar.api.report("/v1/kills", kill("k", "team-a/killed", 1)).await.ok();
        let killed = sidecar.api.agent("team-a%2Fkilled").await;
        assert_members(&killed, json!({"active": false, "kill_switch_enabled": true, "managed_rule": "team-a/*"}));
    }
}

#[tokio::test]
async fn a_rule_governs_agents_that_nobody_has_changed_and_no_others() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    seen(&sidecar, &["t-1", "t-2", "t-3", "other"]).await;
    api.patch("/v1/agents/t-2", json!({"kill_switch_threshold": 5})).await.ok();
    let rule = |threshold: u32| json!({"match": "t-*", "enabled": true, "threshold": threshold});
    let applied = apply(api, "", json!({"rules": [rule(8)], "agents": {"t-3": {"threshold": 9}}})).await;
    assert_eq!(ids(&applied["agents"]), [("t-1", "changed"), ("t-3", "changed")]);
    assert_members(&api.agent("t-2").await, json!({"kill_switch_threshold": 5.0, "managed_by": null}));
    assert_members(&api.agent("t-3").await, json!({"kill_switch_threshold": 9.0, "managed_rule": null}));

    api.patch("/v1/agents/t-1", json!({"kill_switch_threshold": 20, "name": "One"})).await.ok();
    apply(api, "", json!({"rules": [rule(6)], "agents": {"t-3": {"threshold": 9}}})).await;
    let overwritten = json!({"kill_switch_threshold": 6.0, "name": "One", "managed_rule": "t-*"});
    assert_members(&api.agent("t-1").await, overwritten);
}

#[tokio::test]
async fn what_a_file_no_longer_mentions_stays_until_it_is_pruned() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    let document = json!({"agents": {"a": {"enabled": true}, "t-9": {"enabled": true}},
                          "rules": [{"match": "t-*", "enabled": true}, {"match": "u-*", "enabled": true}]});
    apply(api, "", document).await;
    seen(&sidecar, &["t-1", "u-1", "a"]).await;
    api.report("/v1/kills", kill("k", "a", 1)).await.ok();

    let smaller = json!({"rules": [{"match": "t-*", "enabled": true}]});
    let left = apply(api, "", smaller.clone()).await;
    assert_members(&left, json!({"agents": [], "rules": [], "left_agents": ["a", "t-9"], "left_rules": ["u-*"]}));
    assert_eq!(api.agent("a").await["managed_by"], "team");

    let pruned = apply(api, "prune=true", smaller.clone()).await;
    assert_eq!(ids(&pruned["agents"]), [("a", "released"), ("t-9", "changed"), ("u-1", "released")]);
    assert_eq!(pruned["rules"], json!([{"match": "u-*", "step": "removed", "changes": {}}]));
    let a = json!({"kill_switch_enabled": false, "managed_by": null, "active": false, "generation": 1});
    assert_members(&api.agent("a").await, a);
    assert_members(&api.agent("t-9").await, json!({"kill_switch_enabled": true, "managed_rule": "t-*"}));
    assert_members(&apply(api, "prune=true", smaller).await, json!({"agents": [], "rules": [], "unchanged": 2}));

    apply(api, "prune=true", json!({})).await;
    assert_eq!(api.get("/v1/policies").await.ok(), json!({"files": []}));
    assert_eq!(api.get("/v1/policies/team").await.problem(404)["detail"], "there is no policy file team");
}

#[tokio::test]
async fn two_files_do_not_take_an_agent_from_each_other() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    apply(api, "", json!({"agents": {"a": null}, "rules": [{"match": "*", "enabled": true}]})).await;
    let other = json!({"version": 1, "agents": {"a": {}}});
    let problem = api.put("/v1/policies/other", other).await.problem(422);
    assert_eq!(problem["field"], r#"agents["a"]"#);
    assert!(problem["detail"].as_str().unwrap().contains("is managed by the policy file team"), "{problem}");
    // A rule is weaker than a file that names the agent.
    seen(&sidecar, &["b"]).await;
    api.put("/v1/policies/other", json!({"version": 1, "agents": {"b": {}}})).await.ok();
    assert_members(&api.agent("b").await, json!({"managed_by": "other", "managed_rule": null}));
    apply(api, "prune=true", json!({"rules": [{"match": "*", "enabled": true}]})).await;
    assert_eq!(api.agent("b").await["managed_by"], "other");
    let files = json!([{"name": "other", "agents": 1, "rules": 0}, {"name": "team", "agents": 1, "rules": 1}]);
    assert_eq!(api.get("/v1/policies").await.ok()["files"], files);
    api.delete("/v1/agents/b").await;
    seen(&sidecar, &["b"]).await;
    assert_members(&api.agent("b").await, json!({"managed_by": "team", "generation": 2}));
}

/// Documents that are wrong, the field that the error names, a part of its message, and whether the schema can know.
fn broken() -> Vec<(Value, &'static str, &'static str, bool)> {
    let agent = |settings: Value| json!({"version": 1, "agents": {"team-a/x": settings}});
    let rule = |rule: Value| json!({"version": 1, "rules": [{"match": "ok-*"}, rule]});
    vec![
        (json!({}), "version", "version (null) must be 1", true),
        (json!({"version": 2}), "version", "version (2) must be 1", true),
        (json!({"version": 1, "agent": {}}), "agent", "agent is not a member of a policy file", true),
        (json!({"version": 1, "agents": []}), "agents", "agents ([]) must be a mapping", true),
        (json!({"version": 1, "rules": {}}), "rules", "rules ({}) must be a list", true),
        (json!({"version": 1, "defaults": {"name": "x"}}), "defaults.name", "only be given to one agent", true),
        (
            json!({"version": 1, "defaults": {"action": "x"}}),
            "defaults.action",
            "defaults: action (\"x\") must be",
            true,
        ),
        (
            agent(json!({"threshold": 0})),
            r#"agents["team-a/x"].threshold"#,
            r#"agents["team-a/x"]: threshold (0) must be above 0"#,
            true,
        ),
        (agent(json!({"treshold": 3})), r#"agents["team-a/x"].treshold"#, "treshold is not a setting", true),
        (
            agent(json!({"kill_switch_threshold": 3})),
            r#"agents["team-a/x"].kill_switch_threshold"#,
            "is called threshold in a policy file",
            true,
        ),
        (agent(json!({"enabled": "on"})), r#"agents["team-a/x"].enabled"#, "must be true or false", true),
        (agent(json!({"window_size": 101})), r#"agents["team-a/x"].window_size"#, "from 2 to 100", true),
        (agent(json!({"window_size": 3})), r#"agents["team-a/x"].threshold"#, "must be below 7", false),
        (agent(json!(7)), r#"agents["team-a/x"]"#, "must be a mapping", true),
        (agent(json!({"active": false})), r#"agents["team-a/x"].active"#, "is changed by POST", true),
        (json!({"version": 1, "agents": {"a b": {}}}), r#"agents["a b"].agent_id"#, "must be 1 to 128", true),
        (rule(json!({"enabled": true})), "rules[1].match", "match (null) must be 1 to 128", true),
        (rule(json!({"match": "a b"})), "rules[1].match", "rules[1]: match (\"a b\") must be", true),
        (rule(json!({"match": "b", "name": "x"})), "rules[1].name", "only be given to one agent", true),
        (rule(json!({"match": "b", "scope": "x"})), "rules[1].scope", "must be agent or session", true),
        (rule(json!({"match": "ok-*"})), "rules[1].match", "is the same as in an earlier rule", false),
    ]
}

#[tokio::test]
async fn a_wrong_file_is_refused_with_the_place_and_the_schema_agrees() {
    let sidecar = Sidecar::start().await;
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for (document, field, detail, is_in_schema) in broken() {
        let problem = sidecar.api.put("/v1/policies/team", document.clone()).await.problem(422);
        assert_eq!(problem["field"], field, "{document}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{document}: {problem}");
        assert_eq!(!schema.is_valid(&document), is_in_schema, "{document}");
    }
    let wrong_name = json!({"version": 1, "name": "other"});
    assert_eq!(sidecar.api.put("/v1/policies/team", wrong_name).await.problem(422)["field"], "name");
    let nothing = sidecar.api.get("/v1/agents").await.ok();
    assert_eq!(nothing["agents"], json!([]), "a file is applied as a whole or not at all");

    for good in [example(), json!({"version": 1}), json!({"version": 1, "agents": {"a": null}, "rules": null})] {
        let errors: Vec<_> = schema.iter_errors(&good).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        sidecar.api.put("/v1/policies/policies", good).await.ok();
    }
}

#[tokio::test]
async fn the_schema_describes_every_setting() {
    let sidecar = Sidecar::guarding("a").await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let described: Vec<_> = schema["$defs"]["settings"]["properties"].as_object().unwrap().keys().cloned().collect();
    let real = sidecar.api.get("/v1/agents/a/kill-switch").await.ok();
    let mut real: Vec<_> = real.as_object().unwrap().keys().map(|key| key.replace("kill_switch_", "")).collect();
    real.retain(|setting| setting != "highest_score");
    real.sort();
    assert_eq!(described, real);
    for (name, setting) in schema["$defs"]["settings"]["properties"].as_object().unwrap() {
        let applied = apply(&sidecar.api, "dry_run=true", json!({"agents": {"b": {name: setting["default"]}}})).await;
        let changes = applied["agents"][0]["changes"].as_object().unwrap();
        assert_eq!(changes.keys().collect::<Vec<_>>(), ["managed_by"], "{name} has another default");
    }
}

#[tokio::test]
async fn an_export_can_be_applied_and_changes_no_setting() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    let agents = json!({"b": {"enabled": true, "scope": "session", "name": "Bee"}});
    apply(api, "", json!({"agents": agents, "rules": [{"match": "t-*", "enabled": true, "threshold": 6}]})).await;
    seen(&sidecar, &["t-1", "t-2", "unknown"]).await;
    api.patch("/v1/agents/t-2", json!({"action": "block"})).await.ok();
    api.put("/v1/agents/by-hand", json!({"kill_switch_enabled": true, "kill_switch_window_size": 30})).await.ok();

    let team = api.get("/v1/policies/team").await.ok();
    assert_eq!(
        team,
        json!({"version": 1, "name": "team",
               "agents": {"b": {"enabled": true, "scope": "session", "name": "Bee"},
                          "t-2": {"enabled": true, "threshold": 6.0, "action": "block"}},
               "rules": [{"match": "t-*", "enabled": true, "threshold": 6}]})
    );
    let all = api.get("/v1/policies/policies?unmanaged=true").await.ok();
    assert_eq!(all["agents"], json!({"by-hand": {"enabled": true, "window_size": 30}}));
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for (name, document) in [("team", team), ("policies", all)] {
        assert!(schema.is_valid(&document), "{document}");
        let applied = api.put(&format!("/v1/policies/{name}?prune=true"), document).await.ok();
        for step in applied["agents"].as_array().unwrap() {
            let changed: Vec<_> = step["changes"].as_object().unwrap().keys().collect();
            assert!(changed.iter().all(|field| field.starts_with("managed_")), "{step}");
        }
        assert_eq!(applied["rules"], json!([]));
    }
}

fn said(output: &Output, code: i32) -> (String, String) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn write(dir: &Path, text: &str) {
    std::fs::write(dir.join("policies.yaml"), text).unwrap();
}

#[tokio::test]
async fn the_command_line_shows_a_difference_and_its_exit_codes_are_for_scripts() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let file = dir.path().join("policies.yaml");
    let path = file.to_str().unwrap();
    let run = |arguments: &[&str]| cli(dir.path(), &process.api, &[&["apply", "-f", path], arguments].concat());
    write(
        dir.path(),
        "version: 1\nname: ci\nagents:\n  7: {enabled: true, threshold: 12}\nrules: [{match: t-*, counting: literal}]\n",
    );
    let (planned, hint) = said(&run(&["--dry-run"]), 7);
    let difference = "+ rule t-*\n    counting: progress -> literal\n+ agent 7\n    enabled: false -> true\n    threshold: 10.0 -> 12.0\n    managed_by: - -> ci\n";
    assert_eq!(planned, format!("{difference}ci: 1 agent and 1 rule would change, 0 agents unchanged\n"));
    assert!(hint.contains("there are differences"), "{hint}");
    let (applied, _) = said(&run(&["--reason", "PR 7"]), 0);
    assert_eq!(applied, format!("{difference}ci: 1 agent and 1 rule changed, 0 agents unchanged\n"));
    assert_eq!(
        said(&run(&["--dry-run", "--prune"]), 0).0,
        "ci: 0 agents and 0 rules would change, 1 agent unchanged\n"
    );

    let export = cli(dir.path(), &process.api, &["export", "--name", "ci"]);
    let (exported, _) = said(&export, 0);
    assert_eq!(
        exported,
        "version: 1\nname: ci\nagents:\n  '7':\n    enabled: true\n    threshold: 12.0\nrules:\n- match: t-*\n  counting: literal\n"
    );
    write(dir.path(), &exported);
    assert_eq!(said(&run(&["--dry-run"]), 0).1, "");

    write(dir.path(), "version: 1\nname: ci\n");
    let (left, _) = said(&run(&[]), 0);
    assert!(left.contains("  agent 7  is no longer in the file; --prune takes it back\n"), "{left}");
    let (pruned, _) = said(&run(&["--prune", "-o", "json"]), 0);
    assert_eq!(serde_json::from_str::<Value>(&pruned).unwrap()["agents"][0]["step"], "released");

    for (text, message) in [
        (
            "version: 1\nagents:\n  a:\n    threshold: 0\n",
            r#"policies.yaml: agents["a"]: threshold (0) must be above 0"#,
        ),
        ("version: 1\nagents:\n  a: {}\n  a: {}\n", "duplicate entry with key \"a\" at line 3"),
        ("version: 1\nagents: [\n", "policies.yaml: "),
        ("- 1\n", "must be a mapping"),
        ("", "must be a mapping"),
    ] {
        write(dir.path(), text);
        let (_, error) = said(&run(&["--dry-run"]), 5);
        assert!(error.contains(message), "{text}: {error}");
    }
    std::fs::remove_file(&file).unwrap();
    said(&run(&[]), 1);
    let (schema, _) = said(&cli(dir.path(), &process.api, &["export", "--schema"]), 0);
    assert_eq!(schema, SCHEMA);
}
