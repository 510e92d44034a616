/** `sibyl book`: the order book of one outcome of a market. */

import type { Level } from '#client/answers.ts'
import { readInteger } from '#devnet/command.ts'
import { command, READ_OPTIONS, readWord } from '../command.ts'
import { readerOf } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { MOMENT_OPTIONS, readMoment } from '../past-moment.ts'
import { showAmount, showJson, showTable } from '../show.ts'

const DEPTH_MAX = 1_000

export const book = command({
  name: 'book',
  takes: '<market> [<YES|NO>]',
  about: 'shows the book of an outcome (YES by default), now or at an earlier time',
  options: {
    depth: { value: '<n>', help: 'number of prices on each side', default: '10' },
    implied: {
      help: 'in a complementary market, also shows the levels that orders of the other outcome imply',
    },
    ...MOMENT_OPTIONS,
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [market = '', which = 'YES'], io }) {
    const outcome = readWord('the outcome', which, ['YES', 'NO'])
    const depth = readInteger('depth', values.depth, 1, DEPTH_MAX)
    const client = readerOf(values, io)
    const { id, question } = await findMarket(client, market)
    const whole = await client.orderbook(id, outcome, {
      ...readMoment(values),
      ...(values.implied === true ? { implied: true } : {}),
    })
    const bids = whole.bids.slice(0, depth)
    const asks = whole.asks.slice(0, depth)
    if (values.json) {
      io.out(showJson({ ...whole, outcome, bids, asks }, 2))
      return 0
    }
    const head = values.implied === true ? ['IMPLIED', 'SHARES', 'BID'] : ['SHARES', 'BID']
    const cells = (level: Level | undefined): string[] => {
      if (level === undefined) return head.map(() => '')
      const { price, size, implied = 0n } = level
      const own = [showAmount(size), showAmount(price)]
      return values.implied === true ? [showAmount(implied), ...own] : own
    }
    const rows = Array.from({ length: Math.max(bids.length, asks.length) }, (_, at) => [
      ...cells(bids[at]),
      ...cells(asks[at]).reverse(),
    ])
    const checksum = whole.checksum === undefined ? '' : `, checksum ${whole.checksum}`
    io.out(`${question} ${outcome}, seq ${whole.seq}${checksum}\n`)
    const names = [...head, 'ASK', ...head.toReversed().slice(1)]
    io.out(rows.length === 0 ? 'no orders\n' : showTable(names, rows))
    return 0
  },
})
