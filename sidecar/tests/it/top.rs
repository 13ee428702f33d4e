//! `kill-switch top` as a script sees it, and in a terminal in which keys are pressed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};

use crate::support::process::{Killed, Process, binary, cli};
use crate::support::{Api, eventually};

const DOWN: &str = "\u{1b}[B";
const CTRL_C: &str = "\u{3}";
/// What a program sends to show the cursor, and to leave the alternate screen.
const RESTORED: [&str; 2] = ["\u{1b}[?25h", "\u{1b}[?1049l"];

/// A program that runs in a terminal of its own.
struct Terminal {
    child: Killed,
    master: File,
    /// The program's end. It also keeps the terminal open after the program.
    slave: OwnedFd,
    shown: Arc<Mutex<String>>,
    /// The modes that the terminal had before.
    modes: String,
}

fn modes(terminal: &OwnedFd) -> String {
    let all = tcgetattr(terminal).unwrap();
    format!("{:?} {:?} {:?} {:?}", all.input_modes, all.output_modes, all.control_modes, all.local_modes)
}

impl Terminal {
    fn start(command: &mut Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let modes = modes(&slave);
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = Killed(command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap());
        let (master, shown) = (File::from(master), Arc::new(Mutex::new(String::new())));
        let (mut output, text) = (master.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Self { child, master, slave, shown, modes }
    }

    /// Presses keys and waits until the terminal has shown a text since.
    async fn press(&mut self, keys: &str, expected: &str) {
        self.shown.lock().unwrap().clear();
        self.master.write_all(keys.as_bytes()).unwrap();
        self.until(expected).await;
    }

    async fn until(&self, expected: &str) {
        eventually(expected, || async { self.shown.lock().unwrap().contains(expected) }).await;
    }

    /// Waits for the end of the program. The terminal must be as it was before.
    async fn end(mut self) -> ExitStatus {
        let mut status = None;
        eventually("the program ends", || {
            status = self.child.0.try_wait().unwrap();
            let has_ended = status.is_some();
            async move { has_ended }
        })
        .await;
        assert_eq!(modes(&self.slave), self.modes);
        for restored in RESTORED {
            self.until(restored).await;
        }
        status.unwrap()
    }
}

fn top(dir: &Path, api: &Api) -> Command {
    let mut command = binary();
    command.current_dir(dir).args(["top", "-n", "0.2"]).envs([
        ("KILL_SWITCH_SERVER", &api.base),
        ("KILL_SWITCH_TOKEN", &api.operator),
        ("KILL_SWITCH_BY", &"Ada".to_owned()),
    ]);
    command
}

#[tokio::test]
async fn one_table_is_printed_for_scripts() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    process.api.guarded("quiet").await;
    process.api.put("/v1/agents/busy", json!({"kill_switch_enabled": true, "action": "observe"})).await.ok();
    let sample = json!({"at_ms": 0, "score": 7.5, "similar_prompts": 1, "similar_responses": 0,
        "repeated_tool_calls": 0});
    let seen = json!({"agents": [{"agent_id": "busy", "requests": 900, "scores": [sample]}]});
    process.api.report("/v1/observations", seen).await.ok();
    let json = || -> Value {
        let output = cli(dir.path(), &process.api, &["top", "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    eventually("the score is written", || async { json()[0]["score"] == 7.5 }).await;
    assert!(json()[0]["calls_per_second"].as_f64().unwrap() > 0.1, "{}", json());
    // Without --once as well: the output is not a terminal.
    for arguments in [&["top", "--once"][..], &["top"]] {
        let output = cli(dir.path(), &process.api, arguments);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(output.status.success() && lines.len() == 3, "{output:?}");
        assert!(lines[0].starts_with("AGENT  STATE   KILL SWITCH  SCORE"), "{text}");
        assert!(lines[1].starts_with("busy   active  observe      7.5 / 10.0  "), "{text}");
        assert!(lines[2].starts_with("quiet  active  deactivate   -  ") && lines[2].ends_with("never"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    for (arguments, code, expected) in [
        (&["top", "-n", "0"][..], 2, "must be from 0.1 to 3600"),
        (&["top", "--sort", "name"], 2, "score, rate"),
        (&["top", "--server", "http://127.0.0.1:9"], 6, "http://127.0.0.1:9"),
    ] {
        let output = cli(dir.path(), &process.api, arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}

#[tokio::test]
async fn keys_select_deactivate_and_activate_an_agent_and_the_terminal_is_restored() {
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    for id in ["alpha", "beta"] {
        process.api.guarded(id).await;
    }
    let mut terminal = Terminal::start(&mut top(dir.path(), &process.api));
    terminal.until("> alpha").await;
    assert_ne!(modes(&terminal.slave), terminal.modes, "keys are passed on at once");
    terminal.press(DOWN, "> beta").await;
    terminal.press("d", "deactivate beta? (y/n)").await;
    terminal.press("n", "> beta").await;
    assert_eq!(process.api.agent("beta").await["active"], true, "nothing happens without a yes");
    terminal.press("d", "deactivate beta? (y/n)").await;
    terminal.press("y", "beta was deactivated").await;
    assert_eq!(process.api.agent("beta").await["active"], false);
    let event = &process.api.events("event_type=deactivated").await[0];
    assert_eq!((&event["reason"], &event["by"]), (&json!("kill-switch top"), &json!("Ada")));
    terminal.until("beta   inactive").await;
    terminal.press("a", "activate beta? (y/n)").await;
    terminal.press("y", "beta was activated").await;
    assert_eq!(process.api.agent("beta").await["active"], true);
    // An agent that somebody else changes is shown without a key.
    process.api.post("/v1/agents/alpha/deactivate", json!({})).await.ok();
    terminal.until("alpha  inactive").await;
    // A server that goes away ends nothing.
    process.kill_9();
    terminal.press("r", "refused").await;
    terminal.press("s", "by rate").await;
    terminal.press("q", RESTORED[1]).await;
    assert!(terminal.end().await.success());
}

#[tokio::test]
async fn the_terminal_is_restored_however_the_command_ends() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let mut terminal = Terminal::start(&mut top(dir.path(), &process.api));
    terminal.until("no agents yet").await;
    terminal.press(CTRL_C, RESTORED[1]).await;
    assert!(terminal.end().await.success());
    let terminal = Terminal::start(&mut top(dir.path(), &process.api));
    terminal.until("no agents yet").await;
    let id = terminal.child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(terminal.end().await.success());
}
