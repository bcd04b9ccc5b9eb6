import type { VNode } from 'preact';

/** Line drawings on a grid of 20. */
const kPaths = {
  menu: 'M3 6h14M3 10h14M3 14h9',
  plus: 'M10 4v12M4 10h12',
  sliders: 'M3 6h7M14 6h3M3 14h3M10 14h7M12 4v4M8 12v4',
  sun: 'M10 6.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7M10 2v1.6M10 16.4V18M2 10h1.6M16.4 10H18M4.4 4.4l1.1 1.1M14.5 14.5l1.1 1.1M15.6 4.4l-1.1 1.1M5.5 14.5l-1.1 1.1',
  moon: 'M16.2 12.2A6.8 6.8 0 0 1 7.8 3.8a6.8 6.8 0 1 0 8.4 8.4z',
  copy: 'M7.5 7.5h9v9h-9zM12.5 7.5v-4h-9v9h4',
  check: 'M4 10.5l4 4l8-9',
  again: 'M15.8 8.2A6.2 6.2 0 1 0 16.2 11M16.2 3.8v4.4h-4.4',
  pencil: 'M3.5 16.5l.8-3.6L13.2 4l2.8 2.8l-8.9 8.900z',
  more: 'M4.500 10h.01M10 10h.01M15.500 10h.01',
  fork: 'M6 4v12M6 10.500h4a4 4 0 0 0 4-4V4M11.500 6.500L14 4l2.500 2.500',
  server: 'M4 4.500h12v4.500H4zM4 11h12v4.500H4zM6.500 6.750h.01M6.500 13.250h.01',
  bin: 'M4 5.5h12M8 5.5v-2h4v2M5.5 5.5l.7 11h7.6l.7-11',
  down: 'M10 3.5v9M6 9l4 4l4-4M4 16.5h12',
  send: 'M10 16V4M5 9l5-5l5 5',
  stop: 'M5.5 5.5h9v9h-9z',
  close: 'M5 5l10 10M15 5L5 15',
  fold: 'M7.5 5l5 5l-5 5',
  left: 'M12.5 5l-5 5l5 5',
  search: 'M9 3.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M13 13l4 4',
  up: 'M10 12.500v-9M6 7l4-4l4 4M4 16.5h12',
  clip: 'M15.5 9.500l-5.8 5.800a3.4 3.4 0 0 1-4.8-4.800l6.3-6.300a2.3 2.3 0 0 1 3.2 3.200l-6.3 6.300a1.1 1.1 0 0 1-1.6-1.600l5.3-5.3',
  help: 'M10 2.500a7.5 7.5 0 1 0 0 15a7.5 7.5 0 1 0 0-15M7.8 7.800a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.600M10 14.200v.1',
} as const;

export type IconName = keyof typeof kPaths;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }): VNode {
  return (
    <svg class={`icon icon-${name}`} width={size} height={size} viewBox="0 0 20 20" aria-hidden="true">
      <path d={kPaths[name]} />
    </svg>
  );
}

/** A button that shows only a drawing: its name is for readers of the screen, and for the hovering mouse. */
export function IconButton(props: {
  icon: IconName;
  label: string;
  onClick: () => void;
  pressed?: boolean;
  expanded?: boolean;
  disabled?: boolean;
  class?: string;
}): VNode {
  const { icon, label, onClick, pressed, expanded, disabled } = props;
  return (
    <button
      type="button"
      class={`icon-button ${props.class ?? ''}`}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      aria-expanded={expanded}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}

/** Plates of baleen hanging from a jaw. */
export function Mark(): VNode {
  return (
    <svg class="mark" width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M3 8q13 7 26 0M7 13v8M11.5 14.5v10M16 15v12M20.5 14.5v10M25 13v8" />
    </svg>
  );
}
