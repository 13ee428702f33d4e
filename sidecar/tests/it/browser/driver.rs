//! A Chromium and the driver through which tests control it.
//!
//! Each test has its own, with a profile of its own, and only one runs at a time: a Chromium takes a whole processor.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder};
use lab::skip;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use super::Script;

static TURN: Mutex<()> = Mutex::const_new(());

const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--window-size=1280,900",
];

/// How often to try to start Chromium, which may give up by itself on a very busy machine.
const ATTEMPTS: u32 = 3;
/// How long ending the session may take. It ends Chromium, too.
const GOODBYE: Duration = Duration::from_secs(30);

/// A running driver and its Chromium. Both end when it is dropped.
pub struct Driver {
    process: Child,
    port: u16,
    /// Present once Chromium runs.
    session: Option<Session>,
    /// Kept open, because the driver ends if it writes to a closed pipe.
    _stdout: BufReader<ChildStdout>,
    /// Removed last, when nothing writes to it any more.
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

struct Session {
    id: String,
    chromium: u64,
}

impl Driver {
    /// Starts a driver and a Chromium with these further flags. Returns `None`, and notes that the test is skipped, if
    /// there is no driver on this machine.
    pub async fn start(script: Script, flags: &[&str]) -> Option<(Self, Client)> {
        let mut attempt = 1;
        loop {
            let started = match Self::spawn().await? {
                Ok(driver) => driver.connect(script, flags).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(started) => return Some(started),
                Err(error) if attempt == ATTEMPTS => panic!("no Chromium: {error}"),
                Err(error) => eprintln!("Chromium did not start, trying again: {error}"),
            }
            attempt += 1;
        }
    }

    /// Starts a driver. It fails now and then on a busy machine: the driver chooses a port that is free for IPv4, and ends if
    /// another process has the same port for IPv6.
    async fn spawn() -> Option<Result<Self, String>> {
        let turn = TURN.lock().await;
        let folder = TempDir::with_prefix("kill-switch-chromium-").unwrap();
        let mut command = Command::new("chromedriver");
        // Chromium leaves files in the temporary directory if it is killed.
        command.arg("--port=0").env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut process) = command.spawn() else {
            skip::missing("chromedriver is not installed (tools/get-chromium), so the dashboard was not tested");
            return None;
        };
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let port = loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).unwrap() == 0 {
                return Some(Err("chromedriver ended before it named its port".to_owned()));
            }
            if let Some(port) = line.trim_end().split("successfully on port ").nth(1) {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        Some(Ok(Self { process, port, session: None, _stdout: stdout, folder, _turn: turn }))
    }

    async fn connect(mut self, script: Script, flags: &[&str]) -> Result<(Self, Client), String> {
        let mut arguments: Vec<String> = FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", self.folder.path().join("profile").display()));
        let javascript = if script == Script::On { 1 } else { 2 };
        let prefs = json!({
            "profile.default_content_setting_values.javascript": javascript,
            "profile.managed_default_content_settings.javascript": javascript,
        });
        let wanted = json!({"goog:chromeOptions": {"args": arguments, "prefs": prefs}});
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        let client = ClientBuilder::new(connector)
            .capabilities(wanted.as_object().unwrap().clone())
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .map_err(|error| error.to_string())?;
        let chromium = client.capabilities().and_then(|all| all.get("goog:processID")).and_then(Value::as_u64);
        let id = client.session_id().await.unwrap().unwrap();
        self.session = Some(Session { id, chromium: chromium.expect("the driver names Chromium's process") });
        Ok((self, client))
    }

    /// Makes the part of the window that shows the page this large. A window cannot be as narrow as a phone.
    pub async fn set_size(&self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", params).await;
    }

    /// Lets pages see that the person prefers a light or a dark theme, which they then have at once: colours do not fade.
    pub async fn set_theme(&self, theme: &str) {
        let theme = json!({"name": "prefers-color-scheme", "value": theme});
        let motion = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        self.command("Emulation.setEmulatedMedia", json!({"features": [theme, motion]})).await;
    }

    /// Runs a command of Chromium's own protocol.
    async fn command(&self, command: &str, params: Value) {
        let session = self.session.as_ref().expect("Chromium runs");
        let url = format!("http://127.0.0.1:{}/session/{}/goog/cdp/execute", self.port, session.id);
        let command = json!({"cmd": command, "params": params});
        let answer = reqwest::Client::new().post(url).body(command.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{:?}", answer.text().await);
    }

    /// Ends the session, and with it Chromium. Killing the driver alone would leave Chromium behind.
    fn end(&self, session: &Session) -> std::io::Result<()> {
        let mut driver = TcpStream::connect(("127.0.0.1", self.port))?;
        driver.set_read_timeout(Some(GOODBYE))?;
        let head = format!("DELETE /session/{} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n", session.id);
        driver.write_all(head.as_bytes())?;
        driver.read(&mut [0; 512]).map(drop)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = self.end(&session);
            let process = PathBuf::from(format!("/proc/{}/cmdline", session.chromium));
            let own = self.folder.path().to_string_lossy().into_owned();
            if std::fs::read_to_string(process).is_ok_and(|command| command.contains(&own)) {
                let _ = Command::new("kill").args(["-KILL", &session.chromium.to_string()]).status();
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
