// Starts the real server on a free port, and ends it by its process id.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const START_MS = 60_000;
const STOP_MS = 10_000;

/** The name under which the bundled model is served: its folder's. */
export const MODEL = 'stories';
/** Positions its cache holds, so that a prompt can be too long. */
export const CONTEXT = 4096;

/**
 * BALEEN names the program; otherwise the release build. The server writes to this process's standard error.
 * @returns {Promise<{url: string, stop: () => Promise<void>}>}
 */
export async function startServer() {
  const program = path.resolve(root, process.env.BALEEN ?? 'build/release/src/app/baleen');
  const options = ['serve', '--port', '0', '--model', 'models/stories', '--context', String(CONTEXT), '--quiet'];
  const child = spawn(program, options, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  // A test runner that dies must not leave a server behind.
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);

  const listening = new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${program} did not listen within ${START_MS} ms`)), START_MS);
    const settle = (act) => (value) => {
      clearTimeout(late);
      act(value);
    };
    child.once('error', settle(reject));
    child.once('exit', settle((status) => reject(new Error(`${program} ended with status ${status} before it listened`))));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const match = /^listening on (http:\/\/\S+)$/.exec(line);
      if (match) settle(resolve)(match[1]);
    });
  });
  const stop = async () => {
    child.kill('SIGTERM');
    const late = setTimeout(kill, STOP_MS);
    await ended;
    clearTimeout(late);
    process.removeListener('exit', kill);
  };
  try {
    return { url: await listening, stop };
  } catch (error) {
    kill();
    throw error;
  }
}
