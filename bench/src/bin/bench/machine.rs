//! Describes the machine on which the figures were measured.

use std::fs;
use std::process::Command;

pub fn describe() -> Vec<(&'static str, String)> {
    vec![
        ("CPU", format!("{}, {} cores", cpu(), std::thread::available_parallelism().map_or(1, usize::from))),
        ("memory", memory()),
        ("kernel", first_line("uname", &["-sr"])),
        ("Envoy", envoy()),
        ("Node", first_line("node", &["--version"])),
        ("rustc", first_line("rustc", &["--version"])),
    ]
}

fn cpu() -> String {
    field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory() -> String {
    let kilobytes = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    kilobytes.map_or_else(|| "unknown".to_owned(), |kilobytes| format!("{:.0} GB", kilobytes / 1024.0 / 1024.0))
}

/// Returns the version in `envoy  version: REVISION/1.40.0/Clean/RELEASE/BoringSSL`.
fn envoy() -> String {
    let line = first_line(&lab::proc::envoy_binary().display().to_string(), &["--version"]);
    let version = line.split('/').find(|part| part.starts_with(|c: char| c.is_ascii_digit()) && part.contains('.'));
    version.unwrap_or("unknown").to_owned()
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("none").to_owned()
}
