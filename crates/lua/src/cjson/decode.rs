//! Reading JSON.

use super::{DEPTH_MAX, Options, number, text_argument};
use crate::interrupt::{BYTES_PER_STEP, PIECE, Tally};
use crate::lists::TABLE_BYTES;
use crate::scratch::Scratch;
use crate::vm::{LUA_REGISTRYINDEX, Raise, Stack};
use memchr::memchr3;
use std::ffi::c_int;

/// `cjson.decode(text)`
pub(super) fn decode(stack: Stack) -> Result<c_int, Raise> {
    let text = text_argument(stack)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Raise::fixed("JSON parser does not support UTF-16 or UTF-32"));
    }
    let options = stack.with(|extra| extra.json.clone());
    let (string, tally) = (Scratch::new(stack), Tally::new(stack));
    let mut reader = Reader { stack, text, at: 0, depth: 0, options, string, tally };
    let first = reader.next()?;
    reader.value(&first)?;
    let last = reader.next()?;
    if last.kind != TokenKind::End {
        return Err(last.unexpected("the end"));
    }
    Ok(1)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TokenKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// The decoded bytes are in the reader's buffer.
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// Description of the syntax error.
    Error(&'static str),
}

#[derive(Clone, Copy)]
struct Token {
    kind: TokenKind,
    /// Position of the token, from 0.
    at: usize,
}

impl Token {
    fn unexpected(&self, expected: &str) -> Raise {
        let found = match self.kind {
            TokenKind::ObjectBegin => "T_OBJ_BEGIN",
            TokenKind::ObjectEnd => "T_OBJ_END",
            TokenKind::ArrayBegin => "T_ARR_BEGIN",
            TokenKind::ArrayEnd => "T_ARR_END",
            TokenKind::String => "T_STRING",
            TokenKind::Number(_) => "T_NUMBER",
            TokenKind::Boolean(_) => "T_BOOLEAN",
            TokenKind::Null => "T_NULL",
            TokenKind::Colon => "T_COLON",
            TokenKind::Comma => "T_COMMA",
            TokenKind::End => "T_END",
            TokenKind::Error(text) => text,
        };
        let place = self.at + 1;
        Raise::new(format!("Expected {expected} but found {found} at character {place}"))
    }
}

struct Reader<'a> {
    stack: Stack,
    text: &'a [u8],
    at: usize,
    depth: i32,
    options: Options,
    /// The string that was read last.
    string: Scratch,
    tally: Tally,
}

