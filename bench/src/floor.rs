//! Copy and touch: the body copied once and a byte of each cache line read. What a pipeline that is given a copy of the
//! body costs before it does anything.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Copies the body to the beginning of `copy`, and reads it there.
pub fn copy_and_touch(body: &[u8], copy: &mut Vec<u8>) -> u64 {
    copy.clear();
    copy.extend_from_slice(body);
    // Not to be optimised away: the copy is what is measured.
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
