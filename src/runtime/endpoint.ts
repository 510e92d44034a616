/** Adapts a Node worker or port, and the port of a proxy, to Comlink. */

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

// The package ships this adapter as CommonJS that exports the function itself, but its types describe a default export.
// So a cast is needed.
const adapt = nodeAdapter as unknown as (port: MessagePort | Worker) => Endpoint

export function endpointOf(port: MessagePort | Worker): Endpoint {
  return adapt(port)
}

/**
 * Returns an endpoint that Comlink closes when the proxy is released. Comlink closes only objects whose class is
 * `MessagePort`.
 */
function closingEndpointOf(port: MessagePort): Endpoint {
  return Object.assign(endpointOf(port), { constructor: MessagePort, close: () => port.close() })
}

/**
 * Replaces Comlink's own handling of proxies, which would listen to a proxy's port through the browser's interface.
 * With that interface, Node creates an event per message, and loads its whole HTTP client into every thread.
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
