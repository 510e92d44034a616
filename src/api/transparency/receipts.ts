/**
 * Receipts in the answers to writes: a client requests one with the header `Accept-Receipt: 1`, or with the field
 * `receipt` on the stream.
 */

import type { Receipt } from '#transparency/receipt.ts'

/** Header by which a client asks for a receipt. */
export const ACCEPT_RECEIPT = 'accept-receipt'

/** Signs a receipt. Returns undefined if the log is not public, or if the log's name is not known yet. */
export type Receipts = (receipt: Omit<Receipt, 'origin' | 'atMs'>) => string | undefined

/** An answer to a write, with the market and the market's sequence number if the front knows them. */
type Answered = {
  readonly status: Receipt['status']
  readonly orderHash: Receipt['orderHash']
  readonly marketId?: Receipt['marketId']
  readonly seq?: number
}

/** Returns whether the headers of a request ask for a receipt. */
export function wantsReceipt(headers: Readonly<Record<string, string>>): boolean {
  return headers[ACCEPT_RECEIPT] === '1'
}

/** Returns the answer, with a receipt if the request asked for one and the receipt can be signed. */
export function withReceipt<Answer extends Answered>(
  answer: Answer,
  isWanted: boolean,
  sign: Receipts | undefined,
): Answer & { receipt?: string } {
  const { status, orderHash, marketId, seq } = answer
  if (!isWanted || marketId === undefined || seq === undefined) return answer
  const receipt = sign?.({ status, orderHash, marketId, seq })
  return receipt === undefined ? answer : { ...answer, receipt }
}
