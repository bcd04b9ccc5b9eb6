// packaging/replicas/haproxy.cfg as it is: it takes its addresses from the environment.
import { testProxy } from './replicas.mjs';

testProxy({
  recipe: 'haproxy.cfg',
  configure: (text) => text,
  start: (file) => ['-db', '-f', file],
  environment: (ports, port) => ({
    BALEEN_LISTEN: `127.0.0.1:${port}`,
    BALEEN_A: `127.0.0.1:${ports[0]}`,
    BALEEN_B: `127.0.0.1:${ports[1]}`,
    BALEEN_C: `127.0.0.1:${ports[2]}`,
  }),
});
