//! The tokens that an answer says it took, and the model that it names.
//!
//! APIs differ in the names, and in what their counts include: some state cached or reasoning tokens as a part of the
//! whole, others beside it. Each API lists the members that add up to the whole, so that nothing is counted twice.
//!
//! The counts of a stream are those of the answer so far, and some events state only a part of them, so the highest count
//! is kept. Nothing here can make an answer unreadable: what cannot be read is not counted.

use super::PartialAnswer;
use crate::decode::json::Json;
use crate::headers::parse_number;
use crate::wire::{ModelUsage, Usage};

/// How many bytes of a model's name are kept.
const MAX_MODEL_BYTES: usize = 64;

/// The members that add up to the tokens of the input and of the output.
pub struct Names {
    input: &'static [&'static str],
    output: &'static [&'static str],
}

/// OpenAI Chat Completions and Completions: cached and reasoning tokens are included.
pub const OPENAI: Names = Names { input: &["prompt_tokens"], output: &["completion_tokens"] };
/// OpenAI Responses, where they are included as well, and Cohere.
pub const RESPONSES: Names = Names { input: &["input_tokens"], output: &["output_tokens"] };
/// Anthropic: what is read from the cache or written to it is not included.
pub const ANTHROPIC: Names = Names {
    input: &["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"],
    output: &["output_tokens"],
};
/// Gemini: cached tokens are included. Thoughts and the results of the provider's own tools are not.
pub const GEMINI: Names = Names {
    input: &["promptTokenCount", "toolUsePromptTokenCount"],
    output: &["candidatesTokenCount", "thoughtsTokenCount"],
};
/// Bedrock: what is read from the cache or written to it is not included.
pub const BEDROCK: Names =
    Names { input: &["inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"], output: &["outputTokens"] };

/// What an answer says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The tokens that it took. Zero if it does not say.
    pub usage: Usage,
    /// The name of the model, in printable ASCII. Empty if it does not say.
    pub model: String,
}

impl Stated {
    /// Returns what is reported of the answer, if it stated its tokens.
    pub fn report(self) -> Option<ModelUsage> {
        let Usage { input_tokens, output_tokens } = self.usage.stated()?;
        let (input_tokens, output_tokens) = (input_tokens.into(), output_tokens.into());
        Some(ModelUsage { model: self.model, calls: 1, input_tokens, output_tokens })
    }

    #[inline(never)] // compiled once
    fn set_model(&mut self, model: Json<'_>) {
        let Some(name) = model.string() else { return };
        for &byte in name.unescaped().iter().take(MAX_MODEL_BYTES) {
            self.model.push(if matches!(byte, b' '..=b'~') { char::from(byte) } else { '?' });
        }
    }

    #[inline(never)] // likewise
    fn set_usage(&mut self, usage: Json<'_>, names: &Names) {
        let (mut input, mut output) = (0u32, 0u32);
        for member in usage.members() {
            let Ok((name, value)) = member else { break };
            if names.input.iter().any(|known| name.is(known)) {
                input = input.saturating_add(tokens(value));
            } else if names.output.iter().any(|known| name.is(known)) {
                output = output.saturating_add(tokens(value));
            }
        }
        self.set(input, output);
    }

    fn set(&mut self, input: u32, output: u32) {
        let Usage { input_tokens, output_tokens } = self.usage;
        self.usage = Usage { input_tokens: input_tokens.max(input), output_tokens: output_tokens.max(output) };
    }
}

impl PartialAnswer {
    /// Reads the name of the model, if it is given and not known yet.
    #[inline(always)] // most events of a stream tell nothing new
    pub(super) fn state_model(&mut self, model: Option<Json<'_>>) {
        if let Some(model) = model
            && self.stated.model.is_empty()
        {
            self.stated.set_model(model);
        }
    }

    /// Reads the tokens, if they are given. Before the end, some APIs give null instead.
    #[inline(always)] // likewise
    pub(super) fn state_usage(&mut self, usage: Option<Json<'_>>, names: &Names) {
        if let Some(usage) = usage
            && usage.is_object()
        {
            self.stated.set_usage(usage, names);
        }
    }

    /// Reads the tokens from members of their own.
    pub(super) fn state_counts(&mut self, input: Option<Json<'_>>, output: Option<Json<'_>>) {
        if input.is_some() || output.is_some() {
            self.stated.set(input.map_or(0, tokens), output.map_or(0, tokens));
        }
    }
}

/// Returns a whole number, or 0. Some APIs write it with a decimal point.
fn tokens(value: Json<'_>) -> u32 {
    let text = value.text();
    let whole = text.split(|byte| *byte == b'.').next().unwrap_or(text);
    parse_number(whole).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
