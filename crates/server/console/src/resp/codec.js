// RESP3 codec. Requests are arrays of bulk strings; replies are decoded from chunks in order of arrival.
import { toBytes, toText } from './text.js';

const EMPTY = new Uint8Array(0);
const CR = 13;
const LF = 10;
/** Maximum nesting of replies. Petrel nests JSON and command tables to less than half of this. */
const MAX_DEPTH = 512;

/** Error reply of the server: a code such as NOPERM, and the text with the code. */
export class ReplyError extends Error {
  constructor(text) {
    super(text);
    this.name = 'ReplyError';
    this.code = /^[A-Z][A-Z0-9]*/.exec(text)?.[0] ?? 'ERR';
  }
}

/** Violation of RESP3 by the peer; the connection cannot be used any further. */
export class ProtocolError extends Error {}

/** Encodes a command. Arguments are bytes, strings or numbers. */
export function encode(args) {
  const parts = [toBytes(`*${args.length}\r\n`)];
  for (const arg of args) {
    const bytes = arg instanceof Uint8Array ? arg : toBytes(String(arg));
    parts.push(toBytes(`$${bytes.length}\r\n`), bytes, toBytes('\r\n'));
  }
  return concat(parts);
}

export function concat(parts) {
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = new Uint8Array(total);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Decodes replies incrementally. Nodes are `{ type, value }` with RESP's type byte; arrays hold nodes,
 * maps hold nodes of keys and values in turn, bulk strings hold bytes.
 */
export class Decoder {
  #chunks = [];
  #available = 0;
  #buffer = EMPTY;
  #at = 0;
  #needed = 1;
  #stack = [];

  /** Adds received bytes; returns the replies that they complete. */
  feed(chunk) {
    this.#chunks.push(chunk);
    this.#available += chunk.length;
    if (this.#available < this.#needed) return [];
    this.#buffer = concat([this.#buffer.subarray(this.#at), ...this.#chunks]);
    this.#chunks = [];
    this.#at = 0;
    const replies = [];
    for (let node = this.#next(); node; node = this.#next()) replies.push(node);
    this.#available = this.#buffer.length - this.#at;
    return replies;
  }

  #next() {
    for (;;) {
      const node = this.#token();
      if (!node) return null;
      const done = this.#place(node);
      if (done) return done;
    }
  }

  // Adds a node to the innermost open aggregate; returns a reply once the outermost is complete.
  #place(node) {
    let current = node;
    if (node.missing > 0) {
      if (this.#stack.length >= MAX_DEPTH) throw new ProtocolError('reply nested too deeply');
      this.#stack.push(node);
      return null;
    }
    for (;;) {
      const parent = this.#stack.at(-1);
      if (current.type === '|') return null;
      if (!parent) return current;
      parent.value.push(current);
      parent.missing -= 1;
      if (parent.missing > 0) return null;
      this.#stack.pop();
      current = parent;
    }
  }

  #token() {
    const end = this.#lineEnd();
    if (end < 0) return null;
    const type = String.fromCharCode(this.#buffer[this.#at]);
    const line = toText(this.#buffer.subarray(this.#at + 1, end));
    if (type === '$' || type === '=' || type === '!') return this.#bulk(type, line, end + 2);
    this.#at = end + 2;
    return scalarOrAggregate(type, line);
  }

  #lineEnd() {
    for (let at = this.#buffer.indexOf(CR, this.#at); at >= 0; at = this.#buffer.indexOf(CR, at + 1)) {
      if (at + 1 >= this.#buffer.length) break;
      if (this.#buffer[at + 1] === LF) return at;
    }
    this.#needed = this.#buffer.length - this.#at + 1;
    return -1;
  }

  #bulk(type, line, start) {
    const length = lengthOf(line);
    if (length < 0) {
      this.#at = start;
      return { type: '_', value: null };
    }
    const end = start + length;
    if (this.#buffer.length < end + 2) {
      this.#needed = end + 2 - this.#at;
      return null;
    }
    if (this.#buffer[end] !== CR || this.#buffer[end + 1] !== LF) throw new ProtocolError('bulk string without CRLF');
    const bytes = this.#buffer.slice(start, end);
    this.#at = end + 2;
    if (type === '!') return { type: '-', value: toText(bytes) };
    if (type === '=') return { type, value: bytes.subarray(4), format: toText(bytes.subarray(0, 3)) };
    return { type, value: bytes };
  }
}

function lengthOf(line) {
  if (!/^(-1|\d{1,15})$/.test(line)) throw new ProtocolError(`unexpected length ${line}`);
  return Number(line);
}

function scalarOrAggregate(type, line) {
  switch (type) {
    case '+': return { type, value: line };
    case '-': return { type, value: line };
    case ':': return { type, value: integer(line) };
    case '(': return { type, value: BigInt(line) };
    case ',': return { type, value: double(line), text: line };
    case '#': return { type, value: line === 't' };
    case '_': return { type, value: null };
    case '*': case '~': case '>': case '%': case '|': return aggregate(type, lengthOf(line));
    default: throw new ProtocolError(`unexpected type byte ${JSON.stringify(type)}`);
  }
}

function aggregate(type, length) {
  if (length < 0) return { type: '_', value: null };
  return { type, value: [], missing: type === '%' || type === '|' ? 2 * length : length };
}

function integer(line) {
  const value = Number(line);
  return Number.isSafeInteger(value) ? value : BigInt(line);
}

function double(line) {
  if (line === 'inf') return Infinity;
  if (line === '-inf') return -Infinity;
  return Number(line);
}

/** Converts a node to plain values: errors to `ReplyError`, maps to arrays of pairs, bulk strings to bytes. */
export function plain(node) {
  switch (node.type) {
    case '-': return new ReplyError(node.value);
    case '*': case '~': case '>': return node.value.map(plain);
    case '%': return pairs(node.value);
    default: return node.value;
  }
}

function pairs(nodes) {
  const result = [];
  for (let at = 0; at + 1 < nodes.length; at += 2) result.push([plain(nodes[at]), plain(nodes[at + 1])]);
  return result;
}

/** Converts pairs with short textual keys, as INFO-like replies have, to an object. */
export function toObject(list) {
  return Object.fromEntries((list ?? []).map(([key, value]) => [key instanceof Uint8Array ? toText(key) : String(key), value]));
}
