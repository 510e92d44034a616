/** Comlink's view of a Node worker or port. */

import type { MessagePort, Worker } from 'node:worker_threads'
import type { Endpoint } from 'comlink'
import nodeAdapter from 'comlink/dist/umd/node-adapter.js'

// The package ships this adapter as CommonJS whose export is the function itself, while its types
// describe a default export; hence the one cast.
const adapt = nodeAdapter as unknown as (port: MessagePort | Worker) => Endpoint

export function endpointOf(port: MessagePort | Worker): Endpoint {
  return adapt(port)
}
