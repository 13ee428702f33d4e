//! The parser against serde_json: the same texts are taken, as the same, and the others are refused in the same words.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn read(text: &str) -> Result<Json, String> {
    parse(text.as_bytes())
}

/// As serde_json has it: numbers as doubles, and of two members with one name the last.
fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Flag(flag) => flag.into(),
        Json::Number(number) => number.into(),
        Json::Text(text) => text.into(),
        Json::List(items) => items.into_iter().map(value_of).collect(),
        Json::Object(members) => members.into_iter().map(|(name, json)| (name, value_of(json))).collect(),
    }
}

/// What serde_json makes of a text, numbers as doubles.
fn oracle(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map(doubles).map_err(|error| error.to_string())
}

fn doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(doubles).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, doubles(value))).collect(),
        other => other,
    }
}

/// Whether both say the same. Out of range, serde_json stops somewhere within the number, so only where it is may differ;
/// and of the last bits of a number it is not sure: `number` has the tests against an oracle that is.
fn agree(ours: &Result<Value, String>, theirs: &Result<Value, String>) -> bool {
    const RANGE: &str = "number out of range";
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => near(ours, theirs),
        (Err(ours), Err(theirs)) => ours == theirs || (ours.starts_with(RANGE) && theirs.starts_with(RANGE)),
        _ => false,
    }
}

fn near(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => {
            let [ours, theirs] = [ours, theirs].map(|number| number.as_f64().unwrap());
            (ours - theirs).abs() <= ours.abs() * 1e-15
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| near(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let same =
                |(ours, theirs): ((&String, &Value), (&String, &Value))| ours.0 == theirs.0 && near(ours.1, theirs.1);
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(same)
        }
        _ => ours == theirs,
    }
}

#[test]
fn duplicate_keys_and_their_order_are_kept() {
    let expected = Json::Object(vec![
        ("b".into(), Json::Number(1.0)),
        ("a".into(), Json::List(vec![Json::Null, Json::Flag(true)])),
        ("b".into(), Json::Text("x".into())),
    ]);
    assert_eq!(read(r#"{"b": 1, "a": [null, true], "b": "x"}"#), Ok(expected));
}

#[test]
fn nesting_without_end_is_refused_and_does_not_overflow() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        assert!(read(&open.repeat(100_000)).unwrap_err().starts_with("recursion limit exceeded at line 1 column "));
        for depth in [126, 127, 128, 129] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(read(&text).map(value_of), oracle(text.as_bytes()), "{depth} of {open}");
        }
    }
}

/// Texts with a bar between them.
const TEXTS: &str = r#"
x|[|[1|[1,|[1,]|[,|[1 2]|[1}|]|{|{}}|{1|{,|{"a"|{"a" 1|{"a":|{"a":}|{"a":1|{"a":1 2|{"a":1,|{"a":1,}|{"a":1,2|{"a":1]
n|nul|nulL|tru|true1|falsy|// x|'a'|NaN
"|"a|"\|"\x"|"\u12"|"\u12G4"|"\u"|"\u00e9\/\b\f\n\r\t\"\\"|"a" "b"
"\ud800"|"\ud800|"\ud800\|"\ud800\n"|"\ud800x"|"\ud800\ud800"|"\udc00"|"\ud83d\ude00"|"\ud83d\u0041"
-|-x|01|-01|1.|1.x|1e|1e+|1ex|1e400|-1e400|1e-400|+1|.5|1 |[1, 2.5, -0, -0.0, 1e3, 18446744073709551615]
"#;
const BYTES: [&[u8]; 17] = [
    b"",
    b" ",
    b"\n",
    b"\"\x00\"",
    b"\"\n\"",
    b"\"\x1f\"",
    b"\"\x7f\"",
    b"\"\xff\"",
    b"\"\xc3\xa9\"",
    b"\"\xc3\"",
    b"\"\xed\xa0\x80\"",
    b"\xef\xbb\xbf{}",
    b"1\x0c",
    b"\xc2\xa01",
    b"{\n \"a\": 1,\n \"b\" 2\n}",
    b"[1,\n\n 2,\n]",
    b"[\n1\n",
];

#[test]
fn what_is_not_json_is_refused_in_the_words_and_at_the_place_of_serde_json() {
    let texts = TEXTS.lines().flat_map(|line| line.split('|')).map(str::as_bytes);
    for text in texts.chain(BYTES) {
        let (ours, theirs) = (parse(text).map(value_of), oracle(text));
        assert!(agree(&ours, &theirs), "{:?}: {ours:?} is not {theirs:?}", String::from_utf8_lossy(text));
    }
}

/// Any JSON, of numbers that serde_json reads exactly.
fn any_json() -> impl Strategy<Value = Value> {
    let number =
        prop_oneof![any::<i32>().prop_map(Value::from), (any::<i32>()).prop_map(|n| (f64::from(n) / 8.0).into())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from),
        "[a-z\"\\\\\u{0}-\u{1f}\u{1F600}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-c\"\n]{0,2}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Bytes that matter to a parser, so that a random one often does.
fn any_byte() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(&b"{}[]\",:\\u0129.eE+-ntfdD8aF \n\t\r\x00\x7f\x80\xc3\xed\xff"[..]), any::<u8>()]
}

/// A text in which some bytes are replaced, put in or taken out.
fn mutated(mut text: Vec<u8>, changes: &[(usize, u8, u8)]) -> Vec<u8> {
    for &(at, byte, kind) in changes {
        let at = at % (text.len() + 1);
        match kind {
            0 => text.insert(at, byte),
            1 => text.truncate(at),
            _ if at == text.len() => {}
            2 => drop(text.remove(at)),
            _ => text[at] = byte,
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn what_serde_json_writes_is_read_as_it_was(value in any_json()) {
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(read(&text).map(value_of), Ok(doubles(value.clone())), "{}", text);
        }
    }

    #[test]
    fn a_damaged_text_is_taken_by_both_or_refused_by_both_in_the_same_words(
        value in any_json(),
        pretty: bool,
        changes in prop::collection::vec((any::<usize>(), any_byte(), 0..8_u8), 1..4),
    ) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        let text = mutated(text.unwrap(), &changes);
        let (ours, theirs) = (parse(&text).map(value_of), oracle(&text));
        prop_assert!(agree(&ours, &theirs), "{:?}: {ours:?} is not {theirs:?}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn soup_is_taken_by_both_or_refused_by_both_in_the_same_words(
        text in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\u0129.eE+-dD8aF \nnull"[..]), 0..12),
        quoted: bool,
    ) {
        let text = if quoted { [b"\"", &*text, b"\""].concat() } else { text };
        let (ours, theirs) = (parse(&text).map(value_of), oracle(&text));
        prop_assert!(agree(&ours, &theirs), "{:?}: {ours:?} is not {theirs:?}", String::from_utf8_lossy(&text));
    }
}
