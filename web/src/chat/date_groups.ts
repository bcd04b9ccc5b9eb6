/** Conversations under the headings that people look for: today, yesterday, then coarser and coarser. */
import { lastSaid, type Conversation } from './conversation';

export interface DateGroup {
  label: string;
  conversations: Conversation[];
}

/** Days before today that a heading covers, the nearest first. */
const kNear: { days: number; label: string }[] = [
  { days: 0, label: 'Today' },
  { days: 1, label: 'Yesterday' },
  { days: 7, label: 'Previous 7 days' },
  { days: 30, label: 'Previous 30 days' },
];

/** The beginning of the day that lies `days` before that of `now`, by the calendar: days of 23 hours count as one. */
function dayStart(now: number, days: number): number {
  const date = new Date(now);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() - days).getTime();
}

function labelOf(time: number, now: number): string {
  const near = kNear.find(({ days }) => time >= dayStart(now, days));
  return near?.label ?? new Date(time).toLocaleDateString('en', { month: 'long', year: 'numeric' });
}

/** Newest first, in all groups together. */
export function groupByDate(conversations: readonly Conversation[], now: number): DateGroup[] {
  const dated = conversations.map((conversation) => ({ conversation, time: lastSaid(conversation) }));
  dated.sort((a, b) => b.time - a.time);
  const groups: DateGroup[] = [];
  for (const { conversation, time } of dated) {
    const label = labelOf(time, now);
    const last = groups.at(-1);
    if (last?.label === label) last.conversations.push(conversation);
    else groups.push({ label, conversations: [conversation] });
  }
  return groups;
}
