//! Which parts of a long text are read.
//!
//! The first 100 KB or so are read in full. After that one block is read of every eight, then of every sixteen, and so
//! on, so that a megabyte costs little more than a hundred kilobytes. The end of the text is always read, since a question
//! usually stands after the document that it is about. A change in a part that is skipped is not noticed.
//!
//! Positions are counted in *steady* bytes, which no number, timestamp or UUID contains. If all bytes were counted, one
//! more digit near the start would move every block after it: that changed up to 5 bits between texts that differed only
//! in that number.

use crate::scan::lanes::at_least;

/// How many steady bytes are read in full: about 100 KB of English or code, 52 KB of Chinese, where every byte is steady.
const FULL_STEADY: usize = 104 * BLOCK_STEADY;
/// The size of the blocks that are read after that, in steady bytes.
const BLOCK_STEADY: usize = 512;
/// How many steady bytes at the end of a text are always read.
const TAIL_STEADY: usize = 512;
/// How many bytes are kept for the tail. They may contain fewer than [`TAIL_STEADY`] steady ones.
pub const TAIL_BYTES: usize = 4096;
/// The most bytes that are read, not counting the tail. Text that is all digits or capitals has no steady bytes.
pub const READ_BYTES_MAX: usize = 512 * 1024;

/// The lowest steady byte. Steady are the lower-case letters after `f` and all bytes beyond ASCII. Every byte of a text is
/// tested, so the test must be a single comparison.
const STEADY: u8 = b'g';

/// How many bytes are tested at once.
const GROUP: usize = 64;

/// Returns whether the text at a position is read, and for how many more steady bytes this holds.
pub fn stretch(position: usize) -> (bool, usize) {
    if position < FULL_STEADY {
        return (true, FULL_STEADY - position);
    }
    let stride = BLOCK_STEADY << (position / FULL_STEADY).ilog2().saturating_add(3);
    let within = (position - FULL_STEADY) & (stride - 1);
    if within < BLOCK_STEADY { (true, BLOCK_STEADY - within) } else { (false, stride - within) }
}

/// Returns how many bytes contain `wanted` steady ones, and `wanted`. If the bytes end before that, returns how many bytes
/// there are, and how many of them are steady.
pub fn advance(bytes: &[u8], wanted: usize) -> (usize, usize) {
    let (groups, rest) = bytes.as_chunks();
    let mut passed = 0;
    for (number, group) in groups.iter().enumerate() {
        let steady = at_least(group, STEADY);
        let count = steady.count_ones() as usize;
        if passed + count >= wanted {
            return (number * GROUP + len_through_nth(steady, wanted - passed), wanted);
        }
        passed += count;
    }
    let steady = steady_at_end(bytes, rest);
    let count = steady.count_ones() as usize;
    if passed + count >= wanted {
        return (bytes.len() - rest.len() + len_through_nth(steady, wanted - passed), wanted);
    }
    (bytes.len(), passed + count)
}

/// Returns the mask of the steady bytes in `rest`, the end of `bytes`, which is shorter than a group.
fn steady_at_end(bytes: &[u8], rest: &[u8]) -> u64 {
    let mut padded = [0; GROUP];
    match bytes.last_chunk() {
        _ if rest.is_empty() => 0,
        Some(group) => at_least(group, STEADY) >> (GROUP - rest.len()),
        None => {
            padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            at_least(&padded, STEADY)
        }
    }
}

/// Returns how many bytes there are up to and including the `nth` one of a mask, counted from 1.
fn len_through_nth(mut mask: u64, nth: usize) -> usize {
    for _ in 1..nth {
        mask &= mask.wrapping_sub(1);
    }
    mask.trailing_zeros() as usize + 1
}

/// Returns the part of the skipped bytes that is read as the tail of the text. It begins at a steady byte.
pub fn tail_of(skipped: &[u8]) -> &[u8] {
    let kept = last(skipped, TAIL_BYTES);
    let start = kept.iter().enumerate().rev().filter(|(_, byte)| is_steady(**byte)).nth(TAIL_STEADY - 1);
    kept.get(start.map_or(0, |(index, _)| index)..).unwrap_or_default()
}

/// Returns the last `count` bytes, or all if there are fewer.
pub fn last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or_default()
}

fn is_steady(byte: u8) -> bool {
    byte >= STEADY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advance_agrees_with_counting_steady_bytes_one_by_one() {
        let text = "The quick 2024-01-15T10:30:00Z brown FOX, 处理订单 42; jumps over the lazy dog. ".repeat(9);
        let bytes = text.as_bytes();
        let all = bytes.iter().filter(|byte| is_steady(**byte)).count();
        for wanted in 1..=all + 1 {
            let (len, passed) = advance(bytes, wanted);
            assert_eq!(bytes[..len].iter().filter(|byte| is_steady(**byte)).count(), passed);
            assert_eq!(passed, wanted.min(all));
            assert!(wanted > all || is_steady(bytes[len - 1]), "no further than the last steady byte that is wanted");
        }
    }
}
