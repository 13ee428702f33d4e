//! Gemini `generateContent` and `streamGenerateContent`: every document of a stream has the shape of a whole answer.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};

/// Reads an answer, or a part of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let Some(candidates) = document.get("candidates")? else { return Ok(()) };
    match candidates.elements().next().transpose()? {
        Some(candidate) => match get2(candidate, "content", "parts")? {
            Some(parts) => sheet.say_content(parts),
            None => Ok(()),
        },
        None => Ok(()),
    }
}
