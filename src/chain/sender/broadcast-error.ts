/**
 * Classifies a node's answer to a broadcast. Different nodes use different error texts, with only a few words in
 * common. So the messages of the error and of all its causes are searched for these words.
 */

import { BaseError } from 'viem'

/**
 * Meaning of a node's answer to a broadcast:
 * - `known`: the node already has this transaction.
 * - `passed`: a block already has this transaction, or another one with the same nonce.
 * - `underpriced`: the fee is below the base fee, or too low to replace another transaction with this nonce.
 * - `early`: the node lacks transactions with lower nonces.
 * - `poor`: the account cannot pay.
 * - `refused`: the node will never accept this transaction as it is.
 * - `unreachable`: it is unknown whether the node has the transaction.
 */
type BroadcastAnswer =
  | 'known'
  | 'passed'
  | 'underpriced'
  | 'early'
  | 'poor'
  | 'refused'
  | 'unreachable'

const WORDS: readonly (readonly [RegExp, BroadcastAnswer])[] = [
  [/already known|already imported|known transaction|alreadyknown/i, 'known'],
  [/nonce (is )?too low|nonce has already been used|oldnonce|invalid nonce.*expected/i, 'passed'],
  [
    /underpriced|replacement (fee|transaction).*too low|fee too low|gas price too low|less than block base fee|max fee per gas less|maxfeepergas.*(too low|less than)/i,
    'underpriced',
  ],
  [/nonce (is )?too high|nonce gap|future nonce/i, 'early'],
  [/insufficient funds|doesn't have enough funds|not enough (funds|balance)/i, 'poor'],
  [
    /exceeds (the )?(block )?gas limit|gas limit (is )?too (high|large)|transaction gas limit|intrinsic gas|gas limit is \d+ and exceeds|exceeds (the )?transaction gas cap|oversized|invalid (sender|chain id|signature)|rlp|tx type not supported|transaction type not supported|max priority fee per gas higher/i,
    'refused',
  ],
]

export function broadcastAnswer(error: unknown): BroadcastAnswer {
  const text = everythingSaid(error)
  for (const [words, answer] of WORDS) if (words.test(text)) return answer
  return 'unreachable'
}

/** Returns the messages of an error and of all its causes, down to the node's own message. */
export function everythingSaid(error: unknown): string {
  const said: string[] = []
  let each = error
  for (let depth = 0; depth < 10 && each instanceof Error; depth++) {
    said.push(each instanceof BaseError ? `${each.shortMessage} ${each.details}` : each.message)
    each = each.cause
  }
  if (!(each instanceof Error) && each !== undefined && each !== null) {
    said.push(typeof each === 'object' && 'message' in each ? String(each.message) : String(each))
  }
  return said.join('\n')
}

/** Returns the error as one short line for error messages. */
export function shortly(error: unknown): string {
  if (error instanceof BaseError) return error.details || error.shortMessage
  return error instanceof Error ? error.message : String(error)
}
