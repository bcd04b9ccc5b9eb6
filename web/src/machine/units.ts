/** Numbers for people: three digits, and a unit. */

function scaled(value: number, base: number, units: string[]): string {
  let unit = 0;
  while (Math.abs(value) >= base * 0.9995 && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)}${units[unit]}`;
}

export const count = (value: number): string => Math.round(value).toLocaleString('en');
export const compact = (value: number): string => scaled(value, 1000, ['', 'k', 'M', 'G', 'T', 'P']);
export const bytes = (value: number): string => scaled(value, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB']);

export function duration(seconds: number): string {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(1)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.1 ? 2 : 0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const percent = (part: number, whole: number): string =>
  whole > 0 ? `${((100 * part) / whole).toFixed(part > 0 && part / whole < 0.0995 ? 1 : 0)}%` : '0%';
