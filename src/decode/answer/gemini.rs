//! Gemini `generateContent` and `streamGenerateContent`: every document of a stream has the shape of a whole answer.

use super::{Sheet, get2};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or a part of one. Of several candidates the first is read.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [candidates, error] = document.pick(["candidates", "error"])?;
    sheet.fail_on(error);
    match candidates.and_then(|candidates| candidates.elements().next()).transpose()? {
        Some(candidate) => match get2(candidate, "content", "parts")? {
            Some(parts) => sheet.say_content(parts),
            None => Ok(()),
        },
        None => Ok(()),
    }
}
