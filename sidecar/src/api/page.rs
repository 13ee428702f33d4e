//! Listings in pages.

/// Cuts `rows`, which were read with `limit + 1`, to one page.
///
/// The extra row only shows that another page follows. If it does, the cursor of the last row on this page is returned
/// as well: that is where the next page begins.
pub(crate) fn cut<T>(mut rows: Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(cursor);
    (rows, next)
}
