//! Replies as text, in redis-cli's forms.

use petrel_resp::{DoubleBuffer, Value};

use crate::quote::{json_string, quote, quoted};

/// Form of printed replies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// With types, quotes and numbered elements: the default on a terminal.
    Typed,
    /// The bytes as they are: the default elsewhere.
    Raw,
    /// A line of comma-separated values.
    Csv,
    /// JSON; bytes outside of ASCII are copied.
    Json,
    /// JSON in ASCII: strings are quoted first.
    QuotedJson,
}

/// Separators of raw output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delimiters {
    /// Between the elements of a reply.
    pub elements: Vec<u8>,
    /// Behind a reply.
    pub replies: Vec<u8>,
}

impl Default for Delimiters {
    fn default() -> Self {
        Self { elements: b"\n".to_vec(), replies: b"\n".to_vec() }
    }
}

/// Returns a reply as text, with the end of its line.
pub fn format(value: &Value, form: Form, delimiters: &Delimiters) -> Vec<u8> {
    let mut out = Vec::new();
    match form {
        Form::Typed => typed(value, "", &mut out),
        Form::Raw => {
            raw(value, delimiters, &mut out);
            out.extend(&delimiters.replies);
        }
        Form::Csv => {
            csv(value, &mut out);
            out.push(b'\n');
        }
        Form::Json | Form::QuotedJson => {
            json(value, form, &mut out);
            out.push(b'\n');
        }
    }
    out
}

fn double(value: f64) -> String {
    String::from_utf8_lossy(DoubleBuffer::new().format(value)).into_owned()
}

fn typed(value: &Value, prefix: &str, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) | Value::Verbatim { text, .. } | Value::BigNumber(text) => {
            out.extend(&text[..]);
        }
        Value::Error(text) => {
            out.extend(b"(error) ");
            out.extend(&text[..]);
        }
        Value::Integer(n) => out.extend(format!("(integer) {n}").bytes()),
        Value::Double(n) => out.extend(format!("(double) {}", double(*n)).bytes()),
        Value::Boolean(is_true) => out.extend(format!("({is_true})").bytes()),
        Value::Bulk(text) => quote(text, out),
        Value::Null | Value::NullArray => out.extend(b"(nil)"),
        Value::Array(items) => return elements(items, ("array", ')'), prefix, out),
        Value::Set(items) => return elements(items, ("set", '~'), prefix, out),
        Value::Push(items) => return elements(items, ("push", ')'), prefix, out),
        Value::Map(pairs) => return fields(pairs, prefix, out),
        Value::Attribute { value, .. } => return typed(value, prefix, out),
    }
    out.push(b'\n');
}

/// Writes numbered elements; those after the first are indented by `prefix`.
fn elements(items: &[Value], (name, mark): (&str, char), prefix: &str, out: &mut Vec<u8>) {
    if items.is_empty() {
        return out.extend(format!("(empty {name})\n").bytes());
    }
    let width = items.len().to_string().len();
    let inner = format!("{prefix}{:1$}", "", width + 2);
    for (i, item) in items.iter().enumerate() {
        let indent = if i == 0 { "" } else { prefix };
        out.extend(format!("{indent}{:width$}{mark} ", i + 1).bytes());
        typed(item, &inner, out);
    }
}

fn fields(pairs: &[(Value, Value)], prefix: &str, out: &mut Vec<u8>) {
    if pairs.is_empty() {
        return out.extend(b"(empty hash)\n");
    }
    let width = pairs.len().to_string().len();
    let inner = format!("{prefix}{:1$}", "", width + 2);
    for (i, (field, value)) in pairs.iter().enumerate() {
        let indent = if i == 0 { "" } else { prefix };
        out.extend(format!("{indent}{:width$}# ", i + 1).bytes());
        typed(field, &inner, out);
        out.pop();
        out.extend(b" => ");
        let mut text = Vec::new();
        typed(value, &inner, &mut text);
        // A value of several lines begins below its field.
        if text[..text.len() - 1].contains(&b'\n') {
            out.push(b'\n');
            out.extend(inner.bytes());
        }
        out.extend(text);
    }
}

fn raw(value: &Value, delimiters: &Delimiters, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text)
        | Value::Bulk(text)
        | Value::Verbatim { text, .. }
        | Value::BigNumber(text) => out.extend(&text[..]),
        Value::Error(text) => {
            out.extend(&text[..]);
            out.push(b'\n');
        }
        Value::Integer(n) => out.extend(n.to_string().bytes()),
        Value::Double(n) => out.extend(double(*n).bytes()),
        Value::Boolean(is_true) => out.extend(format!("({is_true})").bytes()),
        Value::Null | Value::NullArray => {}
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.extend(&delimiters.elements);
                }
                raw(item, delimiters, out);
            }
        }
        Value::Map(pairs) => {
            for (i, (field, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.extend(&delimiters.elements);
                }
                raw(field, delimiters, out);
                out.push(b' ');
                raw(value, delimiters, out);
            }
        }
        Value::Attribute { value, .. } => raw(value, delimiters, out),
    }
}

