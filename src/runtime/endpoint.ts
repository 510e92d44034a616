/** Makes Node workers and ports, including the ports of proxies, usable as Comlink endpoints. */

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

// Comlink ships this adapter as CommonJS that exports the function itself, but its types describe a default export. So
// a cast is needed.
const adapt = nodeAdapter as unknown as (port: MessagePort | Worker) => Endpoint

export function endpointOf(port: MessagePort | Worker): Endpoint {
  return adapt(port)
}

/**
 * Returns an endpoint whose port Comlink closes when the proxy is released. Comlink closes an endpoint only if its
 * class is `MessagePort`, so the endpoint reports this class.
 */
function closingEndpointOf(port: MessagePort): Endpoint {
  return Object.assign(endpointOf(port), { constructor: MessagePort, close: () => port.close() })
}

/**
 * Replaces Comlink's own handler for proxies, which listens to a proxy's port through the browser's event interface.
 * With that interface, Node creates an event object per message, and loads its whole HTTP client into every thread.
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
