/** The connection of a provider that pushes JSON over a WebSocket. */

import { type FeedPorts, REPORT_CHARS_MAX } from './feed.ts'
import type { LineHooks } from './line.ts'
import { messageOf } from './request.ts'

/** Opens the socket; returns a function that closes it. */
export function openLine(
  ports: FeedPorts,
  url: string,
  hooks: LineHooks,
  protocol: {
    /** Message that is sent once the connection is open. */
    readonly hello?: string
    /** Handles one message; returns false if it is not part of the provider's protocol. */
    readonly take: (message: unknown, text: string) => boolean
  },
): () => void {
  try {
    const socket = ports.openSocket(url)
    socket.addEventListener('open', () => {
      if (protocol.hello !== undefined) socket.send(protocol.hello)
    })
    socket.addEventListener('message', ({ data }) => {
      hooks.alive()
      const text = typeof data === 'string' && data.length <= REPORT_CHARS_MAX ? data : ''
      let message: unknown
      try {
        message = JSON.parse(text)
      } catch {
        ports.troubled('garbage', text.slice(0, 200))
        return
      }
      if (!protocol.take(message, text)) ports.troubled('garbage', text.slice(0, 200))
    })
    socket.addEventListener('error', () => hooks.over('the connection failed'))
    socket.addEventListener('close', () => hooks.over('the connection was closed'))
    return () => socket.close()
  } catch (error) {
    // The URL is invalid for a WebSocket. Report the error in a later turn of the event loop, because the caller first
    // needs the function that closes the socket.
    ports.clock.after(0, () => hooks.over(messageOf(error)))
    return () => undefined
  }
}
