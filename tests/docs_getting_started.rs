//! Follows docs/getting-started.md word for word: adds its configuration to a stock Envoy, runs its commands unchanged, and
//! expects that a loop is stopped. Only ports and the module's path are replaced.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::MockLlm;
use lab::mesh::SOON;
use lab::proc::{Child, binary, envoy_binary, free_address, wait_until_some, wasm_module};

const PAGE: &str = include_str!("../docs/getting-started.md");
const STOCK: &str = include_str!("fixtures/stock-envoy.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_follows_the_page_stops_a_loop_in_a_stock_envoy() {
    let llm = MockLlm::start().await;
    let mut reader = Reader::new(llm.address().port());

    let _sidecar = reader.service("2.", 0);
    reader.until("2.", "cat tokens/enforcer.token", |token| token.starts_with("aks_")).await;

    let added =
        [("filter", "- name: envoy.filters.http.router"), ("cluster", "clusters:"), ("virtual-host", "routes:")];
    let config = added.iter().fold(STOCK.to_owned(), |config, (info, place)| add(&config, place, &only(info)));
    fs::write(reader.folder.join("envoy.yaml"), reader.own(&config)).unwrap();
    reader.run("3.", 0);

    let _envoy = reader.service("4.", 0);
    reader.settled().await;

    let answer = reader.run("5.", 0);
    assert!(answer.contains("\"choices\""), "the first call is answered: {answer}");
    let listed = reader.until("5.", &block("5.", "sh", 1), |list| list.contains("my-agent")).await;
    assert!(listed.contains(" off "), "the kill switch of a new agent is off: {listed}");
    reader.run("5.", 2);
    reader.settled().await;
    assert_eq!(reader.run("5.", 3), "200\n".repeat(8), "observing refuses nothing");
    reader.until("5.", &block("5.", "sh", 4), |events| events.contains("would_kill")).await;

    reader.run("6.", 0);
    reader.settled().await;
    let codes = reader.run("5.", 3);
    assert!(codes.starts_with("200\n") && codes.ends_with("403\n"), "the loop is stopped: {codes}");
    let events = "kill-switch events list --agent my-agent --type kill_switch";
    assert!(block("6.", "sh", 1).contains(events), "the page shows the kill");
    reader.until("6.", events, |events| events.contains("my-agent")).await;
    let told = reader.run("6.", 1);
    assert!(
        told.contains("deactivated by kill switch") && told.contains("same input"),
        "the kill and its reason: {told}"
    );
    reader.settled().await;
    assert!(reader.run("5.", 0).contains("\"choices\""), "the activated agent is answered again");

    for command in
        PAGE.split("## Rolling back").nth(1).unwrap().split('`').filter(|code| code.starts_with("kill-switch "))
    {
        reader.shell("Rolling back", command).unwrap();
    }
    reader.settled().await;
    assert_eq!(reader.run("5.", 3), "200\n".repeat(8), "rolled back, nothing is refused");
}

/// A reader of the page with a shell and an empty folder.
struct Reader {
    folder: PathBuf,
    ports: [(u16, u16); 4],
    exports: String,
}

impl Reader {
    fn new(llm: u16) -> Reader {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("getting-started");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        // With hot restart, Envoys of this machine would depend on each other.
        let envoy =
            format!("#!/bin/sh\nexec {} \"$@\" --disable-hot-restart --concurrency 2\n", envoy_binary().display());
        fs::write(folder.join("bin/envoy"), envoy).unwrap();
        std::os::unix::fs::symlink(binary("kill-switch", "KILL_SWITCH_BIN"), folder.join("bin/kill-switch")).unwrap();
        let marked = Command::new("chmod").arg("+x").arg(folder.join("bin/envoy")).status();
        assert!(marked.unwrap().success());
        let free = || free_address().port();
        Reader { folder, ports: [(8686, free()), (10000, free()), (9901, free()), (8080, llm)], exports: String::new() }
    }

