/** Which view and which panels are open. */
import { signal } from '@preact/signals';

export type View = 'chat' | 'machine';

/** Wide enough for the list of conversations beside the chat; the same width as in layout.css. */
export const kRoomy = matchMedia('(min-width: 60rem)');
const kMachineHash = '#machine';

export const view = signal<View>(location.hash === kMachineHash ? 'machine' : 'chat');
export const listOpen = signal(kRoomy.matches);
export const settingsOpen = signal(false);
export const helpOpen = signal(false);

export function openView(next: View): void {
  view.value = next;
  history.replaceState(null, '', next === 'machine' ? kMachineHash : location.pathname);
}

/** On a narrow screen the panels lie over the chat, one at a time. */
function toggle(panel: typeof listOpen, other: typeof listOpen): void {
  panel.value = !panel.value;
  if (!kRoomy.matches && panel.value) other.value = false;
}

export const toggleList = (): void => toggle(listOpen, settingsOpen);
export const toggleSettings = (): void => toggle(settingsOpen, listOpen);

export function closeIfNarrow(): void {
  if (kRoomy.matches) return;
  listOpen.value = false;
  settingsOpen.value = false;
}
