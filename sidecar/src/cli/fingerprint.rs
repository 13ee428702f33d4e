//! `kill-switch fingerprint`: a text as the detector sees it. Asks no server.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use agent_kill_switch::fingerprint::display::normalised_with;
use agent_kill_switch::fingerprint::patterns::Pattern;
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use clap::Args;
use serde_json::{Value, json};

use super::CliError;
use super::output::{inert, print, print_json};
use super::replay::load_config;
use crate::replay::input::read_all;

#[derive(Args, Debug)]
pub(super) struct FingerprintOptions {
    /// File that holds the text; - is standard input
    file: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

/// How texts are read and shown.
#[derive(Args, Debug)]
pub(super) struct Reading {
    /// The filter's configuration, for its patterns
    #[arg(long, value_name = "FILE")]
    filter_config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A text and what is kept of it.
pub(super) struct Seen {
    pub(super) normalised: String,
    pub(super) fingerprint: Fingerprint,
}

impl FingerprintOptions {
    pub(super) fn run(self) -> Result<(), CliError> {
        let seen = Seen::read(&self.file, &self.reading.patterns()?)?;
        if self.reading.json {
            return print_json(&seen.json());
        }
        let Seen { normalised, fingerprint } = &seen;
        let normalised = inert(normalised);
        let enough = if fingerprint.informative { "yes" } else { "no: too few distinct words to identify anything" };
        print(&format!(
            "normalised   {normalised}\nhash         {:016x}\ndigest       {:08x}\ninformative  {enough}\n",
            fingerprint.simhash.0, fingerprint.digest
        ))
    }
}

impl Reading {
    pub(super) fn patterns(&self) -> Result<Rc<[Pattern]>, CliError> {
        match &self.filter_config {
            Some(path) => Ok(load_config(path)?.patterns),
            None => Ok(Rc::new([])),
        }
    }
}

impl Seen {
    pub(super) fn read(path: &Path, patterns: &Rc<[Pattern]>) -> Result<Self, CliError> {
        let text =
            read_all(path).map_err(|error| CliError::File { path: path.to_owned(), reason: error.to_string() })?;
        let mut fingerprinter = Fingerprinter::with_patterns(Rc::clone(patterns));
        fingerprinter.push(&text);
        Ok(Self { normalised: normalised_with(&text, patterns), fingerprint: fingerprinter.finish() })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "normalised": self.normalised,
            "hash": format!("{:016x}", self.fingerprint.simhash.0),
            "digest": format!("{:08x}", self.fingerprint.digest),
            "informative": self.fingerprint.informative,
        })
    }
}