impl Reader<'_> {
    /// Pushes the value that begins with this token.
    fn value(&mut self, token: &Token) -> Result<(), Raise> {
        self.tally.step()?;
        match token.kind {
            TokenKind::String => return self.string.push_value(),
            TokenKind::Number(number) => self.stack.push_number(number),
            TokenKind::Boolean(value) => self.stack.push_boolean(value),
            TokenKind::Null => self.stack.push_null(),
            TokenKind::ObjectBegin => return self.object(),
            TokenKind::ArrayBegin => return self.array(),
            _ => return Err(token.unexpected("value")),
        }
        Ok(())
    }

    fn descend(&mut self) -> Result<(), Raise> {
        self.depth += 1;
        if self.depth > self.options.decode_max_depth.min(DEPTH_MAX) || !self.stack.reserve(6) {
            return Err(Raise::new(format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            )));
        }
        self.stack.make_room(TABLE_BYTES)
    }

    fn object(&mut self) -> Result<(), Raise> {
        self.descend()?;
        self.stack.new_table(0, 0);
        let mut token = self.next()?;
        if token.kind == TokenKind::ObjectEnd {
            self.depth -= 1;
            return Ok(());
        }
        loop {
            if token.kind != TokenKind::String {
                return Err(token.unexpected("object key string"));
            }
            self.string.push_value()?;
            let colon = self.next()?;
            if colon.kind != TokenKind::Colon {
                return Err(colon.unexpected("colon"));
            }
            let value = self.next()?;
            self.value(&value)?;
            self.stack.set(-3)?;
            let end = self.next()?;
            match end.kind {
                TokenKind::ObjectEnd => break,
                TokenKind::Comma => token = self.next()?,
                _ => return Err(end.unexpected("comma or object end")),
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Raise> {
        self.descend()?;
        self.stack.new_table(0, 0);
        if self.options.mark_arrays {
            let mark = self.stack.with(|extra| extra.array_metatable);
            self.stack.raw_get_index(LUA_REGISTRYINDEX, mark);
            self.stack.set_metatable(-2);
        }
        let mut token = self.next()?;
        if token.kind == TokenKind::ArrayEnd {
            self.depth -= 1;
            return Ok(());
        }
        for n in 1.. {
            self.value(&token)?;
            self.stack.set_index(-2, n)?;
            let end = self.next()?;
            match end.kind {
                TokenKind::ArrayEnd => break,
                TokenKind::Comma => token = self.next()?,
                _ => return Err(end.unexpected("comma or array end")),
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn next(&mut self) -> Result<Token, Raise> {
        let before = self.at;
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        self.tally.add((at - before) / BYTES_PER_STEP)?;
        let rest = &self.text[at..];
        let (kind, len) = match rest.first() {
            None | Some(0) => (TokenKind::End, 0),
            Some(b'{') => (TokenKind::ObjectBegin, 1),
            Some(b'}') => (TokenKind::ObjectEnd, 1),
            Some(b'[') => (TokenKind::ArrayBegin, 1),
            Some(b']') => (TokenKind::ArrayEnd, 1),
            Some(b':') => (TokenKind::Colon, 1),
            Some(b',') => (TokenKind::Comma, 1),
            Some(b'"') => return self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(rest, "invalid number"),
            _ if rest.starts_with(b"true") => (TokenKind::Boolean(true), 4),
            _ if rest.starts_with(b"false") => (TokenKind::Boolean(false), 5),
            _ if rest.starts_with(b"null") => (TokenKind::Null, 4),
            _ if number::is_unknown_to_json(rest) => self.number(rest, "invalid token"),
            _ => (TokenKind::Error("invalid token"), 0),
        };
        self.at += len;
        self.tally.add(len / BYTES_PER_STEP)?;
        Ok(Token { kind, at })
    }

    fn number(&self, rest: &[u8], refusal: &'static str) -> (TokenKind, usize) {
        if !self.options.decode_invalid && number::is_unknown_to_json(rest) {
            return (TokenKind::Error(refusal), 0);
        }
        match number::parse(rest) {
            Some((number, len)) => (TokenKind::Number(number), len),
            None => (TokenKind::Error("invalid number"), 0),
        }
    }

    fn string(&mut self) -> Result<Token, Raise> {
        let begin = self.at;
        self.string.clear();
        self.at += 1;
        loop {
            let end = self.text.len().min(self.at + PIECE);
            let plain = memchr3(b'"', b'\\', 0, &self.text[self.at..end]);
            let plain = plain.unwrap_or(end - self.at);
            self.string.extend(&self.text[self.at..self.at + plain])?;
            self.tally.add(1 + plain / BYTES_PER_STEP)?;
            self.at += plain;
            let place = self.at;
            let error = |text| Ok(Token { kind: TokenKind::Error(text), at: place });
            match self.text.get(place) {
                None | Some(0) => return error("unexpected end of string"),
                Some(b'"') => break,
                Some(b'\\') => {
                    let escaped = match self.text.get(place + 1) {
                        Some(b'b') => 8,
                        Some(b't') => 9,
                        Some(b'n') => 10,
                        Some(b'f') => 12,
                        Some(b'r') => 13,
                        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
                        Some(b'u') => match self.unicode() {
                            Some(character) => {
                                let mut bytes = [0; 4];
                                self.string.extend(character.encode_utf8(&mut bytes).as_bytes())?;
                                continue;
                            }
                            None => return error("invalid unicode escape code"),
                        },
                        _ => return error("invalid escape code"),
                    };
                    self.string.push(escaped)?;
                    self.at += 2;
                }
                // The next piece.
                Some(_) => {}
            }
        }
        self.at += 1;
        Ok(Token { kind: TokenKind::String, at: begin })
    }

    /// Reads an escape of four hexadecimal digits, or two of them that are one character.
    fn unicode(&mut self) -> Option<char> {
        let mut code = self.code_unit(self.at)?;
        self.at += 6;
        if (0xD800..0xE000).contains(&code) {
            let low = self.code_unit(self.at)?;
            if code >= 0xDC00 || !(0xDC00..0xE000).contains(&low) {
                return None;
            }
            self.at += 6;
            code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
        }
        char::from_u32(code)
    }

    fn code_unit(&self, at: usize) -> Option<u32> {
        let text = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        text.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
    }
}