fn csv(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text)
        | Value::Bulk(text)
        | Value::Verbatim { text, .. }
        | Value::BigNumber(text) => quote(text, out),
        Value::Error(text) => {
            out.extend(b"ERROR,");
            quote(text, out);
        }
        Value::Integer(n) => out.extend(n.to_string().bytes()),
        Value::Double(n) => out.extend(double(*n).bytes()),
        Value::Boolean(is_true) => out.extend(is_true.to_string().bytes()),
        Value::Null | Value::NullArray => out.extend(b"NULL"),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                csv(item, out);
            }
        }
        Value::Map(pairs) => {
            for (i, (field, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                csv(field, out);
                out.push(b',');
                csv(value, out);
            }
        }
        Value::Attribute { value, .. } => csv(value, out),
    }
}

fn text(bytes: &[u8], form: Form, out: &mut Vec<u8>) {
    if form == Form::QuotedJson {
        let quoted = quoted(bytes);
        json_string(&quoted.as_bytes()[1..quoted.len() - 1], out);
    } else {
        json_string(bytes, out);
    }
}

fn json(value: &Value, form: Form, out: &mut Vec<u8>) {
    match value {
        Value::Simple(bytes)
        | Value::Bulk(bytes)
        | Value::Verbatim { text: bytes, .. }
        | Value::BigNumber(bytes) => text(bytes, form, out),
        Value::Error(bytes) => {
            out.extend(b"error:");
            text(bytes, form, out);
        }
        Value::Integer(n) => out.extend(n.to_string().bytes()),
        Value::Double(n) => out.extend(double(*n).bytes()),
        Value::Boolean(is_true) => out.extend(is_true.to_string().bytes()),
        Value::Null | Value::NullArray => out.extend(b"null"),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                json(item, form, out);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (i, (field, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                name(field, form, out);
                out.push(b':');
                json(value, form, out);
            }
            out.push(b'}');
        }
        Value::Attribute { value, .. } => json(value, form, out),
    }
}

/// Writes the name of an object's member, which is a string in JSON.
fn name(value: &Value, form: Form, out: &mut Vec<u8>) {
    match value.as_bytes() {
        Some(bytes) => text(bytes, form, out),
        None => {
            let mut inner = Vec::new();
            json(value, form, &mut inner);
            json_string(&inner, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(reply: &[u8], form: Form) -> String {
        let (value, length) = petrel_resp::decode(reply, &Default::default()).unwrap().unwrap();
        assert_eq!(length, reply.len());
        String::from_utf8(format(&value, form, &Delimiters::default())).unwrap()
    }

    const NESTED: &[u8] =
        b"*3\r\n$2\r\na\n\r\n*2\r\n:1\r\n$-1\r\n%2\r\n+x\r\n,1.5\r\n:2\r\n~2\r\n#t\r\n-ERR no\r\n";

    #[test]
    fn typed_form() {
        let expected = "1) \"a\\n\"\n2) 1) (integer) 1\n   2) (nil)\n3) 1# x => (double) 1.5\n   \
                        2# (integer) 2 => \n      1~ (true)\n      2~ (error) ERR no\n";
        assert_eq!(shown(NESTED, Form::Typed), expected);
        assert_eq!(shown(b"*0\r\n", Form::Typed), "(empty array)\n");
        assert_eq!(shown(b"%0\r\n", Form::Typed), "(empty hash)\n");
        assert_eq!(shown(b"~0\r\n", Form::Typed), "(empty set)\n");
        assert_eq!(shown(b"=8\r\ntxt:a\nbc\r\n", Form::Typed), "a\nbc\n");
        let ten = [b"*10\r\n".to_vec(), b":7\r\n".repeat(10)].concat();
        assert!(shown(&ten, Form::Typed).starts_with(" 1) (integer) 7\n"));
    }

    #[test]
    fn other_forms() {
        assert_eq!(shown(NESTED, Form::Raw), "a\n\n1\n\nx 1.5\n2 (true)\nERR no\n\n");
        assert_eq!(shown(NESTED, Form::Csv), "\"a\\n\",1,NULL,\"x\",1.5,2,true,ERROR,\"ERR no\"\n");
        let json = "[\"a\\n\",[1,null],{\"x\":1.5,\"2\":[true,error:\"ERR no\"]}]\n";
        assert_eq!(shown(NESTED, Form::Json), json);
        assert_eq!(shown(b"$2\r\n\xc3\xa9\r\n", Form::Json), "\"é\"\n");
        assert_eq!(shown(b"$2\r\n\xc3\xa9\r\n", Form::QuotedJson), "\"\\\\xc3\\\\xa9\"\n");
    }
}
