/**
 * How a link's batches lie in messages of NATS. A frame is 12 bytes that name the link, 4 that count its
 * frames in this direction, one that says what it is, and a piece of a batch.
 */

export const LINK_BYTES = 12
export const HEADER_BYTES = LINK_BYTES + 5

/** What a frame is. A mark says how many frames there were, so that the loss of the last is seen. */
export const FRAME = { last: 0, more: 1, mark: 2, close: 3 } as const

export type Frame = {
  /** The link's name as text. */
  readonly link: string
  readonly number: number
  readonly kind: number
  readonly body: Buffer
}

export function frameOf(link: Buffer, number: number, kind: number, body?: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + (body?.byteLength ?? 0))
  link.copy(frame)
  frame.writeUInt32LE(number >>> 0, LINK_BYTES)
  frame[LINK_BYTES + 4] = kind
  if (body !== undefined) frame.set(body, HEADER_BYTES)
  return frame
}

/** Undefined where it is none. */
export function readFrame(bytes: Uint8Array): Frame | undefined {
  if (bytes.byteLength < HEADER_BYTES) return undefined
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return {
    link: linkName(frame),
    number: frame.readUInt32LE(LINK_BYTES),
    kind: frame[LINK_BYTES + 4] as number,
    body: frame.subarray(HEADER_BYTES),
  }
}

export function linkName(link: Buffer): string {
  return link.toString('latin1', 0, LINK_BYTES)
}
