/** Opens a connection to an exchange: a bare one, or one over TLS if its address is `https://`. */

import { connect, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

export type Address = { readonly host: string; readonly port: number; readonly secure: boolean }

export function addressOf(url: string): Address {
  const { hostname, port, protocol } = new URL(url)
  const secure = protocol === 'https:'
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return { host, port: Number(port || (secure ? 443 : 80)), secure }
}

/**
 * Opens the connection. Text that is written before the connection is open is sent as soon as it opens. `localAddress`
 * selects one of the client's IP addresses.
 */
export function dial(
  { host, port, secure }: Address,
  onOpen: () => void,
  localAddress?: string,
): Socket {
  const from = localAddress === undefined ? {} : { localAddress }
  if (!secure) return connect({ host, port, noDelay: true, ...from }, onOpen)
  const socket = connectSecurely(
    { host, port, servername: host, ALPNProtocols: ['http/1.1'] },
    onOpen,
  )
  socket.setNoDelay(true)
  return socket
}
