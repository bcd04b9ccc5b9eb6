import { computed, effect, signal } from '@preact/signals';
import { keptValue } from '../storage/kept_value';

export type Theme = 'light' | 'dark';

const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

const system = signal<Theme>(systemIsDark.matches ? 'dark' : 'light');
/** null: as the system says. */
const chosen = keptValue<Theme | null>('baleen.theme', (stored) =>
  stored === 'light' || stored === 'dark' ? stored : null,
);

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
  });
}
