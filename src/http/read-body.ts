/** Reads the body of a request, from the announced length to the last chunk. */

import type { HttpRequest } from 'uWebSockets.js'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Call, Sender } from './call.ts'
import { isJsonType } from './header-values.ts'

type BodyReader = {
  /** Returns whether the length of the body is unambiguous; refuses the request if not. */
  isFramed(call: Call, req: HttpRequest): boolean
  /** Returns whether the announced length and type of the body are acceptable; refuses the request if not. */
  isWelcome(call: Call, req: HttpRequest): boolean
  /** Reads the body, and calls `arrived` with the whole body when the last chunk is delivered. */
  read(call: Call, arrived: (call: Call, body: ArrayBuffer | Buffer) => void): void
}

/**
 * Maximum announced length in bytes of a refused body that is still read to its end. For a longer body the connection
 * is closed instead.
 */
const DISCARDED_BYTES_MAX = 8 * 1024 * 1024

const LENGTH = /^[0-9]{1,15}$/

/**
 * Returns a rejection if the end of the body is ambiguous. Otherwise a proxy in front of the exchange could treat a
 * part of the body as a second request. If a request has two lengths, the library uses the first. If the first length
 * is empty, the library assumes no body. The library treats every encoding that ends in `chunked` as chunked. All
 * header lines are scanned, because a look-up by name cannot distinguish an empty header from a missing one.
 */
function framingFlaw(req: HttpRequest): Rejection | undefined {
  let [lengths, encodings] = [0, 0]
  let [length, encoding] = ['', '']
  req.forEach((name, value) => {
    if (name === 'content-length') {
      lengths++
      length = value
    } else if (name === 'transfer-encoding') {
      encodings++
      encoding = value
    }
  })
  if (lengths > 1 || (lengths === 1 && !LENGTH.test(length))) {
    return reject(
      'INVALID_FIELD',
      'content-length',
      'the header content-length must be one whole number',
    )
  }
  if (encodings === 0 || (encodings === 1 && lengths === 0 && encoding === 'chunked')) {
    return undefined
  }
  const detail =
    'the header transfer-encoding must be chunked, and content-length must then be absent'
  return reject('INVALID_FIELD', 'transfer-encoding', detail)
}

export function makeBodyReader(options: {
  readonly hold: (call: Call) => void
  readonly sendRejection: Sender['sendRejection']
}): BodyReader {
  const { hold, sendRejection } = options

  function tooLarge(call: Call): void {
    const detail = `the request body must have at most ${call.compiled.bodyBytesMax} bytes`
    sendRejection(call, reject('BODY_TOO_LARGE', undefined, detail))
  }

  return {
    isFramed(call, req) {
      const flaw = framingFlaw(req)
      // The library accepts chunks that are not separated correctly. A proxy in front may find a different end of such
      // a body. So a connection with a chunked body is closed after its answer.
      call.endsConnection = flaw !== undefined || req.getHeader('transfer-encoding') !== ''
      if (flaw !== undefined) sendRejection(call, flaw)
      return flaw === undefined
    },

    isWelcome(call, req) {
      const { bodyBytesMax } = call.compiled
      const length = req.getHeader('content-length')
      const chunked = req.getHeader('transfer-encoding') !== ''
      const announced = LENGTH.test(length) ? Number(length) : 0
      if (announced > bodyBytesMax) {
        // A refused body of reasonable length is read to its end and discarded. If the connection were closed while the
        // client still writes, the client would not receive the answer.
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
          // The library owns the chunk's memory, which is valid only until this function returns, so the chunk is
          // copied.
          kept ??= []
          kept.push(Buffer.from(Buffer.from(chunk)))
          return
        }
        arrived(call, kept === undefined ? chunk : Buffer.concat([...kept, Buffer.from(chunk)]))
      })
    },
  }
}
