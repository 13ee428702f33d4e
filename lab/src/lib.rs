//! The mock LLM and the agents that demo and tests share.
