//! Files to lines: plain or gzip, told apart by how they begin; `-` is standard input.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

/// How much is read at once.
const BLOCK: usize = 128 << 10;
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// A file to read lines from, opened.
pub struct Input {
    /// What it is called in messages.
    pub name: String,
    /// How long it is on disk; nothing where that is not known.
    pub length: Option<u64>,
    /// How much of that has been read.
    pub read: Rc<Cell<u64>>,
    lines: Box<dyn BufRead>,
    number: usize,
}

impl Input {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::of("standard input".to_owned(), None, io::stdin());
        }
        let file = File::open(path)?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        Self::of(path.display().to_string(), length, file)
    }

    fn of(name: String, length: Option<u64>, from: impl Read + 'static) -> io::Result<Self> {
        let read = Rc::new(Cell::new(0));
        let mut raw = BufReader::with_capacity(BLOCK, Counted { from, read: Rc::clone(&read) });
        let lines: Box<dyn BufRead> = match raw.fill_buf()?.starts_with(&GZIP) {
            true => Box::new(BufReader::with_capacity(BLOCK, MultiGzDecoder::new(raw))),
            false => Box::new(raw),
        };
        Ok(Self { name, length, read, lines, number: 0 })
    }

    /// The next line and its number, from 1. The line is kept in `buffer`.
    pub fn next_line(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        buffer.clear();
        if self.lines.read_until(b'\n', buffer)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(self.number))
    }
}

/// The whole of a small file, or of standard input.
pub fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Input::open(path)?.lines.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens all of them, or says which one cannot be opened.
pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Input>, (PathBuf, io::Error)> {
    paths.iter().map(|path| Input::open(path).map_err(|error| (path.clone(), error))).collect()
}

/// Counts what is read.
struct Counted<R> {
    from: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}
