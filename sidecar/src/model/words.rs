//! The words that stand for the values of an enum in JSON and in the database.

/// Implements `ALL`, `as_str` and `parse` for an enum whose values each have a word.
macro_rules! words {
    ($name:ident { $($value:ident => $word:literal),* $(,)? }) => {
        impl $name {
            /// Every value.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];

            /// Returns the word that stands for this value in JSON and in the database.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word),*
                }
            }

            /// Returns the value that a word stands for.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == word)
            }
        }
    };
}

pub(super) use words;
