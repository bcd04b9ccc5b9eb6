/** Which view and which panels are open. */
import { signal } from '@preact/signals';

export type View = 'chat' | 'machine';

/** Wide enough for the list of conversations beside the chat; the same width as in layout.css. */
export const kRoomy = matchMedia('(min-width: 60rem)');
const kMachineHash = '#machine';

/** Every fragment but that of the machine is the chat. */
const viewOfHash = (): View => (location.hash === kMachineHash ? 'machine' : 'chat');

export const view = signal<View>(viewOfHash());
export const listOpen = signal(kRoomy.matches);
export const settingsOpen = signal(false);
export const helpOpen = signal(false);

/** A view is a step of the browser's history, so that Back and Forward go from one to the other. */
export function openView(next: View): void {
  if (view.value === next) return;
  view.value = next;
  const chat = location.pathname + location.search;
  history.pushState(null, '', next === 'machine' ? chat + kMachineHash : chat);
}

/** Follows Back, Forward, and fragments that are typed or come from a link. */
export function followAddress(): void {
  const follow = () => {
    view.value = viewOfHash();
  };
  window.addEventListener('hashchange', follow);
  window.addEventListener('popstate', follow);
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
