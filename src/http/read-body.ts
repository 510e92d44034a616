/** The bytes of a request's body, from what its headers announce to the last chunk. */

import type { HttpRequest } from 'uWebSockets.js'
import { reject } from '#domain/rejection.ts'
import type { Call, Sender } from './call.ts'

type BodyReader = {
  /** Whether a body as it is announced may come; one that may not is refused here. */
  isWelcome(call: Call, req: HttpRequest): boolean
  /** Hands the whole body over, in the call that brings its last chunk. */
  read(call: Call, arrived: (call: Call, body: ArrayBuffer | Buffer) => void): void
}

/** An announced body beyond this is not read to its end; the connection is closed instead. */
const DISCARDED_BYTES_MAX = 8 * 1024 * 1024

const JSON_MEDIA = /^application\/json(?:\s*;\s*charset\s*=\s*"?utf-?8"?)?\s*;?\s*$/i
const LENGTH = /^[0-9]{1,15}$/

export function makeBodyReader(options: {
  readonly bytesMax: number
  readonly hold: (call: Call) => void
  readonly sendRejection: Sender['sendRejection']
}): BodyReader {
  const { bytesMax, hold, sendRejection } = options
  return {
    isWelcome(call, req) {
      const length = req.getHeader('content-length')
      const chunked = req.getHeader('transfer-encoding') !== ''
      const announced = LENGTH.test(length) ? Number(length) : 0
      if (announced > bytesMax) {
        // The rest of a body of reasonable length is read and thrown away, because closing on a
        // client that still writes would cost it the answer.
        call.closeAfter = announced > DISCARDED_BYTES_MAX
        sendRejection(call, reject('BODY_TOO_LARGE'))
        return false
      }
      if (announced > 0 || chunked) {
        if (!JSON_MEDIA.test(req.getHeader('content-type'))) {
          sendRejection(call, reject('UNSUPPORTED_MEDIA_TYPE'))
          return false
        }
      }
      return true
    },

    read(call, arrived) {
      let kept: Buffer[] | undefined
      let bytes = 0
      hold(call)
      call.phase = 'reading'
      call.res.onData((chunk, isLast) => {
        if (call.phase !== 'reading') return
        bytes += chunk.byteLength
        if (bytes > bytesMax) {
          kept = undefined
          if (!isLast && bytes <= DISCARDED_BYTES_MAX) return
          call.closeAfter = !isLast
          sendRejection(call, reject('BODY_TOO_LARGE'))
          return
        }
        if (!isLast) {
          // The chunk's memory is the library's; it is only ours until this function returns.
          kept ??= []
          kept.push(Buffer.from(Buffer.from(chunk)))
          return
        }
        arrived(call, kept === undefined ? chunk : Buffer.concat([...kept, Buffer.from(chunk)]))
      })
    },
  }
}
