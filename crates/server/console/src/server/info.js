// Parser of INFO and of lists of `name=value` pairs.

/** Parses INFO into sections of fields. */
export function parseInfo(text) {
  const sections = {};
  let fields = (sections[''] = {});
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('# ')) {
      fields = sections[line.slice(2).trim().toLowerCase()] = {};
    } else {
      const at = line.indexOf(':');
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1);
    }
  }
  return sections;
}

/** Parses `a=1,b=2`; values that are numbers become numbers. */
export function parsePairs(text, separator = ',') {
  const pairs = {};
  for (const part of text.split(separator)) {
    const at = part.indexOf('=');
    if (at > 0) pairs[part.slice(0, at)] = asNumber(part.slice(at + 1));
  }
  return pairs;
}

function asNumber(text) {
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}
