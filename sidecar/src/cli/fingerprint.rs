//! `kill-switch fingerprint`: shows a text as the detector sees it. Needs no server.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use agent_kill_switch::fingerprint::display::normalised_with;
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use agent_kill_switch::printable::printable;
use clap::Args;
use serde_json::{Value, json};

use super::CliError;
use super::output::{print, print_json};
use super::replay::load_filter_config;
use crate::replay::detector::Pattern;
use crate::replay::input::read_all;

#[derive(Args, Debug)]
pub(super) struct FingerprintOptions {
    /// File that holds the text; - is standard input
    file: PathBuf,
    #[command(flatten)]
    options: TextOptions,
}

/// How texts are read and shown.
#[derive(Args, Debug)]
pub(super) struct TextOptions {
    /// The filter's configuration, for its patterns
    #[arg(long, value_name = "FILE")]
    filter_config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A text after normalisation, with its fingerprint.
pub(super) struct FingerprintedText {
    pub(super) normalised: String,
    pub(super) fingerprint: Fingerprint,
}

impl FingerprintOptions {
    pub(super) fn run(self) -> Result<(), CliError> {
        let text = FingerprintedText::read(&self.file, &self.options.patterns()?)?;
        if self.options.json {
            return print_json(&text.json());
        }
        let is_informative = text.fingerprint.informative;
        print(&format!(
            "normalised   {}\nhash         {}\ndigest       {}\ninformative  {}\n",
            printable(&text.normalised),
            text.hash(),
            text.digest(),
            if is_informative { "yes" } else { "no: too few distinct words to identify anything" },
        ))
    }
}

impl TextOptions {
    pub(super) fn patterns(&self) -> Result<Rc<[Pattern]>, CliError> {
        match &self.filter_config {
            Some(path) => Ok(load_filter_config(path)?.patterns),
            None => Ok(Rc::new([])),
        }
    }
}

impl FingerprintedText {
    pub(super) fn read(path: &Path, patterns: &Rc<[Pattern]>) -> Result<Self, CliError> {
        let text = read_all(path).map_err(|error| CliError::file(path, error))?;
        let mut fingerprinter = Fingerprinter::with_patterns(Rc::clone(patterns));
        fingerprinter.push(&text);
        Ok(Self { normalised: normalised_with(&text, patterns), fingerprint: fingerprinter.finish() })
    }

    pub(super) fn hash(&self) -> String {
        format!("{:016x}", self.fingerprint.simhash.0)
    }

    pub(super) fn digest(&self) -> String {
        format!("{:08x}", self.fingerprint.digest)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "normalised": self.normalised,
            "hash": self.hash(),
            "digest": self.digest(),
            "informative": self.fingerprint.informative,
        })
    }
}
