import type { VNode } from 'preact';
import { useId, useRef } from 'preact/hooks';
import { Icon, type IconName } from './icons';

export interface MenuItem {
  icon: IconName;
  label: string;
  act: () => void;
  disabled?: boolean;
  /** For what cannot be taken back. */
  danger?: boolean;
}

/** Between the button and its menu, and between the menu and the window's edge. */
const kGapPx = 4;

/**
 * A button that opens a menu over everything else. Escape and a click elsewhere close it; the arrow keys, Home and End
 * walk through it.
 */
export function MenuButton({ label, items }: { label: string; items: MenuItem[] }): VNode {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const entries = () => [...(menu.current?.querySelectorAll<HTMLElement>('button:not(:disabled)') ?? [])];
  const close = () => menu.current?.hidePopover();

  const place = () => {
    if (!button.current || !menu.current) return;
    const at = button.current.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = menu.current;
    const below = at.bottom + kGapPx;
    const top = below + height + kGapPx > window.innerHeight ? at.top - kGapPx - height : below;
    const left = Math.min(at.right - width, window.innerWidth - width - kGapPx);
    menu.current.style.top = `${Math.max(kGapPx, top)}px`;
    menu.current.style.left = `${Math.max(kGapPx, left)}px`;
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const all = entries();
    const now = all.indexOf(document.activeElement as HTMLElement);
    const next: Record<string, number> = {
      ArrowDown: (now + 1) % all.length,
      ArrowUp: (now - 1 + all.length) % all.length,
      Home: 0,
      End: all.length - 1,
    };
    const index = next[event.key];
    if (event.key === 'Escape') {
      close();
      button.current?.focus();
    } else if (event.key === 'Tab') {
      close();
      return;
    } else if (index === undefined) {
      return;
    } else {
      all[index]?.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <>
      <button
        ref={button}
        type="button"
        class="icon-button menu-button"
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        popovertarget={id}
      >
        <Icon name="more" />
      </button>
      <div
        ref={menu}
        id={id}
        class="menu"
        role="menu"
        aria-label={label}
        popover="auto"
        onKeyDown={onKeyDown}
        onToggle={(event) => {
          const opens = (event as unknown as ToggleEvent).newState === 'open';
          button.current?.classList.toggle('opens', opens);
          if (!opens) return;
          place();
          entries()[0]?.focus();
        }}
      >
        {items.map((item) => (
          <button
            key={item.label}
            type="button"
            role="menuitem"
            class={item.danger ? 'danger' : ''}
            disabled={item.disabled}
            onClick={() => {
              close();
              item.act();
            }}
          >
            <Icon name={item.icon} size={16} />
            {item.label}
          </button>
        ))}
      </div>
    </>
  );
}
