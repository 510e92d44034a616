/** The book of the chosen outcome of a market, as the stream has it. */

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
  /** The best ones, best first; in a complementary market with those that the other outcome implies. */
  readonly bids: readonly Level[]
  readonly asks: readonly Level[]
}

/** Levels of each side: more than any screen shows. */
const LADDER_LEVELS = 25

export function makeMarketBook(
  marketId: string,
  outcome: Signal<Outcome>,
  isComplementary: ReadonlySignal<boolean | undefined>,
) {
  const book = signal<BookFrame | undefined>(undefined)
  let live: LocalBook | undefined
  /** In a complementary market: the book of the outcome without implied levels. */
  let plain: LocalBook | undefined

  /** Returns the levels of a side, the best ones or all; undefined until the book has arrived. */
  function levelsOf(side: 'bids' | 'asks', count?: number): readonly Level[] | undefined {
    const levels = live?.[side](count)
    if (levels === undefined || !isComplementary.peek()) return levels
    // The best levels of a part are among as many of the whole.
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
        const follow = (which: { implied?: true }, take: (told: LocalBook) => void) =>
          stream().book({ marketId, outcome: chosen, ...which }, (_, told) => {
            take(told)
            show.ask()
          })
        const subscriptions: readonly BookSubscription[] = untracked(() => [
          follow(implied ? { implied } : {}, (told) => {
            live = told
          }),
          // The stream has sums; the implied part of each is the difference to the plain book.
          ...(implied
            ? [
                follow({}, (told) => {
                  plain = told
                }),
              ]
            : []),
        ])
        // An ended market has no book.
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
