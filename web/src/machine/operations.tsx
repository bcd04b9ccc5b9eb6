import type { VNode } from 'preact';
import type { Operation } from '../api/stats';
import { count, duration, percent } from './units';

/** Where the time went, most first. */
export function Operations({ operations }: { operations: readonly Operation[] }): VNode {
  const called = operations.filter(({ calls }) => calls > 0).sort((a, b) => b.seconds - a.seconds);
  if (called.length === 0) return <p class="nothing">No operation has run yet.</p>;
  const whole = called.reduce((sum, { seconds }) => sum + seconds, 0);
  const most = Math.max(...called.map(({ seconds }) => seconds));
  return (
    <table class="operations">
      <thead>
        <tr>
          <th scope="col">Operation</th>
          <th scope="col">Share of the time</th>
          <th scope="col">A call</th>
          <th scope="col">GB/s</th>
          <th scope="col">GFLOP/s</th>
        </tr>
      </thead>
      <tbody>
        {called.map((operation) => (
          <Row key={operation.name} operation={operation} whole={whole} most={most} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ operation, whole, most }: { operation: Operation; whole: number; most: number }): VNode {
  const { name, calls, seconds, bytes, flops } = operation;
  const rate = (amount: number) => (seconds > 0 && amount > 0 ? (amount / seconds / 1e9).toFixed(1) : '–');
  return (
    <tr title={`${count(calls)} calls, ${duration(seconds)}`}>
      <th scope="row">{name}</th>
      <td class="share">
        <div>
          <span class="share-bar" style={{ width: `${most > 0 ? (100 * seconds) / most : 0}%` }} />
          <span class="share-figure">{percent(seconds, whole)}</span>
        </div>
      </td>
      <td>{duration(seconds / calls)}</td>
      <td>{rate(bytes)}</td>
      <td>{rate(flops)}</td>
    </tr>
  );
}
