/** Comlink's view of a Node worker or port, and of the port that a proxy brings with it. */

import { MessageChannel, MessagePort, type Worker } from 'node:worker_threads'
import {
  type Endpoint,
  expose,
  type ProxyMarked,
  proxyMarker,
  type TransferHandler,
  transferHandlers,
  wrap,
} from 'comlink'
import nodeAdapter from 'comlink/dist/umd/node-adapter.js'

// The package ships this adapter as CommonJS whose export is the function itself, while its types
// describe a default export; hence the one cast.
const adapt = nodeAdapter as unknown as (port: MessagePort | Worker) => Endpoint

export function endpointOf(port: MessagePort | Worker): Endpoint {
  return adapt(port)
}

/** Comlink closes what is made as a `MessagePort` when the proxy is released. */
function closingEndpointOf(port: MessagePort): Endpoint {
  return Object.assign(endpointOf(port), { constructor: MessagePort, close: () => port.close() })
}

/**
 * Comlink would listen to the port of a proxy as a browser does. For that Node makes an event of each
 * message, and to make one it loads its whole HTTP client, into every thread.
 */
const proxies: TransferHandler<ProxyMarked, MessagePort> = {
  canHandle: (value): value is ProxyMarked =>
    typeof value === 'object' && value !== null && proxyMarker in value,
  serialize(value) {
    const { port1, port2 } = new MessageChannel()
    expose(value, closingEndpointOf(port1))
    return [port2, [port2 as never]]
  },
  deserialize(port) {
    port.start()
    return wrap(closingEndpointOf(port)) as never
  },
}
transferHandlers.set('proxy', proxies)
