import type { VNode } from 'preact';
import type { DiskStats, Pool, Stats } from '../api/stats';
import { bytes, count, percent } from './units';

const kPools: { key: keyof Stats['pools']; label: string }[] = [
  { key: 'pages', label: 'Pages' },
  { key: 'window_pages', label: 'Window pages' },
  { key: 'state_slots', label: 'State slots' },
];

export function Pools({ pools }: { pools: Stats['pools'] }): VNode {
  return (
    <div class="bars">
      {kPools.map(({ key, label }) => (
        <PoolBar key={key} label={label} pool={pools[key]} />
      ))}
      <ul class="legend" aria-hidden="true">
        <li class="of-in-use">in use</li>
        <li class="of-cached">cached</li>
        <li class="of-free">free</li>
      </ul>
    </div>
  );
}

function PoolBar({ label, pool }: { label: string; pool: Pool }): VNode {
  const share = (part: number) => ({ width: `${pool.total > 0 ? (100 * part) / pool.total : 0}%` });
  const words = `${count(pool.in_use)} in use, ${count(pool.cached)} cached, ${count(pool.free)} free`;
  return (
    <div class="bar">
      <span class="bar-label">{label}</span>
      <div class="stack" role="img" aria-label={`${label}: ${words} of ${count(pool.total)}`} title={words}>
        <span class="of-in-use" style={share(pool.in_use)} />
        <span class="of-cached" style={share(pool.cached)} />
      </div>
      <span class="bar-figure">
        {count(pool.in_use)} + {count(pool.cached)} of {count(pool.total)}
      </span>
    </div>
  );
}

/** The pages that went to disk, and what became of them. */
export function DiskTier({ disk }: { disk: DiskStats }): VNode {
  const words = `${bytes(disk.bytes)} in ${count(disk.files)} files`;
  const share = disk.budget_bytes > 0 ? (100 * disk.bytes) / disk.budget_bytes : 0;
  return (
    <div class="bars disk">
      <div class="bar">
        <span class="bar-label">Disk</span>
        <div
          class="stack"
          role="img"
          aria-label={`Disk: ${words} of ${bytes(disk.budget_bytes)}`}
          title={words}
        >
          <span class="of-cached" style={{ width: `${Math.min(100, share)}%` }} />
        </div>
        <span class="bar-figure">
          {bytes(disk.bytes)} of {bytes(disk.budget_bytes)}, {percent(disk.bytes, disk.budget_bytes)}
        </span>
      </div>
      <p class="bar-note">
        {count(disk.files)} files; pages written {count(disk.written_pages)}, read {count(disk.read_pages)},
        dropped {count(disk.dropped_pages)}; files rejected {count(disk.rejected_files)}, evicted{' '}
        {count(disk.evicted_files)}
      </p>
    </div>
  );
}
