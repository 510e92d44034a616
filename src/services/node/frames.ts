/**
 * Format of the NATS messages (frames) in which a link sends its batches. Parts of a frame:
 * - 12 bytes: the name of the link
 * - 4 bytes: the number of the frame in this direction
 * - 1 byte: the kind of the frame
 * - the rest: a piece of a batch
 */

export const LINK_BYTES = 12
export const HEADER_BYTES = LINK_BYTES + 5

/**
 * Kinds of frames. A `mark` states the number of frames sent so far, so that the receiver detects the loss of the last
 * frames.
 */
export const FRAME = { last: 0, more: 1, mark: 2, close: 3 } as const

export type Frame = {
  /** Name of the link as text. */
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

/** Parses a frame; returns undefined if the bytes are invalid. */
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
