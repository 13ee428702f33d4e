//! Reads lines from files, plain or gzip, which are told apart by their first bytes. The path `-` is standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;

const BUFFER_BYTES: usize = 128 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// An open file.
pub struct Input {
    /// What messages call it.
    pub name: String,
    /// Its length on disk, if that is known.
    pub length: Option<u64>,
    reader: Box<dyn BufRead>,
    line_number: usize,
}

impl Input {
    /// Opens a file. The bytes that are read of it, as they are on disk, advance `progress`.
    pub fn open(path: &Path, progress: &ProgressBar) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::new("standard input".to_owned(), None, progress.wrap_read(io::stdin()));
        }
        let file = File::open(path)?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        Self::new(path.display().to_string(), length, progress.wrap_read(file))
    }

    fn new(name: String, length: Option<u64>, from: impl Read + 'static) -> io::Result<Self> {
        let mut raw = BufReader::with_capacity(BUFFER_BYTES, from);
        let reader: Box<dyn BufRead> = if raw.fill_buf()?.starts_with(&GZIP_MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Self { name, length, reader, line_number: 0 })
    }

    /// Reads the next line into `buffer`. Returns its number, from 1, or `None` at the end of the file.
    pub fn next_line(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        buffer.clear();
        if self.reader.read_until(b'\n', buffer)? == 0 {
            return Ok(None);
        }
        self.line_number += 1;
        Ok(Some(self.line_number))
    }
}

/// Reads the whole of a small file, or of standard input.
pub fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Input::open(path, &ProgressBar::hidden())?.reader.read_to_end(&mut bytes)?;
    Ok(bytes)
}
