//! The words that stand for the values of an enum in JSON and in the database.

/// Defines an enum whose values each have a word, with `ALL`, `as_str` and `parse`.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$meaning:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$meaning])* #[serde(rename = $word)] $value,)*
        }

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

#[cfg(test)]
mod tests {
    use agent_kill_switch::wire::{self, Action, AnswerLoop, Counting, DeactivatedBy};
    use serde_json::json;

    use crate::model::{Channel, DeliveryStatus, EventType, KillOutcome, NoticeKind, PauseCause, RemedyKind, Scope};

    #[test]
    fn words_are_the_names_in_json_and_parse_to_their_value() {
        macro_rules! check {
            ($($name:ident),*) => {
                $(for value in $name::ALL {
                    assert_eq!(json!(value), value.as_str());
                    assert_eq!($name::parse(value.as_str()), Some(value));
                })*
            };
        }
        check!(Channel, DeliveryStatus, EventType, KillOutcome, NoticeKind, PauseCause, RemedyKind, Scope);
        for action in [Action::Deactivate, Action::Block, Action::Observe] {
            assert_eq!((json!(action), action.as_str().parse()), (json!(action.as_str()), Ok(action)));
        }
        for counting in [Counting::Literal, Counting::Progress] {
            assert_eq!((json!(counting), counting.as_str().parse()), (json!(counting.as_str()), Ok(counting)));
        }
        for scope in [wire::Scope::Agent, wire::Scope::Session] {
            assert_eq!((json!(scope), scope.as_str().parse()), (json!(scope.as_str()), Ok(scope)));
        }
        for mode in [AnswerLoop::Off, AnswerLoop::Observe, AnswerLoop::Cut] {
            assert_eq!((json!(mode), mode.as_str().parse()), (json!(mode.as_str()), Ok(mode)));
        }
        for by in [DeactivatedBy::KillSwitch, DeactivatedBy::Manual] {
            assert_eq!((json!(by), by.as_str().parse()), (json!(by.as_str()), Ok(by)));
        }
    }
}
