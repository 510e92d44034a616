/** Reads the body of a request, from the announced length to the last chunk. */

import type { HttpRequest } from 'uWebSockets.js'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Call, Sender } from './call.ts'
import { isJsonType } from './header-values.ts'

type BodyReader = {
  /** Returns whether the length of the body is unambiguous; refuses the request if not. */
  isFramed(call: Call, req: HttpRequest): boolean
  /** Returns whether the announced body is acceptable; refuses the request if not. */
  isWelcome(call: Call, req: HttpRequest): boolean
  /** Passes on the whole body, in the call that delivers its last chunk. */
  read(call: Call, arrived: (call: Call, body: ArrayBuffer | Buffer) => void): void
}

/** A longer announced body is not read to its end; the connection is closed instead. */
const DISCARDED_BYTES_MAX = 8 * 1024 * 1024

const LENGTH = /^[0-9]{1,15}$/

/**
 * Returns why the end of the body is ambiguous. The library uses the first of two lengths, and treats any encoding
 * that ends in `chunked` as chunked. A proxy in front may decide otherwise and see another request begin in the body.
 */
function framingFlaw(req: HttpRequest): Rejection | undefined {
  const [length, encoding] = [req.getHeader('content-length'), req.getHeader('transfer-encoding')]
  // Most reads have neither header, and scanning all headers would be half of their cost.
  if (length === '' && encoding === '' && req.getMethod() === 'get') return undefined
  let [lengths, encodings] = [0, 0]
  req.forEach((name) => {
    if (name === 'content-length') lengths++
    else if (name === 'transfer-encoding') encodings++
  })
  if (lengths > 1 || (lengths === 1 && !LENGTH.test(length))) {
    return reject('INVALID_FIELD', 'content-length', 'content-length must be one whole number')
  }
  if (encodings === 0 || (encodings === 1 && lengths === 0 && encoding === 'chunked')) {
    return undefined
  }
  const detail = 'transfer-encoding must be chunked, and stand without content-length'
  return reject('INVALID_FIELD', 'transfer-encoding', detail)
}

export function makeBodyReader(options: {
  readonly hold: (call: Call) => void
  readonly sendRejection: Sender['sendRejection']
}): BodyReader {
  const { hold, sendRejection } = options

  function tooLarge(call: Call): void {
    const detail = `the body must be at most ${call.compiled.bodyBytesMax} bytes`
    sendRejection(call, reject('BODY_TOO_LARGE', undefined, detail))
  }

  return {
    isFramed(call, req) {
      const flaw = framingFlaw(req)
      if (flaw === undefined) return true
      // The start of the next request is unknown. After an answer the library would serve the rest of the packet;
      // without an answer it closes the connection.
      call.closeAfter = true
      hold(call)
      call.phase = 'handling'
      setImmediate(() => {
        if (call.phase === 'handling') call.res.cork(() => sendRejection(call, flaw))
      })
      return false
    },

    isWelcome(call, req) {
      const { bodyBytesMax } = call.compiled
      const length = req.getHeader('content-length')
      const chunked = req.getHeader('transfer-encoding') !== ''
      const announced = LENGTH.test(length) ? Number(length) : 0
      if (announced > bodyBytesMax) {
        // The rest of a body of reasonable length is read and discarded: closing while the client still writes would
        // lose the answer.
        call.closeAfter = announced > DISCARDED_BYTES_MAX
        tooLarge(call)
        return false
      }
      if (announced > 0 || chunked) {
        if (!isJsonType(req.getHeader('content-type'))) {
          sendRejection(call, reject('UNSUPPORTED_MEDIA_TYPE'))
          return false
        }
      }
      return true
    },

    read(call, arrived) {
      let kept: Buffer[] | undefined
      let bytes = 0
      const { bodyBytesMax } = call.compiled
      hold(call)
      call.phase = 'reading'
      call.res.onData((chunk, isLast) => {
        if (call.phase !== 'reading') return
        bytes += chunk.byteLength
        if (bytes > bodyBytesMax) {
          kept = undefined
          if (!isLast && bytes <= DISCARDED_BYTES_MAX) return
          call.closeAfter = !isLast
          tooLarge(call)
          return
        }
        if (!isLast) {
          // The chunk's memory belongs to the library and is valid until this function returns.
          kept ??= []
          kept.push(Buffer.from(Buffer.from(chunk)))
          return
        }
        arrived(call, kept === undefined ? chunk : Buffer.concat([...kept, Buffer.from(chunk)]))
      })
    },
  }
}
