//! Text from outside, made safe to show to people.
//!
//! Clients choose the names of tools and the ids of conversations. A line break in one of them would begin a new line in a
//! log, a control sequence could clear a terminal, and a bidirectional override could show the text that follows in another
//! order. Every output for people passes such text through [`printable`]: Envoy's log here, and the log, the command line,
//! mail and Slack in the sidecar. JSON needs none of this, because its own escapes keep the text intact.

/// Replaces every character that could break out of a line or change how other text is shown by `U+FFFD`.
#[inline(never)] // compiled once
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        shown.push(if is_printable(character) { character } else { char::REPLACEMENT_CHARACTER });
    }
    shown
}

/// Returns whether a character is neither a control character, nor a line separator, nor a bidirectional override.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_forge_a_line_or_move_the_cursor_is_replaced() {
        let cases = [
            ("a\nb\r\nc", "a\u{FFFD}b\u{FFFD}\u{FFFD}c"),
            ("\u{1b}[2J", "\u{FFFD}[2J"),
            ("\u{0}\u{7f}\u{85}\u{9b}31m\t", "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}31m\u{FFFD}"),
            ("a\u{2028}b\u{2029}", "a\u{FFFD}b\u{FFFD}"),
            ("gnp.\u{202E}exe\u{2066}", "gnp.\u{FFFD}exe\u{FFFD}"),
            ("读取 файл, שלום “ok” 👩‍💻", "读取 файл, שלום “ok” 👩‍💻"),
        ];
        for (text, expected) in cases {
            assert_eq!(printable(text), expected, "{text:?}");
        }
    }
}
