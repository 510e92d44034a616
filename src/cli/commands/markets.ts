/** `sibyl markets`: lists markets. */

import { readInteger } from '#devnet/command.ts'
import { CATEGORIES } from '#domain/market.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { command, READ_OPTIONS, readWord } from '../command.ts'
import { readerOf } from '../connect.ts'
import { showAmount, showId, showJson, showPrice, showTable, showTime } from '../show.ts'

const LIMIT_MAX = 10_000

export const markets = command({
  name: 'markets',
  takes: '[<words>]',
  about: 'lists open markets',
  more: 'With words, it lists only markets whose question contains them.',
  options: {
    all: { help: 'includes markets that have ended' },
    quick: { help: 'includes quick markets' },
    category: { value: '<name>', help: CATEGORIES.join(', ') },
    limit: { value: '<n>', help: 'maximum number of markets', default: '50' },
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [search], io }) {
    const limit = readInteger('limit', values.limit, 1, LIMIT_MAX)
    const category =
      values.category === undefined
        ? {}
        : { category: readWord('--category', values.category, CATEGORIES) }
    const filter = {
      ...category,
      ...(values.quick ? { quick: true } : {}),
      ...(search === undefined ? {} : { search }),
    }
    const found: Market[] = []
    for await (const market of readerOf(values, io).eachMarket(filter)) {
      if (values.all || market.status === 'open') found.push(market)
      if (found.length === limit) break
    }
    if (values.json) io.out(showJson(found, 2))
    else if (found.length === 0) io.out('no market found; --all includes markets that have ended\n')
    else io.out(tableOf(found, values.all))
    return 0
  },
})

function tableOf(found: readonly Market[], all: boolean): string {
  const head = ['MARKET', 'YES BID', 'ASK', 'LAST', '24H', 'ENDS (UTC)', 'QUESTION']
  const rows = found.map((market) => [
    showId(market.id),
    showPrice(market.bestBidPrices[0]),
    showPrice(market.bestAskPrices[0]),
    showPrice(market.lastPrices?.[0]),
    showAmount(market.volume24h ?? 0),
    showTime(market.expiration),
    `${all && market.status !== 'open' ? `[${market.status}] ` : ''}${market.question}`,
  ])
  return showTable(head, rows)
}
