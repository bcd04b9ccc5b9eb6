import { computed, effect, signal } from '@preact/signals';

export type Theme = 'light' | 'dark';

const kKey = 'baleen.theme';
const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

const system = signal<Theme>(systemIsDark.matches ? 'dark' : 'light');
/** null: as the system says. */
const chosen = signal<Theme | null>(readChosen());

function readChosen(): Theme | null {
  try {
    const text = localStorage.getItem(kKey);
    return text === 'light' || text === 'dark' ? text : null;
  } catch {
    return null;
  }
}

export const theme = computed<Theme>(() => chosen.value ?? system.value);

/** The other theme; when that is the system's, the page follows the system again. */
export function switchTheme(): void {
  const other: Theme = theme.value === 'dark' ? 'light' : 'dark';
  chosen.value = other === system.value ? null : other;
}

export function applyTheme(): void {
  systemIsDark.addEventListener('change', (event) => {
    system.value = event.matches ? 'dark' : 'light';
  });
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
    try {
      if (chosen.value === null) localStorage.removeItem(kKey);
      else localStorage.setItem(kKey, chosen.value);
    } catch {
      // Nothing is remembered then.
    }
  });
}
