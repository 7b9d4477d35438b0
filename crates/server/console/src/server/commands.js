// The command table (COMMAND DOCS) for completion and hints. Read once per login.
import { toObject } from '../resp/codec.js';
import { toText } from '../resp/text.js';
import { send, session } from './session.js';

let table = null;
let tableOf = -1;

/** Commands by name in upper case, subcommands as `CONFIG GET`: `{ name, summary, group, since, complexity, syntax }`. */
export async function commandTable() {
  if (tableOf !== session.generation) {
    tableOf = session.generation;
    table = send('COMMAND', 'DOCS').then(parseDocs);
    table.catch(() => { tableOf = -1; });
  }
  return table;
}

export function parseDocs(reply) {
  const commands = new Map();
  const add = (key, pairs) => {
    const docs = toObject(pairs);
    const name = key.replace('|', ' ').toUpperCase();
    const text = (field) => toText(docs[field] ?? '');
    const subcommands = docs.subcommands ?? [];
    commands.set(name, { name, summary: text('summary'), group: text('group'), since: text('since'), complexity: text('complexity'), syntax: syntax(docs.arguments ?? []), hasSubcommands: subcommands.length > 0 });
    for (const [sub, subPairs] of subcommands) add(toText(sub), subPairs);
  };
  for (const [key, pairs] of reply) add(toText(key), pairs);
  return commands;
}

/** Arguments as words of a hint, in the notation of Redis's command pages. */
export function syntax(list) {
  return list.map((pairs) => argument(toObject(pairs)));
}

function argument(arg) {
  const flags = (arg.flags ?? []).map(toText);
  const token = arg.token === undefined ? '' : toText(arg.token);
  let text = body(arg, token);
  if (flags.includes('multiple')) {
    const again = flags.includes('multiple_token') && token ? `${token} ${text}` : text;
    text = `${text} [${again} ...]`;
  }
  if (token && toText(arg.type) !== 'pure-token') text = `${token || '""'} ${text}`;
  return flags.includes('optional') ? `[${text}]` : text;
}

function body(arg, token) {
  const parts = () => syntax(arg.arguments ?? []);
  switch (toText(arg.type)) {
    case 'pure-token': return token;
    case 'oneof': return `<${parts().join(' | ')}>`;
    case 'block': return parts().join(' ');
    default: return toText(arg.display_text ?? arg.name);
  }
}

/** The command of a line, by its first two words or its first one. */
export function commandOf(commands, words) {
  const [first = '', second = ''] = words.map((word) => word.toUpperCase());
  return commands.get(`${first} ${second}`) ?? commands.get(first) ?? null;
}

/** Names that complete what was typed, at most `limit`. */
export function completions(commands, line, limit = 12) {
  const typed = line.trimStart().replace(/\s+/g, ' ').toUpperCase();
  if (typed === '') return [];
  const found = [];
  const depth = typed.split(' ').length;
  if (depth > 2) return [];
  for (const name of commands.keys()) {
    if (name.startsWith(typed) && name !== typed && name.split(' ').length === depth) found.push(name);
    if (found.length === limit) break;
  }
  return found.sort();
}

/** What remains to be typed of the arguments; empty if the command is unknown. */
export function hint(commands, line) {
  const words = line.trim().split(/\s+/).filter(Boolean);
  const command = commandOf(commands, words);
  if (!command) return '';
  const given = words.length - command.name.split(' ').length;
  return command.syntax.slice(Math.max(0, given)).join(' ');
}
