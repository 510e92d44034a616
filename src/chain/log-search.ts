/**
 * Finds logs from the newest block backwards, with few requests. Most nodes answer one request for all blocks. If a
 * node refuses a range, the search halves the range, down to a single block, and remembers the accepted length.
 *
 * If a search stops before it has reached all blocks, the next search first searches the newest blocks again, because a
 * node may receive a block earlier than the block's logs. Then it continues at the highest block that was not reached.
 */

import { isTooMuch } from './clients.ts'

type LogSearch = (question: {
  readonly head: number
  readonly startBlock: number
  /** Searches these blocks; resolves with true if no further blocks need to be searched. */
  readonly ask: (fromBlock: number, toBlock: number) => Promise<boolean>
}) => Promise<void>

/** Maximum number of blocks per request after a request for all blocks was refused. */
const LOG_BLOCKS = 8_192
const ALL_BLOCKS = Number.MAX_SAFE_INTEGER
/**
 * Maximum number of requests per search. The first `NEWEST_QUESTIONS_MAX` requests search backwards from the newest
 * block. The remaining requests continue where the previous search stopped.
 */
export const LOG_QUESTIONS_MAX = 32
const NEWEST_QUESTIONS_MAX = LOG_QUESTIONS_MAX / 2

export function makeLogSearch(): LogSearch {
  let blocks = ALL_BLOCKS
  /** Highest block that the previous search did not reach, or `ALL_BLOCKS`. The next search continues there. */
  let left = ALL_BLOCKS

  return async ({ head, startBlock, ask }) => {
    // Double the last range length, because another node may answer and accept the longer range. If the last length was
    // at least `LOG_BLOCKS`, request all blocks at once.
    blocks = blocks >= LOG_BLOCKS ? ALL_BLOCKS : blocks * 2
    let to = head
    for (let questions = 0; questions < LOG_QUESTIONS_MAX && to >= startBlock; questions++) {
      if (questions >= NEWEST_QUESTIONS_MAX) to = Math.min(to, left)
      const from = Math.max(startBlock, to - blocks + 1)
      try {
        if (await ask(from, to)) {
          left = ALL_BLOCKS
          return
        }
        to = from - 1
      } catch (error) {
        blocks = Math.min(LOG_BLOCKS, Math.ceil((to - from + 1) / 2))
        if (!isTooMuch(error)) throw error
        if (from === to) return
      }
    }
    left = to >= startBlock ? to : ALL_BLOCKS
  }
}
