//! A progress bar on standard error: for input that takes a while, and only where a person looks at it.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Shorter work is done before a bar could be read.
const APPEARS_AFTER: Duration = Duration::from_millis(500);
const PERIOD: Duration = Duration::from_millis(100);
const WIDTH: usize = 30;

/// How far the work is.
pub(super) struct Bar {
    total: Option<u64>,
    /// When it is drawn next; never where nobody looks.
    next: Option<Instant>,
    drawn: bool,
}

impl Bar {
    /// A bar for so many bytes; where nobody knows how many, it only counts.
    pub(super) fn new(total: Option<u64>) -> Self {
        let next = std::io::stderr().is_terminal().then(|| Instant::now() + APPEARS_AFTER);
        Self { total, next, drawn: false }
    }

    /// A bar for work that prints as it goes: none where both would meet on one screen.
    pub(super) fn beside_output(total: Option<u64>) -> Self {
        let bar = Self::new(total);
        if std::io::stdout().is_terminal() { Self { next: None, ..bar } } else { bar }
    }

    /// Draws it, if it is time.
    pub(super) fn show(&mut self, bytes: u64, calls: usize) {
        if self.next.is_some_and(|next| Instant::now() >= next) {
            self.next = Some(Instant::now() + PERIOD);
            self.drawn = true;
            put(&format!("\r{}\x1b[K", line(bytes, self.total, calls)));
        }
    }

    /// Makes room for other output.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            put("\r\x1b[K");
        }
    }
}

fn put(text: &str) {
    let mut err = std::io::stderr().lock();
    // A bar that cannot be drawn is no reason to stop.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn line(bytes: u64, total: Option<u64>, calls: usize) -> String {
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{calls} calls");
    };
    let done = (bytes.min(total) as f64) / (total as f64);
    let full = (done * WIDTH as f64) as usize;
    format!("[{}{}] {:3.0} %  {calls} calls", "=".repeat(full), " ".repeat(WIDTH - full), done * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_with_the_bytes_and_without_a_total_counts() {
        assert_eq!(line(50, Some(100), 7), format!("[{}{}]  50 %  7 calls", "=".repeat(15), " ".repeat(15)));
        assert_eq!(line(200, Some(100), 7), format!("[{}] 100 %  7 calls", "=".repeat(30)));
        assert_eq!(line(5, None, 7), "7 calls");
        assert_eq!(line(0, Some(0), 0), "0 calls");
    }
}
