//! Alerts by mail. The SMTP server is the operator's own choice, so no guard stands before it.

use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::response::Code;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};

use super::message::Message;
use super::send::Answer;

const TIMEOUT: Duration = Duration::from_secs(20);
/// More recipients than this belong on a mailing list.
const MAX_RECIPIENTS: usize = 20;

/// Why mail cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum SmtpError {
    /// The URL cannot be understood. It may hold a password, so it is not repeated here.
    #[error("smtp-url must look like smtps://user:password@host or smtp://host:25")]
    Url,
    /// The sender is no address.
    #[error("smtp-from ({0}) must be a mail address")]
    From(String),
}

/// Sends mail.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Sends through the server at `url` as `from`.
    pub fn new(url: &str, from: &str) -> Result<Self, SmtpError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url).map_err(|_| SmtpError::Url)?;
        let from = from.parse().map_err(|_| SmtpError::From(from.to_owned()))?;
        Ok(Self { transport: builder.timeout(Some(TIMEOUT)).build(), from })
    }

    /// Tries once. The message id is that of the delivery, so that a second try threads and deduplicates.
    pub(super) async fn send(&self, to: &str, delivery_id: &str, message: Message) -> Answer {
        let mail = match self.mail(to, delivery_id, &message) {
            Ok(mail) => mail,
            Err(error) => return Answer::failed(None, error),
        };
        match self.transport.send(mail).await {
            Ok(response) => Answer::Taken(number(response.code())),
            Err(error) => Answer::failed(error.status().map(number), error.to_string()),
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
        builder.body(message.lines.join("\r\n") + "\r\n").map_err(|error| error.to_string())
    }
}

fn number(code: Code) -> u32 {
    u16::from(code).into()
}

/// Reads addresses with commas between them.
pub(super) fn recipients(to: &str) -> Result<Mailboxes, String> {
    let refused = || format!("target must be 1 to {MAX_RECIPIENTS} mail addresses with commas between them");
    let found: Mailboxes = to.parse().map_err(|_| refused())?;
    let count = found.iter().count();
    if (1..=MAX_RECIPIENTS).contains(&count) { Ok(found) } else { Err(refused()) }
}
