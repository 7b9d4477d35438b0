// Formats replies as redis-cli does in RESP3.
import { escapeBytes, printable, toText } from './text.js';

/** Longest text of a reply that is formatted; a longer one is cut and says so. */
const MAX_TEXT = 256 * 1024;

class Output {
  text = '';
  get full() { return this.text.length >= MAX_TEXT; }
  add(piece) { if (!this.full) this.text += piece; }
}

export function formatReply(node) {
  const output = new Output();
  write(node, '', output);
  return output.full ? `${output.text.slice(0, MAX_TEXT)}\n(cut here: the reply is longer)` : output.text;
}

function quote(bytes) {
  const text = printable(bytes);
  if (text === null) return `"${escapeBytes(bytes)}"`;
  return `"${text.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n').replace(/\t/g, '\\t')}"`;
}

function write(node, indent, output) {
  switch (node.type) {
    case '+': output.add(node.value); break;
    case '-': output.add(`(error) ${node.value}`); break;
    case ':': output.add(`(integer) ${node.value}`); break;
    case '(': output.add(`(big number) ${node.value}`); break;
    case ',': output.add(`(double) ${node.text}`); break;
    case '#': output.add(node.value ? '(true)' : '(false)'); break;
    case '_': output.add('(nil)'); break;
    case '=': output.add(toText(node.value)); break;
    case '$': output.add(quote(node.value)); break;
    case '%': writeMap(node.value, indent, output); break;
    default: writeList(node, indent, output);
  }
}

function writeList(node, indent, output) {
  const items = node.value;
  const mark = node.type === '~' ? '~' : ')';
  if (items.length === 0) return output.add(node.type === '~' ? '(empty set)' : '(empty array)');
  const width = String(items.length).length;
  for (let at = 0; at < items.length && !output.full; at += 1) {
    if (at > 0) output.add(`\n${indent}`);
    const label = `${String(at + 1).padStart(width)}${mark} `;
    output.add(label);
    write(items[at], indent + ' '.repeat(label.length), output);
  }
}

function writeMap(nodes, indent, output) {
  if (nodes.length === 0) return output.add('(empty hash)');
  const width = String(nodes.length / 2).length;
  for (let at = 0; at + 1 < nodes.length && !output.full; at += 2) {
    if (at > 0) output.add(`\n${indent}`);
    const label = `${String(at / 2 + 1).padStart(width)}# `;
    output.add(label);
    write(nodes[at], indent + ' '.repeat(label.length), output);
    output.add(' => ');
    const aggregate = Array.isArray(nodes[at + 1].value) && nodes[at + 1].value.length > 0;
    const deeper = indent + ' '.repeat(label.length);
    if (aggregate) output.add(`\n${deeper}`);
    write(nodes[at + 1], deeper, output);
  }
}
