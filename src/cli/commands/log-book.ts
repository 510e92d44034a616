/** `sibyl log book`: a past book of an outcome, from the verified public log. */

import { LocalBook } from '#client/local-book.ts'
import type { PastMoment } from '#client/orderbook.ts'
import { CommandError, OptionError } from '#devnet/command.ts'
import type { MarketId } from '#domain/ids.ts'
import { BUY, NO, type Outcome, SELL, YES } from '#domain/order.ts'
import { makeEventReader } from '#transparency/public-event.ts'
import type { PublicEvent } from '#transparency/public-event-shapes.ts'
import { readCheckpoint, verifyEntries } from '#transparency/remote-log.ts'
import { makeReplay } from '#transparency/replay.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import { command, READ_OPTIONS, readWord } from '../command.ts'
import { readerOf, urlOf } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { MOMENT_OPTIONS, readMoment } from '../past-moment.ts'
import { type NamedLog, namedLogs } from '../public-logs.ts'
import { showAmount, showJson, showTable } from '../show.ts'

type Moment = {
  readonly marketId: MarketId
  readonly outcome: Outcome
  /** Returns true if the event is later than the requested moment. */
  readonly isLater: (event: PublicEvent) => boolean
}

export const logBook = command({
  name: 'log book',
  takes: '<market> [<YES|NO>]',
  about: 'shows a book as it was after an event or at a time, from the verified public log',
  options: {
    ...MOMENT_OPTIONS,
    key: { value: '<keys>', help: 'verifier keys that you trust, separated by commas' },
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [named = '', which = 'YES'], io }) {
    const outcome: Outcome = readWord('the outcome', which, ['YES', 'NO']) === 'YES' ? YES : NO
    const isLater = laterThan(readMoment(values))
    const { id, question } = await findMarket(readerOf(values, io), named)
    const moment = { marketId: id as MarketId, outcome, isLater }
    for (const log of await namedLogs(urlOf(values, io), values.key)) {
      const book = await bookAt(log, moment)
      if (book === undefined) continue
      const [bids, asks] = [book.bids(), book.asks()]
      const facts = { marketId: id, outcome: which.toUpperCase(), seq: book.seq }
      if (values.json) io.out(showJson({ ...facts, checksum: book.checksum(), bids, asks }, 2))
      else {
        io.out(`${question} ${facts.outcome}, seq ${book.seq}, checksum ${book.checksum()}\n`)
        const rows = Array.from({ length: Math.max(bids.length, asks.length) }, (_, at) => {
          const [bid, ask] = [bids[at], asks[at]]
          return [
            ...(bid === undefined ? ['', ''] : [showAmount(bid.size), showAmount(bid.price)]),
            ...(ask === undefined ? ['', ''] : [showAmount(ask.price), showAmount(ask.size)]),
          ]
        })
        io.out(showTable(['SHARES', 'BID', 'ASK', 'SHARES'], rows))
      }
      return 0
    }
    throw new CommandError('the public log has no event of this market up to the given moment')
  },
})

function laterThan({ seq, at }: PastMoment): Moment['isLater'] {
  if (seq !== undefined) return (event) => event.seq > seq
  if (at !== undefined) return (event) => event.atMs > at.getTime()
  throw new OptionError('give --seq or --at')
}

/**
 * Verifies a whole log and returns the book at the requested moment. Returns undefined if the log has no event of the
 * market up to that moment.
 */
async function bookAt(log: NamedLog, moment: Moment): Promise<LocalBook | undefined> {
  const { marketId, outcome, isLater } = moment
  const read = makeEventReader()
  const replay = makeReplay(() => {})
  const book = new LocalBook()
  let isOver = false
  let seq = 0
  const keep = (): void => {
    const found = replay.bookOf(marketId, outcome)
    if (found === undefined) return
    book.load(seq, found.levels(BUY), found.levels(SELL))
  }
  const checkpoint = await readCheckpoint(log)
  await verifyEntries(log, checkpoint, new TreeBuilder(treeHasher), (entry) => {
    for (const event of read(entry)) {
      const isOurs = event.marketId === marketId
      if (isOurs && !isOver && isLater(event)) {
        isOver = true
        keep()
      }
      replay.apply(event)
      if (isOurs && !isOver) seq = event.seq
    }
  })
  if (!isOver) keep()
  return seq === 0 ? undefined : book
}
