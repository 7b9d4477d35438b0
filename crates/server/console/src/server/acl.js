// Users as ACL LIST describes them, and rules as ACL SETUSER takes them.

/** Parses a line of ACL LIST. Digests of passwords are counted, not shown. */
export function parseUser(line) {
  const [, name, ...words] = line.split(' ');
  const digests = words.filter((word) => word.startsWith('#'));
  const rules = words.filter((word) => !/^(#|on$|off$|nopass$|sanitize-payload$|skip-sanitize-payload$)/.test(word));
  return { name, isOn: words.includes('on'), withoutPassword: words.includes('nopass'), passwords: digests.length, rules: rules.join(' ') };
}

/** Splits rules at blanks; a selector in parentheses is one word. */
export function ruleWords(text) {
  return text.match(/\([^)]*\)|\S+/g) ?? [];
}
