//! The terminal while `kill-switch top` runs: the alternate screen, without a cursor, with every key passed on at once.

use std::io::{Result, Write as _, stdout};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::view::View;

/// The screen. When it is dropped, however the command ends, the terminal is as it was before.
pub(super) struct Screen(());

impl Screen {
    pub(super) fn open() -> Result<Self> {
        enable_raw_mode()?;
        // From here on, dropping it restores the terminal, also if the next step fails.
        let screen = Self(());
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws the view over what was there, so that nothing flickers.
    pub(super) fn draw(&self, view: &View) -> Result<()> {
        let (width, height) = size()?;
        let mut out = stdout().lock();
        for (number, line) in (0..height).zip(view.lines(width.into(), height.into())) {
            queue!(out, MoveTo(0, number))?;
            if line.is_selected {
                queue!(out, SetAttribute(Attribute::Reverse))?;
            }
            queue!(out, Print(line.text), SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done if the terminal is gone.
        let _ = execute!(stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