    /// Replaces ports and paths in a text of the page.
    fn own(&self, text: &str) -> String {
        let text = text.replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
        self.ports.iter().fold(text, |text, (page, own)| {
            let text = text.replace(&format!("127.0.0.1:{page}"), &format!("127.0.0.1:{own}"));
            text.replace(&format!("port_value: {page}"), &format!("port_value: {own}"))
        })
    }

    fn command(&self, script: &str) -> Command {
        let sidecar = format!("127.0.0.1:{}", self.ports[0].1);
        let path = format!("{}:{}", self.folder.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &self.own(script)]).current_dir(&self.folder).env("PATH", path);
        command.env("KILL_SWITCH_LISTEN", &sidecar).env("KILL_SWITCH_SERVER", format!("http://{sidecar}"));
        command
    }

    /// Runs a command with the variables that the page has exported so far.
    fn shell(&self, step: &str, script: &str) -> Result<String, String> {
        let output = self.command(&format!("{}{script}", self.exports)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem =
            || format!("step {step} ended with {}\n{script}\n{text}\n{}", output.status, lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(problem()) }
    }

    /// Runs a block of a step.
    fn run(&mut self, step: &str, index: usize) -> String {
        let script = block(step, "sh", index);
        let said = self.shell(step, &script).unwrap_or_else(|problem| panic!("{problem}"));
        let exports = script.lines().filter(|line| line.starts_with("export "));
        self.exports.extend(exports.map(|line| format!("{line}\n")));
        said
    }

    /// Starts a block that keeps running.
    fn service(&self, step: &str, index: usize) -> Child {
        // With `exec` the process replaces the shell, and ends with its handle.
        let script = block(step, "sh service", index);
        let script =
            ["kill-switch serve", "envoy -c"].iter().fold(script, |s, name| s.replace(name, &format!("exec {name}")));
        Child::start(step, &mut self.command(&script), &self.folder.join(format!("{step}log")))
    }

    /// Repeats a command until its output is as expected.
    async fn until(&self, step: &str, script: &str, enough: impl Fn(&str) -> bool) -> String {
        let look = || async { self.shell(step, script).ok().filter(|said| enough(said)) };
        wait_until_some(&format!("step {step}: {script}"), SOON, look).await
    }

    /// Runs the check of step 4 until every line is ok, which includes that Envoy has the latest policy.
    async fn settled(&mut self) {
        let checked = |table: &str| table.lines().skip(1).all(|line| line.contains(" ok "));
        self.until("4.", &block("4.", "sh", 0), checked).await;
        self.run("4.", 0);
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the nth block of a kind under the heading with this beginning.
fn block(heading: &str, info: &str, index: usize) -> String {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no step {heading}"));
    let fence = format!("\n```{info}\n");
    let body = section.split(&fence).nth(index + 1).unwrap_or_else(|| panic!("step {heading} has no {info} {index}"));
    body.split("\n```").next().unwrap().to_owned() + "\n"
}

/// Returns the configuration snippet of a kind.
fn only(info: &str) -> String {
    block("3.", &format!("yaml {info}"), 0)
}

/// Adds a snippet at the place that the page names: before a line, or as the first of the clusters.
fn add(config: &str, place: &str, snippet: &str) -> String {
    let lines: Vec<&str> = config.lines().collect();
    let found: Vec<usize> = (0..lines.len()).filter(|&line| lines[line].trim() == place).collect();
    assert_eq!(found.len(), 1, "one {place} in the stock configuration");
    let at = if place == "clusters:" { found[0] + 1 } else { found[0] };
    let indent = &lines[at][..lines[at].len() - lines[at].trim_start().len()];
    let snippet = snippet.lines().map(|line| format!("{indent}{line}"));
    let (before, after) = lines.split_at(at);
    let all =
        before.iter().map(|line| (*line).to_owned()).chain(snippet).chain(after.iter().map(|line| (*line).to_owned()));
    all.map(|line| line + "\n").collect()
}
