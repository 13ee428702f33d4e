//! Everything that the documentation names exists: linked files and headings, make targets, commands and their flags,
//! metrics, settings, environment variables.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::mesh::Mesh;
use lab::proc::binary;

/// A word that begins with one of these is a path from the root.
const TOPS: [&str; 11] =
    ["bench/", "deploy/", "docs/", "envoy/", "fuzz/", "lab/", "sidecar/", "src/", "tests/", "tools/", "Cargo.toml"];

/// Names of Envoy, curl, OpenTelemetry, GitHub, proptest and agent frameworks that the documentation mentions, but no file of the project uses.
#[rustfmt::skip]
const THEIRS: [&str; 18] = [
    "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "PROPTEST_CASES", "common_config", "pull_request",
    "dns_san_peer_certificate", "ext_proc", "extra_headers", "fail_open", "filter_metadata", "http_code", "jwt_payload",
    "max_retries", "max_retry_limit", "num_retries", "payload_in_metadata", "per_connection_buffer_limit_bytes",
    "typed_per_filter_config",
];

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let mut followed = 0;
    for (page, text) in pages() {
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if target.contains("://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { join(&page, file) };
            assert!(root().join(&path).exists(), "{}: {target}", page.display());
            if !heading.is_empty() {
                let headings = headings(&fs::read_to_string(root().join(&path)).unwrap());
                assert!(headings.contains(heading), "{}: {target} is none of {headings:?}", page.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed} links are found");
}

#[test]
fn every_path_that_is_named_exists() {
    let mut found = 0;
    for (page, code) in codes() {
        for word in code.split([' ', ',', ';', '(', ')', '"', '\n']).map(|word| word.trim_end_matches(['.', ':'])) {
            let is_path = TOPS.iter().any(|top| word.starts_with(top)) && !word.contains(['*', '<', '{', '$']);
            // This is a method of MCP.
            if !is_path || word == "tools/call" {
                continue;
            }
            // A section about a folder names its files without the folder.
            let bases = ["", "sidecar/", "lab/"];
            assert!(bases.iter().any(|base| root().join(base).join(word).exists()), "{page}: {word}");
            found += 1;
        }
    }
    assert!(found > 10, "{found} paths are found");
}

#[test]
fn every_make_target_exists() {
    let makefile = read("Makefile");
    let mut found = 0;
    for (page, code) in codes() {
        for line in code.lines().map(str::trim).filter(|line| line.starts_with("make ")) {
            let words = line.split_whitespace().skip(1).take_while(|word| !word.starts_with('#'));
            for target in words.filter(|word| !word.contains('=')) {
                assert!(makefile.contains(&format!("\n{target}:")), "{page}: make {target}");
                found += 1;
            }
        }
    }
    assert!(found > 5, "{found} targets are found");
}

#[test]
fn every_command_and_every_flag_of_it_exists() {
    let mut helps = Helps::default();
    let mut found = 0;
    for (page, code) in codes() {
        for command in commands(&code, "kill-switch") {
            let words: Vec<&str> = command.split_whitespace().collect();
            let help = helps.of(&words);
            for flag in words.iter().filter_map(|word| flag(word)) {
                assert!(help.contains(flag), "{page}: {flag} in `{command}`");
            }
            found += 1;
        }
    }
    assert!(found > 30, "{found} commands are found");
}

#[test]
fn every_flag_that_is_named_alone_belongs_to_a_command() {
    let mut known = Helps::default().all();
    let others = ["lab/src/bin/lab_agent.rs", "lab/src/bin/demo.rs", "tools/stress-tests"];
    known.extend(others.map(read).map(|text| text.replace('_', "-")));
    for (page, code) in codes().filter(|(_, code)| code.starts_with("--")) {
        let name = flag(code.split_whitespace().next().unwrap()).unwrap();
        let field = format!(" {}:", name.trim_start_matches('-'));
        assert!(known.contains(name) || known.contains(&field), "{page}: {name}");
    }
}

#[test]
fn every_metric_setting_and_variable_occurs_in_the_code() {
    let mut sources = words(&sources());
    sources.extend(THEIRS.map(str::to_owned));
    let metrics: BTreeSet<&str> = agent_kill_switch::metrics::all().map(|(_, name, _)| name).collect();
    let (mut found, mut nowhere) = (0, BTreeSet::new());
    for (page, code) in codes() {
        for name in code.split(|letter: char| !(letter.is_ascii_alphanumeric() || "_.".contains(letter))) {
            let name = name.trim_matches('.');
            let is_metric = name.starts_with("kill_switch.") && !name.ends_with(".rs");
            if is_metric || (name.contains('_') && !name.contains('.') && !name.starts_with("aks_")) {
                found += 1;
                let is_known = metrics.iter().any(|metric| metric.starts_with(name)) || sources.contains(name);
                if !is_known {
                    nowhere.insert(format!("{page}: {name}"));
                }
            }
        }
    }
    assert!(nowhere.is_empty(), "{nowhere:#?}");
    assert!(found > 150, "{found} names are found");
}

#[test]
fn every_metric_of_the_sidecar_is_explained() {
    let page = read("docs/operations.md");
    for name in words(&read("sidecar/src/api/metrics.rs")).iter().filter(|word| word.starts_with("kill_switch_")) {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_is_shown_where_the_releases_page_says() {
    let page = read("docs/releases.md");
    let version = env!("CARGO_PKG_VERSION");
    let said = |command: &mut Command| String::from_utf8(command.output().unwrap().stdout).unwrap();

    assert!(page.contains("`kill-switch --version`"));
    let shown = said(Command::new(binary("kill-switch", "KILL_SWITCH_BIN")).arg("--version"));
    assert_eq!(shown, format!("kill-switch {version}\n"));

    let mesh = Mesh::start().await;
    let command = "curl -sI http://127.0.0.1:8686/healthz";
    assert!(page.contains(&format!("`{command}`")));
    let command = command.replace("http://127.0.0.1:8686", &mesh.sidecar.url());
    let shown = said(Command::new("bash").args(["-c", &command]));
    assert!(shown.contains(&format!("x-kill-switch: {version}\r\n")), "{shown}");

    let line = format!("agent kill switch {version} is ready");
    assert!(page.contains(&line));
    assert!(mesh.envoy.log().contains(&line), "{}", mesh.envoy.log());
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the pages of the documentation with their paths from the root.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let docs = docs.map(|path| path.strip_prefix(root()).unwrap().to_owned());
    let others = ["README.md", "SECURITY.md", "lab/README.md"].map(PathBuf::from);
    docs.chain(others).map(|page| (page.clone(), read(&page.display().to_string()))).collect()
}

/// Returns every piece of code on the pages: inline code, and the lines of blocks. Continued lines are joined.
fn codes() -> impl Iterator<Item = (String, String)> {
    pages().into_iter().flat_map(|(page, text)| {
        let mut codes = Vec::new();
        for (index, part) in text.split("```").enumerate() {
            if index % 2 == 1 {
                let (info, body) = part.split_once('\n').unwrap();
                // The output of programs is not checked.
                let is_code = |line: &&str| match info {
                    "" => line.starts_with("make ") || line.starts_with("cargo "),
                    "console" => line.starts_with("$ "),
                    _ => true,
                };
                let lines = body.replace("\\\n", " ");
                let lines = lines.lines().filter(is_code);
                codes.extend(lines.map(|line| line.trim_start_matches("$ ").to_owned()));
            } else {
                codes.extend(part.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")));
            }
        }
        codes.into_iter().map(move |code| (page.display().to_string(), code))
    })
}

/// Returns the calls of a program in a piece of shell.
fn commands(code: &str, program: &str) -> Vec<String> {
    let parts = code.split(['|', ';', '&', '(']).map(str::trim);
    let begins = |part: &&str| part.strip_prefix(program).is_some_and(|rest| rest.starts_with(' '));
    parts.filter(begins).map(|part| part.split('#').next().unwrap().to_owned()).collect()
}

fn flag(word: &str) -> Option<&str> {
    let word = word.split('=').next().unwrap().trim_end_matches([',', '.', '\'']);
    word.starts_with("--").then_some(word)
}

/// The help texts of the commands.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, String>);

impl Helps {
    /// Returns the help of the command that these words call. Panics if there is no such command.
    fn of(&mut self, words: &[&str]) -> String {
        let mut names = Vec::new();
        for word in words.iter().skip_while(|word| **word == "kill-switch") {
            let known = subcommands(&self.help(&names));
            if known.is_empty() || word.starts_with('-') {
                break;
            }
            assert!(known.iter().any(|name| name == word), "{} has no command {word}", names.join(" "));
            names.push((*word).to_owned());
        }
        self.help(&names)
    }

    /// Returns the help of all commands.
    fn all(&mut self) -> String {
        let (mut text, mut open) = (String::new(), vec![Vec::new()]);
        while let Some(names) = open.pop() {
            let help = self.help(&names);
            open.extend(subcommands(&help).into_iter().map(|name| [names.clone(), vec![name]].concat()));
            text.push_str(&help);
        }
        text
    }

    fn help(&mut self, names: &[String]) -> String {
        let ask = || {
            let output = Command::new(binary("kill-switch", "KILL_SWITCH_BIN")).args(names).arg("--help").output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        self.0.entry(names.to_vec()).or_insert_with(ask).clone()
    }
}

/// Returns the commands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns all code and configuration as one text.
fn sources() -> String {
    let mut text = String::new();
    let mut folders =
        ["src", "sidecar", "lab", "bench", "tests", "envoy", "deploy", "tools"].map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_none_or(|kind| kind != "md") && !entry.ends_with(file!()) {
                text.push_str(&fs::read_to_string(&entry).unwrap_or_default());
            }
        }
    }
    text + &read("Makefile") + &read("docker-compose.yml") + &read("Cargo.toml")
}

fn words(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter: char| !is_part(letter)).map(str::to_owned).collect()
}

/// Returns a link's path from the root.
fn join(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_owned();
    for part in link.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path
}

/// Returns the anchors of a page's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}
