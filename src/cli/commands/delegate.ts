/** `sibyl delegate …`: keys that sign orders of the trader, within limits. */

import { readInteger } from '#devnet/command.ts'
import { command, SIGN_OPTIONS } from '../command.ts'
import { traderOf, traderReading } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { showAmount, showFacts, showId, showJson, showTable, showTime } from '../show.ts'

const DAY_SEC = 86_400
const DAYS_MAX = 3_650

export const delegateCreate = command({
  name: 'delegate create',
  takes: '<address>',
  about: "lets a key sign orders and cancellations for the trader's account, but nothing else",
  more: 'The trader signs, and the exchange pays for the gas. The exchange enforces the limits before it matches an order.',
  options: {
    days: { value: '<number>', help: 'number of days for which the key may sign', default: '30' },
    'max-size': { value: '<shares>', help: 'maximum size of an order' },
    'max-notional': {
      value: '<dollars>',
      help: 'maximum sum of price × size over all open orders of the key',
    },
    market: {
      value: '<market>',
      help: 'the only market in which the key may trade; without it, all markets',
    },
    ...SIGN_OPTIONS,
  },
  async run({ values, positionals: [delegate = ''], io }) {
    const days = readInteger('days', values.days, 1, DAYS_MAX)
    const { client, address } = await traderOf(values, io)
    const { serverTime } = await client.config()
    const until = serverTime + days * DAY_SEC
    const { 'max-size': maxOrderSize, 'max-notional': maxOpenNotional, market } = values
    const { tx_hash: txHash } = await client.delegates.create({
      ...{ delegate, until },
      ...(maxOrderSize === undefined ? {} : { maxOrderSize }),
      ...(maxOpenNotional === undefined ? {} : { maxOpenNotional }),
      ...(market === undefined ? {} : { markets: [(await findMarket(client, market)).id] }),
    })
    const facts = { account: address, delegate, until, transaction: txHash }
    if (values.json) io.out(showJson(facts, 2))
    else io.out(showFacts({ ...facts, until: showTime(until) }))
    return 0
  },
})

export const delegateRevoke = command({
  name: 'delegate revoke',
  takes: '<address>',
  about:
    'revokes a key: the exchange accepts no further orders of the key and cancels its open orders',
  more: 'Trades that matched before the revocation still settle. The trader signs, and the exchange pays for the gas.',
  options: SIGN_OPTIONS,
  async run({ values, positionals: [delegate = ''], io }) {
    const { client, address } = await traderOf(values, io)
    const { tx_hash: txHash } = await client.delegates.revoke(delegate)
    const facts = { account: address, delegate, transaction: txHash }
    io.out(values.json ? showJson(facts, 2) : showFacts(facts))
    return 0
  },
})

export const delegateList = command({
  name: 'delegate list',
  takes: '',
  about: "lists the keys that may sign orders of the trader's account, with their limits",
  options: SIGN_OPTIONS,
  async run({ values, io }) {
    const { client } = await traderReading(values, io)
    const delegates = await client.delegates.list()
    if (values.json) io.out(showJson(delegates, 2))
    else if (delegates.length === 0) io.out('no delegates\n')
    else {
      const rows = delegates.map((one) => [
        ...[one.delegate, one.active ? 'active' : 'revoked', showTime(one.until)],
        ...[shown(one.maxOrderSize), shown(one.maxOpenNotional)],
        one.markets.length === 0 ? 'all' : one.markets.map(showId).join(' '),
      ])
      io.out(showTable(['KEY', 'STATE', 'UNTIL (UTC)', 'MAX SIZE', 'MAX OPEN', 'MARKETS'], rows))
    }
    return 0
  },
})

function shown(limit: number): string {
  return limit === 0 ? 'no limit' : showAmount(limit)
}
