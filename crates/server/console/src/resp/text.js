// Conversions between bytes and text. Text that is not valid UTF-8 is shown escaped, as by redis-cli.

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });
const NAMED = new Map([[7, '\\a'], [8, '\\b'], [9, '\\t'], [10, '\\n'], [13, '\\r'], [34, '\\"'], [92, '\\\\']]);
const VALUES = new Map([['n', 10], ['r', 13], ['t', 9], ['b', 8], ['a', 7]]);

export const toBytes = (text) => encoder.encode(text);

/** Decodes UTF-8; invalid sequences become replacement characters. */
export const toText = (bytes) => (bytes instanceof Uint8Array ? decoder.decode(bytes) : String(bytes ?? ''));

/** Decodes valid UTF-8; null otherwise. */
export function utf8(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/** Escapes bytes outside of printable ASCII, without quotes around the result. */
export function escapeBytes(bytes) {
  let text = '';
  for (const byte of bytes) {
    if (NAMED.has(byte)) text += NAMED.get(byte);
    else if (byte >= 32 && byte < 127) text += String.fromCharCode(byte);
    else text += `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return text;
}

// Control characters except tab and line feed, and those that change the direction or are invisible.
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

/** Text if the bytes are printable UTF-8, else null. */
export function printable(bytes) {
  const text = utf8(bytes);
  return text === null || UNPRINTABLE.test(text) ? null : text;
}

/** Text of a value for display: as it is if printable, else escaped. */
export function display(value) {
  if (value === null || value === undefined) return '(nil)';
  if (!(value instanceof Uint8Array)) return String(value);
  return printable(value) ?? escapeBytes(value);
}

/** Reverses `escapeBytes`; characters outside of ASCII stand for their UTF-8. */
export function unescapeBytes(text) {
  const bytes = [];
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] !== '\\') {
      const symbol = String.fromCodePoint(text.codePointAt(at));
      bytes.push(...toBytes(symbol));
      at += symbol.length - 1;
      continue;
    }
    const hex = /^\\x([0-9a-fA-F]{2})/.exec(text.slice(at, at + 4));
    if (hex) {
      bytes.push(parseInt(hex[1], 16));
      at += 3;
      continue;
    }
    at += 1;
    if (at >= text.length) throw new SyntaxError('a backslash at the end escapes nothing; write \\\\');
    bytes.push(VALUES.get(text[at]) ?? text.charCodeAt(at));
  }
  return Uint8Array.from(bytes);
}

export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(' ');

export function fromHex(text) {
  const digits = text.replace(/\s+/g, '');
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new SyntaxError('hexadecimal digits must come in pairs');
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function equal(a, b) {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** Encodes bytes for the address bar: unreserved ASCII as it is, the rest as %XX. */
export function toPath(bytes) {
  return Array.from(bytes, (byte) => {
    const symbol = String.fromCharCode(byte);
    return /[A-Za-z0-9_.:~-]/.test(symbol) ? symbol : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }).join('');
}

/** Reverses `toPath`; null if the text is malformed. */
export function fromPath(text) {
  const bytes = [];
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] !== '%') {
      bytes.push(...toBytes(text[at]));
      continue;
    }
    const pair = text.slice(at + 1, at + 3);
    if (!/^[0-9a-fA-F]{2}$/.test(pair)) return null;
    bytes.push(parseInt(pair, 16));
    at += 2;
  }
  return Uint8Array.from(bytes);
}

/** Splits a command line by redis-cli's rules: blanks, "escapes", 'literals'. Null if quotes are unbalanced. */
export function splitCommand(line) {
  const args = [];
  let rest = line.trimStart();
  while (rest !== '') {
    const word = /^(?:"((?:[^"\\]|\\[^])*)"|'((?:[^'\\]|\\[^])*)'|([^\s"']\S*))(?=\s|$)/.exec(rest);
    if (!word) return null;
    if (word[1] !== undefined) args.push(unescapeBytes(word[1]));
    else if (word[2] !== undefined) args.push(toBytes(word[2].replace(/\\'/g, "'")));
    else args.push(toBytes(word[3]));
    rest = rest.slice(word[0].length).trimStart();
  }
  return args;
}
