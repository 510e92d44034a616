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
   * The best levels of each side, best first. In a complementary market they include implied levels, which come from
   * orders of the other outcome.
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

  /**
   * Returns the best `count` levels of a side. If `count` is undefined, returns all levels. Returns undefined until the
   * stream has sent the book.
   */
  function levelsOf(side: 'bids' | 'asks', count?: number): readonly Level[] | undefined {
    const levels = live?.[side](count)
    if (levels === undefined || !isComplementary.peek()) return levels
    // The best `count` levels of the outcome's own book (`plain`) are enough. Each of its levels is also in the book
    // with implied levels (`live`), so its deeper levels are not in `levels`.
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
          // The book with implied levels has only total sizes, which include orders of the other outcome. To compute
          // their part, the page subtracts the sizes in the outcome's own book. So it subscribes to that book, too.
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
