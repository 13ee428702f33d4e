//! The dashboard in a real Chromium: what a person sees and does.
//!
//! Every method of [`Browser`] is one complete step. It finds its element and acts on it, and starts again if the page
//! replaced the element in between, which live pages do at any time. A step that leads to another page returns when that
//! page has loaded. Tests therefore never hold an element and never sleep.

use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::error::{CmdError, ErrorStatus};
use fantoccini::{Client, Locator};
use serde_json::{Value, json};

use crate::support::{OPERATOR, Sidecar};
use driver::Driver;

mod addresses;
mod driver;
mod hostile;
mod live;
mod pause;
mod scenarios;
mod screenshots;
mod story;
mod tools;
mod widths;

/// How long a step may take. It ends as soon as it has succeeded.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long to wait between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A Chromium that looks at one sidecar. It ends when dropped.
pub struct Browser {
    pub page: Client,
    base: String,
    driver: Driver,
}

/// Whether pages may run scripts. Tests may in either case.
#[derive(Clone, Copy, PartialEq)]
pub enum Script {
    On,
    Off,
}

impl Browser {
    /// Starts a browser for the sidecar at `base`. Returns `None` if there is no Chromium on this machine.
    pub async fn open(base: &str, script: Script) -> Option<Self> {
        Self::with_flags(base, script, &[]).await
    }

    /// Starts a sidecar and a browser in which the operator has signed in.
    pub async fn signed_in() -> Option<(Sidecar, Self)> {
        let sidecar = Sidecar::start().await;
        let browser = Self::open(&sidecar.api.base, Script::On).await?;
        browser.sign_in().await;
        Some((sidecar, browser))
    }

    /// Like [`Browser::open`], with further flags for Chromium.
    pub async fn with_flags(base: &str, script: Script, flags: &[&str]) -> Option<Self> {
        let (driver, page) = Driver::start(script, flags).await?;
        Some(Self { page, base: base.to_owned(), driver })
    }

    /// Opens a page of the sidecar.
    pub async fn goto(&self, path: &str) {
        self.page.goto(&format!("{}{path}", self.base)).await.unwrap();
        self.loaded().await;
    }

    /// Goes back to the previous page.
    pub async fn back(&self) {
        let left = self.loaded().await;
        self.page.back().await.unwrap();
        self.another_page(left, "going back").await;
    }

    /// Signs in with the operator's token.
    pub async fn sign_in(&self) {
        self.sign_in_with(OPERATOR).await;
    }

    /// Signs in with a password or a token.
    pub async fn sign_in_with(&self, secret: &str) {
        self.goto("/login").await;
        self.fill("#secret", secret).await;
        self.press("Sign in").await;
        self.find("header.top").await;
    }

    /// Waits until there is an element.
    pub async fn find(&self, css: &str) {
        self.step(Locator::Css(css), async |_| Ok(())).await;
    }

    /// Whether the page, which has loaded, has such an element now.
    pub async fn has(&self, css: &str) -> bool {
        self.loaded().await;
        !self.page.find_all(Locator::Css(css)).await.unwrap().is_empty()
    }

    /// The text of an element as a person sees it.
    pub async fn text(&self, css: &str) -> String {
        self.step(Locator::Css(css), async |element| element.text().await).await
    }

    /// The value of a field.
    pub async fn value(&self, css: &str) -> String {
        self.step(Locator::Css(css), async |element| element.prop("value").await).await.unwrap_or_default()
    }

    /// An attribute of an element, or an empty text if it has none of that name.
    pub async fn attribute(&self, css: &str, name: &str) -> String {
        self.step(Locator::Css(css), async |element| element.attr(name).await).await.unwrap_or_default()
    }

    /// The HTML inside an element.
    pub async fn html(&self, css: &str) -> String {
        self.step(Locator::Css(css), async |element| element.html(true).await).await
    }

    /// Whether a person can see an element.
    pub async fn is_displayed(&self, css: &str) -> bool {
        self.step(Locator::Css(css), async |element| element.is_displayed().await).await
    }

    /// Replaces what is in a field.
    pub async fn fill(&self, css: &str, text: &str) {
        self.step(Locator::Css(css), async |element| {
            element.clear().await?;
            element.send_keys(text).await
        })
        .await;
    }

    /// Clicks on something that stays on the page, such as a checkbox.
    pub async fn click(&self, css: &str) {
        if let Some(error) = self.click_once(Locator::Css(css)).await {
            panic!("{css}: {error}");
        }
    }

    /// Presses the button or link with this text, and waits for the page that it leads to.
    pub async fn press(&self, text: &str) {
        let path = format!(
            "//main//*[self::button or self::a][normalize-space()='{text}'] \
             | //*[self::header or @id='pause']//button[normalize-space()='{text}']"
        );
        self.follow(Locator::XPath(&path)).await;
    }

    /// Presses the kill switch of the agent whose page this is, and waits for the page that it leads to.
    pub async fn press_switch(&self) {
        self.follow(Locator::Css("button[role=switch]")).await;
    }

    /// The path of the page's address.
    pub async fn path(&self) -> String {
        self.loaded().await;
        self.page.current_url().await.unwrap().path().to_owned()
    }

    /// Runs a script in the page and returns its result.
    pub async fn js(&self, script: &str) -> Value {
        self.page.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until the text of an element contains this.
    pub async fn until(&self, css: &str, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let found = self.text(css).await;
            if found.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{css} never said {text:?}, but {found:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Finds an element and acts on it, again and again until that succeeds.
    async fn step<T>(&self, place: Locator<'_>, act: impl AsyncFn(Element) -> Result<T, CmdError>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let attempt = match self.page.find(place).await {
                Ok(element) => act(element).await,
                Err(error) => Err(error),
            };
            match attempt {
                Ok(done) => return done,
                Err(error) => assert!(Instant::now() < deadline, "{place:?}: {error}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Clicks on an element exactly once. Returns the driver's error if it came too late to tell whether the click had
    /// an effect; trying again might then act twice.
    async fn click_once(&self, place: Locator<'_>) -> Option<CmdError> {
        self.step(place, async |element| match element.click().await {
            Ok(()) => Ok(None),
            Err(error) if is_without_effect(&error) => Err(error),
            Err(error) => Ok(Some(error)),
        })
        .await
    }

    async fn follow(&self, place: Locator<'_>) {
        let left = self.loaded().await;
        let error = self.click_once(place).await;
        self.another_page(left, &format!("{place:?} ({error:?})")).await;
    }

    /// Waits until the page has loaded. Returns when it was begun, which tells it from every other page.
    async fn loaded(&self) -> Value {
        self.another_page(Value::Null, "loading").await
    }

    /// Waits until another page than the one that begun at `left` has loaded, and returns when that was begun.
    async fn another_page(&self, left: Value, what: &str) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let state = self.page.execute("return [performance.timeOrigin, document.readyState]", Vec::new()).await;
            match &state {
                Ok(state) if state[0] != left && state[1] == json!("complete") => return state[0].clone(),
                _ => assert!(Instant::now() < deadline, "no page has loaded after {what}: {state:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether a click failed before anything was clicked on.
fn is_without_effect(error: &CmdError) -> bool {
    error.is_element_not_interactable()
        || error.is_no_such_element()
        || error.is_stale_element_reference()
        || matches!(error, CmdError::Standard(error) if error.error == ErrorStatus::ElementClickIntercepted)
}
