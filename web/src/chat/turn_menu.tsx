import type { VNode } from 'preact';
import { MenuButton, type MenuItem } from '../elements/menu';
import { deleteTurn, forkAt, isBusy } from './chat_session';

/** What can be done with any message or reply; `own` are the items of its kind alone. */
export function TurnMenu({ id, of, own = [] }: { id: string; of: string; own?: MenuItem[] }): VNode {
  return (
    <MenuButton
      label={`More of this ${of}`}
      items={[
        ...own,
        { icon: 'fork', label: 'Fork from here', act: () => forkAt(id) },
        {
          icon: 'bin',
          label: 'Delete with all that follows',
          act: () => deleteTurn(id),
          disabled: isBusy.value,
          danger: true,
        },
      ]}
    />
  );
}
