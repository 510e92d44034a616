/**
 * Finds logs from the newest block backwards, with few questions. Most nodes answer about all blocks at
 * once. One that refuses is asked about half as many, down to a single block, and the length that it takes
 * is remembered. What a call could not reach, the next one goes on with, after another look at the newest
 * blocks: a node may have had their logs later than the blocks.
 */

import { isTooMuch } from './clients.ts'

type LogSearch = (question: {
  readonly head: number
  readonly startBlock: number
  /** Asks about these blocks; answers whether all that is looked for has been found. */
  readonly ask: (fromBlock: number, toBlock: number) => Promise<boolean>
}) => Promise<void>

/** What is asked for at once where all blocks are too many. */
const LOG_BLOCKS = 8_192
const ALL_BLOCKS = Number.MAX_SAFE_INTEGER
/** Questions of one search, and how many of them are about the newest blocks. */
export const LOG_QUESTIONS_MAX = 32
const NEWEST_QUESTIONS_MAX = LOG_QUESTIONS_MAX / 2

export function makeLogSearch(): LogSearch {
  let blocks = ALL_BLOCKS
  /** The highest block that the search before did not reach. */
  let left = ALL_BLOCKS

  return async ({ head, startBlock, ask }) => {
    // Another node may answer by now, which takes more.
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
