/**
 * A node's connection with signed messages. Each message ends with an HMAC over its subject and its bytes.
 * All nodes of a cluster share the key of the HMAC, and a message with a wrong HMAC is dropped. So a client
 * without the key cannot impersonate a node, even if it can publish on the cluster's subjects. Messages are
 * not encrypted: use `tls://` for that.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import type { NodeLine } from './node-line.ts'

/** 128 bits of an HMAC-SHA256. */
const SIGNATURE_BYTES = 16

/** Wraps a connection so that its messages are signed. Calls `refused` for each message that is dropped. */
export function signLine(line: NodeLine, key: string, refused: () => void): NodeLine {
  const secret = Buffer.from(key.replace(/^0x/, ''), 'hex')

  function signatureOf(context: string, bytes: Uint8Array): Buffer {
    const mac = createHmac('sha256', secret).update(`${context}\n`).update(bytes)
    return mac.digest().subarray(0, SIGNATURE_BYTES)
  }

  function sign(context: string, bytes: Uint8Array): Buffer {
    return Buffer.concat([bytes, signatureOf(context, bytes)])
  }

  /** Returns the message without its signature; undefined if the signature is wrong. */
  function open(context: string, signed: Uint8Array): Uint8Array | undefined {
    const end = signed.byteLength - SIGNATURE_BYTES
    if (end >= 0) {
      const bytes = signed.subarray(0, end)
      if (timingSafeEqual(signed.subarray(end), signatureOf(context, bytes))) return bytes
    }
    refused()
    return undefined
  }

  /**
   * Returns the context of an answer's signature. The context includes the signature of the request, so the answer is
   * valid for this request only.
   */
  const answerTo = (subject: string, question: Uint8Array): string =>
    `answer ${subject} ${Buffer.from(question.subarray(-SIGNATURE_BYTES)).toString('hex')}`

  return {
    payloadMax: line.payloadMax - SIGNATURE_BYTES,
    get isConnected() {
      return line.isConnected
    },
    publish: (subject, bytes) => line.publish(subject, sign(subject, bytes)),
    subscribe(subject, handle) {
      line.subscribe(subject, (signed, answer) => {
        const bytes = open(subject, signed)
        if (bytes === undefined) return
        if (answer === undefined) handle(bytes)
        else handle(bytes, (reply) => answer(sign(answerTo(subject, signed), reply)))
      })
    },
    async request(subject, bytes, timeoutMs) {
      const question = sign(subject, bytes)
      const answer = await line.request(subject, question, timeoutMs)
      return answer === undefined ? undefined : open(answerTo(subject, question), answer)
    },
    close: () => line.close(),
  }
}
