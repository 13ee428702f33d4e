//! The dashboard in a real Chromium: what a person sees and does.
//!
//! Needs Debian's `chromium` and `chromium-driver`; says loudly that it was skipped where they are not. One browser at a
//! time: each takes a processor.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::OPERATOR;

mod hostile;
mod live;
mod scenarios;
mod screenshots;

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

/// A Chromium of one's own, gone when dropped.
pub struct Browser {
    pub page: Client,
    base: String,
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
    _turn: MutexGuard<'static, ()>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Script {
    On,
    Off,
}

impl Browser {
    /// Starts one that looks at `base`; none where there is no Chromium.
    pub async fn open(base: &str, script: Script) -> Option<Self> {
        Self::with(base, script, &[]).await
    }

    pub async fn with(base: &str, script: Script, flags: &[&str]) -> Option<Self> {
        let turn = TURN.lock().await;
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut driver) = started else {
            eprintln!(
                "SKIPPED: there is no chromedriver here (apt-get install chromium chromium-driver); the dashboard was not looked at"
            );
            return None;
        };
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port =
            said.find_map(|line| line.ok()?.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok());
        let port: u16 = port.expect("chromedriver says on which port it listens");
        let profile = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let javascript = if script == Script::On { 1 } else { 2 };
        let prefs = json!({
            "profile.default_content_setting_values.javascript": javascript,
            "profile.managed_default_content_settings.javascript": javascript,
        });
        let options = json!({"args": arguments, "prefs": prefs});
        let wanted = json!({"goog:chromeOptions": options}).as_object().unwrap().clone();
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        let page = ClientBuilder::new(connector)
            .capabilities(wanted)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("chromium starts");
        let session = page.session_id().await.unwrap().unwrap();
        Some(Self { page, base: base.to_owned(), driver, port, session, _profile: profile, _turn: turn })
    }

    pub async fn goto(&self, path: &str) {
        self.page.goto(&format!("{}{path}", self.base)).await.unwrap();
    }

    /// Signs in with the operator's token.
    pub async fn sign_in(&self) {
        self.sign_in_with(OPERATOR).await;
    }

    pub async fn sign_in_with(&self, secret: &str) {
        self.goto("/login").await;
        self.fill("#secret", secret).await;
        self.press("Sign in").await;
        // Leaving before the answer is there would be leaving without the session.
        self.find("header.top").await;
    }

    pub async fn find(&self, css: &str) -> Element {
        let waiting = self.page.wait().at_most(Duration::from_secs(15));
        waiting.for_element(Locator::Css(css)).await.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    pub async fn has(&self, css: &str) -> bool {
        !self.page.find_all(Locator::Css(css)).await.unwrap().is_empty()
    }

    pub async fn text(&self, css: &str) -> String {
        self.find(css).await.text().await.unwrap()
    }

    pub async fn fill(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses the button or link with this text.
    pub async fn press(&self, text: &str) {
        let path = format!(
            "//main//*[self::button or self::a][normalize-space()='{text}'] | //header//button[normalize-space()='{text}']"
        );
        let waiting = self.page.wait().at_most(Duration::from_secs(15));
        let found = waiting.for_element(Locator::XPath(&path)).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        found.click().await.unwrap();
    }

    pub async fn value(&self, css: &str) -> String {
        self.find(css).await.prop("value").await.unwrap().unwrap_or_default()
    }

    pub async fn path(&self) -> String {
        self.page.current_url().await.unwrap().path().to_owned()
    }

    pub async fn js(&self, script: &str) -> serde_json::Value {
        self.page.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until the text of an element is this.
    pub async fn until(&self, css: &str, text: &str) {
        crate::support::eventually(&format!("{css} says {text}"), async || {
            match self.page.find(Locator::Css(css)).await {
                Ok(found) => found.text().await.is_ok_and(|found| found.contains(text)),
                Err(_) => false,
            }
        })
        .await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ending the session ends the browser; the driver alone would leave it behind.
        if let Ok(mut driver) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = driver.set_read_timeout(Some(Duration::from_secs(10)));
            let request =
                format!("DELETE /session/{} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n", self.session);
            let _ = driver.write_all(request.as_bytes());
            let _ = driver.read(&mut [0; 512]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
