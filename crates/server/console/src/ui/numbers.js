// Numbers for people: counts, bytes, durations, rates.

const COUNT_UNITS = ['', 'k', 'M', 'G', 'T'];
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

function scaled(value, base, units, gap) {
  let unit = 0;
  let rest = Number(value);
  while (Math.abs(rest) >= base && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  const digits = unit === 0 ? (Number.isInteger(rest) ? 0 : 2) : rest < 10 ? 2 : rest < 100 ? 1 : 0;
  return `${rest.toFixed(digits)}${gap}${units[unit]}`.trim();
}

export const count = (value) => (value === undefined || value === null || Number.isNaN(Number(value)) ? '–' : scaled(value, 1000, COUNT_UNITS, ''));
export const exact = (value) => (value === undefined || value === null ? '–' : Number(value).toLocaleString('en'));
export const bytes = (value) => (value === undefined || value === null || Number.isNaN(Number(value)) ? '–' : scaled(value, 1024, BYTE_UNITS, ' '));
export const percent = (share, digits = 1) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : '–');

/** Formats microseconds. */
export function micros(value) {
  if (!Number.isFinite(value)) return '–';
  if (value < 1000) return `${value < 10 ? value.toFixed(1) : Math.round(value)} µs`;
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e4 ? 2 : 1)} ms`;
  return `${(value / 1e6).toFixed(2)} s`;
}

/** Formats seconds with the two largest units. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const parts = [];
  let rest = Math.max(0, Math.floor(seconds));
  for (const [name, size] of units) {
    const number = Math.floor(rest / size);
    if (number > 0 && parts.length < 2) parts.push(`${number} ${name}`);
    rest %= size;
  }
  return parts.join(' ') || '0 s';
}

export const time = (ms) => new Date(Number(ms)).toLocaleString('sv');

/** Formats PTTL's reply. */
export function ttl(ms) {
  if (ms === -1) return 'no expiry';
  if (ms === -2 || ms === undefined || ms === null) return '–';
  return ms < 1000 ? `${ms} ms` : duration(ms / 1000);
}
