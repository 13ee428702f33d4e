//! Runs the fuzz targets on a stable toolchain: mutates the seeds with a fixed sequence of random numbers for some seconds.
//!
//! It is not guided by coverage, so it finds less than libFuzzer, but every run tries the same inputs. Options:
//! `--seconds N` for each target (5), `--target NAME` (all), `--seed N` (1), `--replay FILE`, `--write-corpus`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fastrand::Rng;
use fuzz_bodies::{TARGETS, Target, seeds};

fn main() -> ExitCode {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| options.iter().skip_while(|option| *option != name).nth(1);
    let number = |name: &str, default| option(name).map_or(Ok(default), |text| text.parse::<u64>());
    let (Ok(seconds), Ok(seed)) = (number("--seconds", 5), number("--seed", 1)) else {
        eprintln!("--seconds and --seed take a whole number");
        return ExitCode::from(2);
    };
    let chosen = option("--target");
    let targets: Vec<_> = TARGETS.into_iter().filter(|(name, _)| chosen.is_none_or(|chosen| chosen == name)).collect();
    if targets.is_empty() {
        eprintln!("--target must be one of {}", TARGETS.map(|(name, _)| name).join(", "));
        return ExitCode::from(2);
    }
    let result = match (option("--replay"), options.iter().any(|option| option == "--write-corpus")) {
        (Some(file), _) => replay(&targets, Path::new(file)),
        (None, true) => targets.iter().try_for_each(|(name, _)| write_corpus(name)).map_err(|error| error.to_string()),
        (None, false) => targets.iter().try_for_each(|target| run(*target, Duration::from_secs(seconds), seed)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn replay(targets: &[Target], file: &Path) -> Result<(), String> {
    let input = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    targets.iter().for_each(|(_, body)| body(&input));
    Ok(())
}

/// Writes the seeds to the folder in which libFuzzer looks for them.
fn write_corpus(name: &str) -> std::io::Result<()> {
    let folder = folder("corpus", name);
    std::fs::create_dir_all(&folder)?;
    for (index, seed) in seeds(name).iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{index:03}")), seed)?;
    }
    Ok(())
}

fn folder(kind: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(name)
}

fn run((name, body): Target, time: Duration, seed: u64) -> Result<(), String> {
    let corpus = seeds(name);
    let mut random = Rng::with_seed(seed);
    let start = Instant::now();
    let mut runs = 0u64;
    for input in &corpus {
        check(name, body, input)?;
    }
    while start.elapsed() < time {
        for _ in 0..64 {
            check(name, body, &mutate(&corpus, &mut random))?;
            runs += 1;
        }
    }
    println!("{name}: {runs} inputs from {} seeds, no failure", corpus.len());
    Ok(())
}

fn check(name: &str, body: fn(&[u8]), input: &[u8]) -> Result<(), String> {
    if std::panic::catch_unwind(|| body(input)).is_ok() {
        return Ok(());
    }
    let folder = folder("artifacts", name);
    let file = folder.join("smoke-failure");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, input));
    written.map_err(|error| format!("{name} failed, and its input could not be written: {error}"))?;
    Err(format!("{name} failed; repeat it with --target {name} --replay {}", file.display()))
}

/// Bytes and words that have a meaning to the code under test.
#[rustfmt::skip]
const TOKENS: [&[u8]; 20] = [
    b"\"", b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\\u", b"\\ud800", b"\n\n", b"\r\n", b"data: ", b"null", b"0", b"-",
    b"\xEF\xBB\xBF", b"\xF0\x9F", b"\xFF\xFF\xFF\xFF", b"\0\0\0\x10",
];

fn mutate(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..=random.usize(..4) {
        let at = random.usize(..=input.len());
        let end = (at + random.usize(..64)).min(input.len());
        let token = TOKENS[random.usize(..TOKENS.len())].iter().copied();
        match random.u8(..8) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => drop(input.splice(at..at, token)),
            3 => drop(input.splice(at..end, token)),
            4 => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                drop(input.splice(at.., other[from..].iter().copied()));
            }
            5 => {
                let copy = input[at..end].repeat(random.usize(1..9));
                drop(input.splice(at..at, copy));
            }
            6 => {
                let choices = input.len().min(3);
                input[..choices].iter_mut().for_each(|byte| *byte = random.u8(..));
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.u8(..8);
                }
            }
        }
    }
    input
}
