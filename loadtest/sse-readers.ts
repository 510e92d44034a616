/**
 * Very many readers of a price stream in one process, which only count the events that they receive. They search the
 * bytes for the text that begins an event and parse nothing, to leave the cores to the server.
 */

import { connect } from 'node:net'

export type ToSseReaders =
  | { readonly open: number; readonly port: number }
  /** Requests a `done` message when each reader has received this many more events. */
  | { readonly expect: number }

const MARK = Buffer.from('data: ')
let readers = 0
/**
 * `goal` is the number of events that each reader has to receive. `missing` is the number of readers that have not
 * reached it.
 */
let goal = 0
let missing = 0
const done = (): void => void process.send?.({ done: true })

type Reader = { got: number; tail: Buffer }

function take(reader: Reader, chunk: Buffer): void {
  // A chunk may end in the middle of the text that begins an event. So the search includes the end of the previous
  // chunk.
  const data = reader.tail.length === 0 ? chunk : Buffer.concat([reader.tail, chunk])
  let at = 0
  for (let found = data.indexOf(MARK, at); found >= 0; found = data.indexOf(MARK, at)) {
    at = found + MARK.length
    if (++reader.got === goal && --missing === 0) done()
  }
  reader.tail = Buffer.from(data.subarray(Math.max(at, data.length - MARK.length + 1)))
}

/** Opens a reader; resolves when it has received its first event. */
function open(port: number, all: Reader[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const reader: Reader = { got: -1, tail: Buffer.alloc(0) }
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', reject)
    socket.on('data', (chunk: Buffer) => {
      const before = reader.got
      take(reader, chunk)
      if (before < 0 && reader.got >= 0) {
        all.push(reader)
        resolve()
      }
    })
    socket.write('GET /api/v1/quick-markets/BTC/price-stream HTTP/1.1\r\nHost: x\r\n\r\n')
  })
}

const all: Reader[] = []
process.on('message', async (message: ToSseReaders) => {
  if ('open' in message) {
    for (; readers < message.open; readers += 100) {
      const some = Math.min(100, message.open - readers)
      await Promise.all(Array.from({ length: some }, () => open(message.port, all)))
    }
    done()
  } else {
    goal += message.expect
    missing = all.filter(({ got }) => got < goal).length
    if (missing === 0) done()
  }
})
process.on('disconnect', () => process.exit(0))
