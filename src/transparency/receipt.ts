/**
 * Receipts are signed notes. With a receipt, the exchange promises that its public log has the event that accepted or
 * cancelled an order, or gets this event within seconds. If the log never contains the event, the receipt proves that
 * the promise was broken.
 */

import type { MarketId, OrderHash } from '#domain/ids.ts'
import { parseDecimal } from './checkpoint.ts'
import { isSignedBy, parseNote, type VerifierKey } from './note.ts'

const HEADER = 'sibyl.receipt/v1'

export type Receipt = {
  /** Identity of the log. */
  readonly origin: string
  readonly status: 'accepted' | 'cancelled'
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  /** The promised event has at most this sequence number in its market. */
  readonly seq: number
  /** Time at which the exchange answered. */
  readonly atMs: number
}

/**
 * Returns the text to be signed. The first line distinguishes a receipt from a checkpoint, because the same key signs
 * both.
 */
export function receiptText({ origin, status, orderHash, marketId, seq, atMs }: Receipt): string {
  const lines = [HEADER, origin, `${status} ${orderHash}`, `market ${marketId}`]
  return `${[...lines, `seq ${seq}`, `time ${atMs}`].join('\n')}\n`
}

/**
 * Returns the origin of the log that a receipt names, without verifying the signature; undefined if the receipt is
 * malformed.
 */
export function receiptOrigin(text: string): string | undefined {
  return parseReceipt(parseNote(text)?.text ?? '')?.origin
}

/**
 * Reads a receipt of the key's log. Throws if the receipt is malformed, belongs to another log, or is not signed by the
 * key.
 */
export function openReceipt(text: string, key: VerifierKey): Receipt {
  const note = parseNote(text)
  const receipt = parseReceipt(note?.text ?? '')
  if (note === undefined || receipt === undefined) throw new Error('the receipt is malformed')
  if (receipt.origin !== key.name)
    throw new Error(`the receipt belongs to the log ${receipt.origin}, not to ${key.name}`)
  if (!isSignedBy(note, key)) throw new Error('the receipt is not signed by the key of the log')
  return receipt
}

function parseReceipt(text: string): Receipt | undefined {
  const [, origin = '', status = '', orderHash = '', marketId = '', seqText = '', timeText = ''] =
    /^sibyl\.receipt\/v1\n([^\n]+)\n(accepted|cancelled) (0x[0-9a-f]{64})\nmarket (0x[0-9a-f]{64})\nseq ([0-9]+)\ntime ([0-9]+)\n$/.exec(
      text,
    ) ?? []
  const seq = parseDecimal(seqText)
  const atMs = parseDecimal(timeText)
  if (origin === '' || seq === undefined || atMs === undefined) return undefined
  return {
    ...{ origin, seq, atMs, status: status as Receipt['status'] },
    ...{ orderHash: orderHash as OrderHash, marketId: marketId as MarketId },
  }
}
