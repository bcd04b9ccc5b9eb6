/** Whether the server is there, and what it last refused. */
import { signal } from '@preact/signals';
import { isReachable } from './server';

export const isLost = signal(false);
export const refusal = signal<string | null>(null);

const kIdleLookMs = 4000;
const kLostLookMs = 1000;

let timer: number | undefined;
let onReturn: () => void = () => {};

export function reportLost(): void {
  isLost.value = true;
  schedule();
}

export function reportRefusal(message: string): void {
  refusal.value = message;
}

export function clearRefusal(): void {
  refusal.value = null;
}

/** Asks the server now whether it is there. */
export async function look(): Promise<void> {
  const wasLost = isLost.value;
  isLost.value = !(await isReachable());
  if (wasLost && !isLost.value) onReturn();
  schedule();
}

function schedule(): void {
  clearTimeout(timer);
  if (!document.hidden) timer = window.setTimeout(look, isLost.value ? kLostLookMs : kIdleLookMs);
}

/** Looks every few seconds while the page is visible; `returned` is called when a lost server answers again. */
export function watchConnection(returned: () => void): void {
  onReturn = returned;
  document.addEventListener('visibilitychange', () => void look());
  schedule();
}
