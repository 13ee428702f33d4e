//! Alerts by email. The SMTP server is configured by the operator, so it may have a private address.

use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::response::Code;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};

use super::message::Message;
use super::send::SendOutcome;
use crate::http_client::install_tls_provider;

const TIMEOUT: Duration = Duration::from_secs(20);
/// More recipients than this belong on a mailing list.
const MAX_RECIPIENTS: usize = 20;

/// Why mail cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum SmtpError {
    /// The URL cannot be understood. It may hold a password, so the message does not repeat it.
    #[error("smtp-url must look like smtps://user:password@host or smtp://host:25")]
    Url,
    /// The sender is not a mail address.
    #[error("smtp-from ({0}) must be a mail address")]
    From(String),
}

/// Sends mail.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Creates a mailer that sends through the server at `url`, with `from` as the sender.
    pub fn new(url: &str, from: &str) -> Result<Self, SmtpError> {
        install_tls_provider();
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url).map_err(|_| SmtpError::Url)?;
        let from = from.parse().map_err(|_| SmtpError::From(from.to_owned()))?;
        Ok(Self { transport: builder.timeout(Some(TIMEOUT)).build(), from })
    }

    /// Makes one attempt. Every attempt of a delivery has the same message id, so that mail programs recognise duplicates.
    pub(super) async fn send(&self, to: &str, delivery_id: &str, message: Message) -> SendOutcome {
        let mail = match self.mail(to, delivery_id, &message) {
            Ok(mail) => mail,
            Err(error) => return SendOutcome::failed(None, error),
        };
        match self.transport.send(mail).await {
            Ok(response) => SendOutcome::Accepted(number(response.code())),
            Err(error) => SendOutcome::failed(error.status().map(number), error.to_string()),
        }
    }

    fn mail(&self, to: &str, delivery_id: &str, message: &Message) -> Result<Mail, String> {
        let mut builder = Mail::builder()
            .from(self.from.clone())
            .subject(&message.subject)
            .message_id(Some(format!("<{delivery_id}@kill-switch>")))
            .header(ContentType::TEXT_PLAIN);
        for recipient in recipients(to)? {
            builder = builder.to(recipient);
        }
        builder.body(message.lines().join("\r\n") + "\r\n").map_err(|error| error.to_string())
    }
}

fn number(code: Code) -> u32 {
    u16::from(code).into()
}

/// Reads a list of mail addresses, separated by commas.
pub(super) fn recipients(to: &str) -> Result<Mailboxes, String> {
    let refused = || format!("target must be 1 to {MAX_RECIPIENTS} mail addresses, separated by commas");
    let found: Mailboxes = to.parse().map_err(|_| refused())?;
    let count = found.iter().count();
    if (1..=MAX_RECIPIENTS).contains(&count) { Ok(found) } else { Err(refused()) }
}
