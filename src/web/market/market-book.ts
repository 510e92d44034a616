/** The live book of the chosen outcome of a market, from the stream. */

import { effect, type ReadonlySignal, type Signal, signal, untracked } from '@preact/signals'
import type { Level } from '#client/answers.ts'
import type { LocalBook } from '#client/local-book.ts'
import type { BookSubscription } from '#client/stream-types.ts'
import { isCalledOff } from '../error-words.ts'
import { stream } from '../state/exchange.ts'
import { withImplied } from './implied-levels.ts'
import { oncePerFrame } from './next-frame.ts'

export type Outcome = 'YES' | 'NO'

export type BookFrame = {
  /**
   * The best levels of a side, best first. In a complementary market they include the levels that orders of the other
   * outcome imply.
   */
  readonly bids: readonly Level[]
  readonly asks: readonly Level[]
}

/** Maximum number of levels of each side in a `BookFrame`; no screen shows more. */
const LADDER_LEVELS = 25

export function makeMarketBook(
  marketId: string,
  outcome: Signal<Outcome>,
  isComplementary: ReadonlySignal<boolean | undefined>,
) {
  const book = signal<BookFrame | undefined>(undefined)
  let live: LocalBook | undefined
  /** The outcome's own book, without implied levels. Used only in a complementary market. */
  let plain: LocalBook | undefined

  /** Returns the best `count` levels of a side, or all levels; undefined until the book has arrived. */
  function levelsOf(side: 'bids' | 'asks', count?: number): readonly Level[] | undefined {
    const levels = live?.[side](count)
    if (levels === undefined || !isComplementary.peek()) return levels
    // The book with implied levels contains every level of the outcome's own book. So the best `count` levels of the
    // outcome's own book are enough.
    return plain === undefined ? undefined : withImplied(levels, plain[side](count))
  }

  return {
    book,
    levelsOf,
    follow(): () => void {
      return effect(() => {
        const chosen = outcome.value
        const implied = isComplementary.value
        live = undefined
        plain = undefined
        book.value = undefined
        if (implied === undefined) return
        const show = oncePerFrame(() => {
          const [bids, asks] = [levelsOf('bids', LADDER_LEVELS), levelsOf('asks', LADDER_LEVELS)]
          if (bids !== undefined && asks !== undefined) book.value = { bids, asks }
        })
        const follow = (which: { implied?: true }, take: (received: LocalBook) => void) =>
          stream().book({ marketId, outcome: chosen, ...which }, (_, received) => {
            take(received)
            show.ask()
          })
        const subscriptions: readonly BookSubscription[] = untracked(() => [
          follow(implied ? { implied } : {}, (received) => {
            live = received
          }),
          // The stream sends total sizes. The implied part of a level is its total size minus its size in the outcome's
          // own book, so the page also subscribes to that book.
          ...(implied
            ? [
                follow({}, (received) => {
                  plain = received
                }),
              ]
            : []),
        ])
        // If the market has ended, the stream rejects the subscription. The book is then empty.
        subscriptions[0]?.ready.catch((error: unknown) => {
          if (!isCalledOff(error)) book.value = { bids: [], asks: [] }
        })
        subscriptions[1]?.ready.catch(() => undefined)
        return () => {
          for (const subscription of subscriptions) subscription.close()
          show.stop()
        }
      })
    },
  }
}
