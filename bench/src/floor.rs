//! Copy and touch: copies the body once and reads a byte of each cache line. Every pipeline that is given a copy of the body
//! costs at least this.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Replaces `copy` by the body, and reads it.
pub fn copy_and_touch(body: &[u8], copy: &mut Vec<u8>) -> u64 {
    copy.clear();
    copy.extend_from_slice(body);
    // The copy is what is measured, and must not be optimised away.
    let copy = std::hint::black_box(copy.as_slice());
    copy.iter().step_by(LINE).fold(0, |sum: u64, byte| sum.wrapping_add(u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_touched() {
        let mut copy = Vec::new();
        assert_eq!(copy_and_touch(&[1; 640], &mut copy), 10);
        assert_eq!(copy, [1; 640]);
    }
}
