// Members of a cluster as CLUSTER NODES describes them.

export const SLOTS = 16384;

/** Parses CLUSTER NODES. Slots are `[first, last]`; those that migrate are left out. */
export function parseNodes(text) {
  return text.split('\n').filter(Boolean).map((line) => {
    const [id, address, flags, primary, , , , link, ...slots] = line.split(' ');
    const [endpoint, host] = address.split(',');
    return {
      id,
      address: endpoint.split('@')[0],
      host: host ?? '',
      flags: flags.split(','),
      primary: primary === '-' ? null : primary,
      link,
      slots: slots.filter((range) => !range.startsWith('[')).map((range) => range.split('-').map(Number)).map(([first, last]) => [first, last ?? first]),
    };
  });
}

/** Number of slots of a member. */
export const slotCount = ({ slots }) => slots.reduce((sum, [first, last]) => sum + last - first + 1, 0);
