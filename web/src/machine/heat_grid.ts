export interface HeatCell {
  layer: number;
  expert: number;
}

/** Where the cells of the heat map stand, in pixels. */
export interface HeatGrid {
  /** Room for the numbers of the layers. */
  left: number;
  cell: number;
  row: number;
}

export function cellAt(grid: HeatGrid, load: readonly number[][], x: number, y: number): HeatCell | null {
  if (grid.cell <= 0 || x < grid.left || y < 0) return null;
  const layer = Math.floor(y / grid.row);
  const expert = Math.floor((x - grid.left) / grid.cell);
  return load[layer]?.[expert] === undefined ? null : { layer, expert };
}

/** The cell that an arrow key leads to, within the map; the first one from nowhere; null for other keys. */
export function cellBeside(load: readonly number[][], from: HeatCell | null, key: string): HeatCell | null {
  const steps: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  };
  const step = steps[key];
  if (!step) return null;
  const next = from
    ? { layer: from.layer + step[0], expert: from.expert + step[1] }
    : { layer: 0, expert: 0 };
  return load[next.layer]?.[next.expert] === undefined ? from : next;
}

/** The expert that does most beyond the mean of its layer; null when nothing was counted. */
export function evenness(load: readonly number[][]): { layer: number; expert: number; ratio: number } | null {
  let worst: { layer: number; expert: number; ratio: number } | null = null;
  load.forEach((row, layer) => {
    const total = row.reduce((sum, tokens) => sum + tokens, 0);
    if (total === 0) return;
    row.forEach((tokens, expert) => {
      const ratio = (tokens * row.length) / total;
      if (worst === null || ratio > worst.ratio) worst = { layer, expert, ratio };
    });
  });
  return worst;
}
