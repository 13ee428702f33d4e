//! The frame around every page: head, navigation and live indicator.

use maud::{DOCTYPE, Markup, html};

use super::pause::banner;
use super::visitor::Visitor;

/// A page of the dashboard.
pub(super) struct Page<'a> {
    pub title: &'a str,
    /// The address of the navigation entry that is marked as current.
    pub here: &'a str,
    pub visitor: &'a Visitor,
}

const NAVIGATION: [(&str, &str); 5] =
    [("/", "Overview"), ("/agents", "Agents"), ("/alerts", "Alerts"), ("/events", "Events"), ("/envoys", "Envoys")];

impl Page<'_> {
    /// Returns the page with this content.
    pub(super) fn with(&self, content: Markup) -> Markup {
        document(
            self.title,
            true,
            html! {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    div.wrap {
                        a.brand href="/" { img src="/favicon.ico" alt="" width="22" height="22"; "Kill Switch" }
                        nav aria-label="Main" {
                            @for (href, name) in NAVIGATION {
                                a href=(href) aria-current=[(href == self.here).then_some("page")] { (name) }
                            }
                        }
                        span #live .live data-state="off" {
                            span.dot aria-hidden="true" {}
                            span #live-text role="status" { noscript { "Reload for news" } }
                        }
                        form.inline method="post" action="/logout" {
                            (form_key(self.visitor))
                            span.who { (self.visitor.who.name) @if !self.visitor.who.may_change() { " (read only)" } }
                            @if self.visitor.cookie.is_some() { button.quiet type="submit" { "Sign out" } }
                        }
                    }
                }
                p #lost .lost role="alert" hidden {}
                div #pause data-live { (banner(self.visitor)) }
                main #main .wrap { (content) }
                p #announce .sr role="status" {}
            },
        )
    }
}

/// Returns a page without navigation, for visitors who are not signed in and for errors.
pub(super) fn bare(title: &str, content: Markup) -> Markup {
    document(title, false, html! { main #main .narrow { (content) } })
}

fn document(title: &str, is_live: bool, body: Markup) -> Markup {
    let version = concat!("?v=", env!("CARGO_PKG_VERSION"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Kill Switch" }
                link rel="icon" href="/favicon.ico" type="image/svg+xml";
                link rel="stylesheet" href={ "/assets/app.css" (version) };
                @if is_live {
                    script src={ "/assets/app.js" (version) } defer {}
                }
            }
            body { (body) }
        }
    }
}

/// Returns the hidden field that every form carries to prove that it comes from this dashboard.
pub(super) fn form_key(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="form_key" value=(visitor.form_key); }
}
