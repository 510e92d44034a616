/** Reads a book: either the current book, which includes the effects of this client's own writes, or a past book. */

import type { Level, Orderbook } from './answers.ts'
import type { CallOptions, Transport } from './transport.ts'

/** A moment in the past: after the event with the sequence number `seq`, or at the time `at`. */
export type PastMoment = { readonly seq?: number; readonly at?: Date }

export type ReadOrderbook = (
  marketId: string,
  outcome?: 'YES' | 'NO',
  options?: CallOptions & PastMoment & { readonly implied?: boolean },
) => Promise<Orderbook>

export type MarketRead = {
  readonly marketId: string
  readonly path: string
  readonly query: Readonly<Record<string, string | undefined>>
}

/** Reads data of a market from any front; the data includes this client's own writes to the market. */
export type ReadSeen = <T>(asked: MarketRead, call: CallOptions | undefined) => Promise<T>

/** A level as parsed from the answer; a size above 2^53 is text. */
type LevelJson = {
  readonly price: number
  readonly size: number | string
  readonly implied?: number | string
}

type OrderbookJson = Omit<Orderbook, 'bids' | 'asks'> & {
  readonly bids: readonly LevelJson[]
  readonly asks: readonly LevelJson[]
}

export function createOrderbook(send: Transport, readSeen: ReadSeen): ReadOrderbook {
  return async (marketId, outcome, { seq, at, implied, ...call } = {}) => {
    const path = `/api/v1/orderbook/${encodeURIComponent(marketId)}`
    const isPast = seq !== undefined || at !== undefined
    const query = { outcome, seq, at: at === undefined ? undefined : at.getTime() / 1_000 }
    const book = isPast
      ? await send<OrderbookJson>({ method: 'GET', path, query }, call)
      : await readSeen<OrderbookJson>(
          { marketId, path, query: { outcome, implied: implied === true ? 'true' : undefined } },
          call,
        )
    return { ...book, bids: book.bids.map(exactLevel), asks: book.asks.map(exactLevel) }
  }
}

function exactLevel({ price, size, implied }: LevelJson): Level {
  const level = { price, size: BigInt(size) }
  return implied === undefined ? level : { ...level, implied: BigInt(implied) }
}
