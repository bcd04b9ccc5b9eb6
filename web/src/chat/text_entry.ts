const kMostHeight = 0.4; // of the window

/** As high as its text, up to a share of the window. */
export function fitHeight(area: HTMLTextAreaElement | null): void {
  if (!area) return;
  area.style.height = 'auto';
  area.style.height = `${Math.min(area.scrollHeight, window.innerHeight * kMostHeight)}px`;
}

/** Enter sends; with Shift, or while an input method composes a character, it does what it always does. */
export function sendsOn(event: KeyboardEvent): boolean {
  return event.key === 'Enter' && !event.shiftKey && !event.isComposing;
}
