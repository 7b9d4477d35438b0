//! Changes of JSON documents, written as commands.

use crate::encode::Encoder;
use petrel_json::{Change, Format, Op, Step, Value, path_to, print};
use petrel_keyspace::JsonChange;

fn text(value: Value<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    print(value, &Format::default(), &mut text);
    text
}

impl Encoder {
    /// Values are written as text. Elements that are removed together are a slice.
    pub(crate) fn json(&mut self, key: &[u8], change: JsonChange<'_>) {
        let Change { place, op } = match change {
            JsonChange::Put { tape } => {
                let value = text(Value::new(tape));
                return self.commands.command(&["JSON.SET"], &[key, b"$", &value]);
            }
            JsonChange::At(change) => change,
        };
        match op {
            Op::Set(tape) => {
                let (path, value) = (path_to(place), text(Value::new(tape)));
                self.commands.command(&["JSON.SET"], &[key, &path, &value]);
            }
            Op::Insert { values, .. } => {
                let Some((Step::Index(index), array)) = place.split_last() else { return };
                let mut digits = itoa::Buffer::new();
                let (path, texts) = (path_to(array), texts(values));
                let mut args = vec![key, &path, digits.format(*index).as_bytes()];
                args.extend(texts.iter().map(Vec::as_slice));
                self.commands.command(&["JSON.ARRINSERT"], &args);
            }
            Op::Remove { count } => {
                let path = match place.split_last() {
                    Some((Step::Index(from), array)) if count != 1 => {
                        let mut path = path_to(array);
                        path.extend_from_slice(format!("[{from}:{}]", from + count).as_bytes());
                        path
                    }
                    _ => path_to(place),
                };
                self.commands.command(&["JSON.DEL"], &[key, &path]);
            }
        }
    }
}

/// Texts of the values of consecutive tapes.
fn texts(mut tapes: &[u8]) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    while !tapes.is_empty() {
        let value = Value::new(tapes);
        texts.push(text(value));
        tapes = &tapes[value.tape().len()..];
    }
    texts
}
