// Types of values: names for people, and TYPE's names for SCAN.

export const TYPES = [
  ['string', 'string'], ['list', 'list'], ['hash', 'hash'], ['set', 'set'], ['zset', 'sorted set'], ['stream', 'stream'],
  ['ReJSON-RL', 'JSON'], ['vectorset', 'vector set'], ['array', 'array'], ['MBbloom--', 'Bloom filter'], ['MBbloomCF', 'cuckoo filter'],
  ['CMSk-TYPE', 'count-min sketch'], ['TopK-TYPE', 'top-k'], ['TDIS-TYPE', 't-digest'],
];

const NAMES = new Map(TYPES);

/** Name of a type of TYPE's reply. */
export const typeName = (type) => NAMES.get(type) ?? type ?? 'unknown';
