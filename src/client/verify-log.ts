/**
 * Verifies receipts, and offline proofs of orders and trades in an exchange's public log. The functions send no
 * requests, so they also work with saved texts. The keys must come from a source that the caller trusts.
 */

import { parseTradeId } from '#domain/ids.ts'
import { openCheckpoint, parseCheckpoint } from '#transparency/checkpoint.ts'
import { findsMatch, findsOrder } from '#transparency/find-event.ts'
import { parseInclusionText, verifyInclusionText } from '#transparency/inclusion-text.ts'
import {
  keyFor,
  type Note,
  parseNote,
  parseVerifierKey,
  type VerifierKey,
} from '#transparency/note.ts'
import { openReceipt, type Receipt, receiptOrigin } from '#transparency/receipt.ts'
import { type LogGet, proveConsistency } from '#transparency/remote-log.ts'
import { SibylError } from './sibyl-error.ts'

export type VerifiedProof = {
  /** Identity of the log. */
  readonly origin: string
  /** Index of the entry, from 0. `size` is the number of entries of the signed checkpoint. */
  readonly index: number
  readonly size: number
  /** Text of the entry: the first line is the entry's head, each other line is one event. */
  readonly entry: string
  /** Names of the given witnesses that have cosigned the checkpoint. */
  readonly cosigners: readonly string[]
  /** The signed checkpoint. A client that keeps it can later detect that the log was rewritten. */
  readonly checkpoint: string
}

/** The order or trade that the proof must contain, and the trusted verifier keys (`name+id+key`). */
export type ProofTerms = ({ readonly orderHash: string } | { readonly tradeId: string }) & {
  readonly keys: readonly string[]
  /** Verifier keys of witnesses. */
  readonly witnesses?: readonly string[]
}

/**
 * Verifies an offline proof and returns its content. Checks that the log signed the checkpoint, that the log includes
 * the entry, and that the entry contains the order or the trade's match. Throws `INVALID_PROOF` if a check fails.
 */
export function verifyProof(text: string, terms: ProofTerms): VerifiedProof {
  return checking('INVALID_PROOF', () => {
    const checkpoint = parseInclusionText(text)?.checkpoint ?? ''
    const opened = parseCheckpoint(checkpoint)
    const key = keyOf(opened?.note, opened?.head.origin, terms.keys)
    const witnesses = (terms.witnesses ?? []).map(readKey)
    const { entry, index, head, cosigners } = verifyInclusionText(text, key, witnesses)
    if (!holds(terms)(entry))
      throw new Error('the proof is for another entry, which does not contain this order or trade')
    const read = new TextDecoder().decode(entry)
    return { origin: head.origin, index, size: head.size, entry: read, cosigners, checkpoint }
  })
}

/**
 * Verifies the signature of a receipt and returns the receipt's content. Throws `INVALID_RECEIPT` if the
 * receipt is invalid.
 */
export function verifyReceipt(text: string, terms: Pick<ProofTerms, 'keys'>): Receipt {
  return checking('INVALID_RECEIPT', () =>
    openReceipt(text, keyOf(parseNote(text), receiptOrigin(text), terms.keys)),
  )
}

function holds(terms: ProofTerms): (entry: Uint8Array) => boolean {
  if ('orderHash' in terms) return findsOrder(terms.orderHash)
  const trade = parseTradeId(terms.tradeId)
  if (trade === undefined)
    throw new Error(
      'tradeId must consist of the market id, the sequence number and the number of the fill, joined by hyphens',
    )
  return findsMatch(trade.marketId, trade.sequence, trade.fillIndex)
}

function readKey(text: string): VerifierKey {
  const key = parseVerifierKey(text)
  if (key === undefined)
    throw new Error(`'${text.slice(0, 60)}' is not a verifier key (name+id+key)`)
  return key
}

/**
 * Verifies that the log only grew between two checkpoints: the smaller tree must be the beginning of the larger tree.
 * The checkpoints may be passed in any order. Throws `INVALID_PROOF` if the check fails. `get` reads files of the log.
 * The source of these files need not be trusted.
 */
export async function verifyGrowth(
  one: string,
  other: string,
  { keys, get }: { readonly keys: readonly string[]; readonly get: LogGet },
): Promise<void> {
  try {
    const [first, second] = [one, other].map((text) => {
      const opened = parseCheckpoint(text)
      return openCheckpoint(text, keyOf(opened?.note, opened?.head.origin, keys))
    })
    const [older, newer] =
      first!.head.size <= second!.head.size ? [first!, second!] : [second!, first!]
    const key = keyOf(newer.note, newer.head.origin, keys)
    await proveConsistency({ get, key }, older, newer)
  } catch (error) {
    // A failed request does not mean that the proof is invalid, so the request's error is rethrown.
    throw error instanceof SibylError ? error : invalid('INVALID_PROOF', error)
  }
}

function keyOf(
  note: Note | undefined,
  origin: string | undefined,
  keys: readonly string[],
): VerifierKey {
  if (origin === undefined) throw new Error('the proof, receipt or checkpoint is malformed')
  const found = keyFor(note, origin, keys.map(readKey))
  if (found === undefined) throw new Error(`no trusted key belongs to ${origin}`)
  return found
}

function checking<Result>(code: string, check: () => Result): Result {
  try {
    return check()
  } catch (error) {
    throw invalid(code, error)
  }
}

function invalid(code: string, error: unknown): SibylError {
  const message = error instanceof Error ? error.message : String(error)
  return new SibylError(code, message, { cause: error })
}
