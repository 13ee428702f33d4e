//! Wire formats: what every request and every answer decodes to.
//!
//! The fixtures tell one story in all formats (the same question, the same two tool calls, the same results, the same
//! answer), so that one table of expectations holds for all of them.

#[cfg(test)]
mod anthropic;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bedrock;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod every_format;
#[cfg(test)]
mod format;
#[cfg(test)]
mod gemini;
#[cfg(test)]
mod json_oracle;
#[cfg(test)]
mod ollama_and_cohere;
#[cfg(test)]
mod openai;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod rpc;
#[cfg(test)]
mod selection;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tools;
