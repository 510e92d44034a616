/** `sibyl orders` and `sibyl cancel`: lists and cancels open orders of a trader. */

import type { Client } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { CommandError, OptionError } from '#devnet/command.ts'
import type { OpenOrder } from '#protocol/shapes/orders.ts'
import { command, SIGN_OPTIONS } from '../command.ts'
import { traderOf, traderReading } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { showAmount, showId, showJson, showTable, showTime } from '../show.ts'

/** Error codes of a cancel that has nothing to do, because the order has already ended. */
const ENDED: ReadonlySet<string> = new Set(['ORDER_CLOSED', 'ORDER_NOT_FOUND', 'MARKET_CLOSED'])

export const orders = command({
  name: 'orders',
  takes: '[<market>]',
  about: "lists the trader's open orders",
  options: SIGN_OPTIONS,
  async run({ values, positionals: [market], io }) {
    const { client } = await traderReading(values, io)
    const open = await client.orders.list(await inMarket(client, market))
    if (values.json) io.out(showJson(open, 2))
    else if (open.length === 0) io.out('no open orders\n')
    else io.out(tableOf(open))
    return 0
  },
})

export const cancel = command({
  name: 'cancel',
  takes: '[<order>]',
  about: 'cancels one open order, or all open orders',
  more: 'Name an order by its hash, or by the first digits of its hash.',
  options: {
    all: { help: 'cancels every open order of the trader' },
    market: { value: '<market>', help: 'with --all: cancels only orders of this market' },
    group: { value: '<name>', help: 'with --all: cancels only orders of this group' },
    ...SIGN_OPTIONS,
  },
  async run({ values, positionals: [named], io }) {
    if ((named === undefined) !== values.all) {
      throw new OptionError('give either the hash of one order or --all')
    }
    if (values.market !== undefined && !values.all) {
      throw new OptionError('--market needs --all')
    }
    const { group } = values
    if (group !== undefined && !values.all) throw new OptionError('--group needs --all')
    const { client, hasToken } = await traderOf(values, io)
    const where = await inMarket(client, values.market)
    if (values.all && hasToken) {
      const { orderHashes, count } = await client.orders.cancelAll({
        ...where,
        ...(group === undefined ? {} : { group }),
      })
      io.out(
        values.json
          ? showJson({ status: 'cancelled', orderHashes, count }, 2)
          : cancelledText(count),
      )
      return 0
    }
    const all = await client.orders.list(where)
    const open = group === undefined ? all : all.filter((order) => order.group === group)
    const ending = values.all ? open : [theOne(open, named ?? '')]
    const cancelled = await cancelEach(client, ending, values.all)
    const answer = { status: 'cancelled', orderHashes: cancelled, count: cancelled.length }
    io.out(values.json ? showJson(answer, 2) : cancelledText(cancelled.length))
    return 0
  },
})

async function inMarket(client: Client, market: string | undefined): Promise<{ market?: string }> {
  return market === undefined ? {} : { market: (await findMarket(client, market)).id }
}

function theOne(open: readonly OpenOrder[], named: string): OpenOrder {
  const found = open.filter(({ orderHash }) => orderHash.startsWith(named.toLowerCase()))
  const [only] = found
  if (found.length === 1 && only !== undefined) return only
  const what =
    found.length === 0
      ? 'no open order of this trader has a hash that begins with'
      : 'more than one open order has a hash that begins with'
  throw new CommandError(`${what} '${named}'; the command sibyl orders lists the open orders`)
}

async function cancelEach(
  client: Client,
  open: readonly OpenOrder[],
  all: boolean,
): Promise<string[]> {
  const cancelled: string[] = []
  for (const { orderHash, marketId, side } of open) {
    const order = { orderHash, marketId, side: side === 0 ? 'buy' : 'sell' } as const
    try {
      await client.orders.cancel(order)
      cancelled.push(orderHash)
    } catch (error) {
      if (!(all && error instanceof SibylError && ENDED.has(error.code))) throw error
    }
  }
  return cancelled
}

function cancelledText(count: number): string {
  return `${count} ${count === 1 ? 'order' : 'orders'} cancelled\n`
}

function tableOf(open: readonly OpenOrder[]): string {
  const head = ['ORDER', 'MARKET', 'SIDE', 'OUTCOME', 'PRICE', 'OPEN', 'OF', 'EXPIRES (UTC)']
  const rows = open.map((order) => [
    showId(order.orderHash),
    showId(order.marketId),
    order.side === 0 ? 'buy' : 'sell',
    order.outcome === 0 ? 'YES' : 'NO',
    showAmount(order.price),
    showAmount(order.remainingSize),
    showAmount(order.size),
    showTime(order.expiration),
  ])
  return showTable(head, rows)
}
