/**
 * What a node means when it does not take a transaction. Nodes agree on little but a few words, so
 * those are looked for in everything that the error says, all the way down.
 */

import { BaseError } from 'viem'

/**
 * - `known`: it has this very transaction.
 * - `passed`: the nonce is used up; this transaction or another one with it is in a block.
 * - `underpriced`: it has another one with this nonce, and wants to be paid more to replace it.
 * - `early`: it has not seen the transactions of the nonces before.
 * - `poor`: the account cannot pay.
 * - `refused`: it will never take this transaction, as it stands.
 * - `unreachable`: it is unknown whether the node has it.
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

/** Everything that an error says, all the way down to the node's own words. */
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

/** One line of it, for people. */
export function shortly(error: unknown): string {
  if (error instanceof BaseError) return error.details || error.shortMessage
  return error instanceof Error ? error.message : String(error)
}
