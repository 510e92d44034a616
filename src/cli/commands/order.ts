/** `sibyl order buy` and `sibyl order sell`: places an order, or checks whether the exchange would accept it. */

import { readAmount } from '#client/amount.ts'
import type { Client } from '#client/client.ts'
import type { OrderOptions } from '#client/order-submission.ts'
import { CommandError, OptionError, readInteger } from '#devnet/command.ts'
import { PROTECTION_FILLS_MAX, PROTECTION_WINDOW_MS_MAX } from '#domain/limits.ts'
import { TIMES_IN_FORCE } from '#domain/time-in-force.ts'
import type { PlacedOrder } from '#protocol/shapes/orders.ts'
import { type Command, command, readWord, SIGN_OPTIONS } from '../command.ts'
import { traderOf, traderReading } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { showAmount, showFacts, showJson } from '../show.ts'

const TTL_SEC_MAX = 10 * 365 * 86_400
const BOOK_WITHIN_MS_MAX = 86_400_000

export const orderBuy = placing('buy')
export const orderSell = placing('sell')

function placing(side: 'buy' | 'sell'): Command {
  return command({
    name: `order ${side}`,
    takes: '<market> <YES|NO>',
    about: `${side}s shares of an outcome at a price or better`,
    options: {
      size: { value: '<shares>', help: 'number of shares', required: true },
      price: { value: '<dollars>', help: 'price of one share, below 1', required: true },
      seconds: { value: '<n>', help: 'seconds until the order expires', default: '3600' },
      'time-in-force': { value: '<word>', help: TIMES_IN_FORCE.join(', '), default: 'GTC' },
      'post-only': { help: 'the market rejects the order if it would match at once' },
      'book-within': {
        value: '<ms>',
        help: 'maximum milliseconds until the market processes the order; after this time, the market rejects the order',
      },
      label: {
        value: '<text>',
        help: 'your own text for the order; each message about the order contains it, and everyone can read it',
      },
      group: {
        value: '<name>',
        help: 'name of a group of orders that can be cancelled together; it is public',
      },
      'group-window': {
        value: '<ms>',
        help: 'time window: if more than --group-fills or --group-shares fill within it, the exchange cancels the group',
      },
      'group-fills': { value: '<n>', help: 'maximum number of fills within --group-window' },
      'group-shares': {
        value: '<shares>',
        help: 'maximum number of filled shares within --group-window',
      },
      replaces: {
        value: '<order>',
        help: 'hash of an open order to cancel; the cancellation and the new order take effect together',
      },
      'replace-always': {
        help: 'with --replaces: places the new order even if the replaced order is no longer open',
      },
      validate: { help: 'signs the order and reports its errors, but does not place it' },
      sign: { help: 'signs the order and prints the request, but does not send it' },
      ...SIGN_OPTIONS,
    },
    async run({ values, positionals: [market = '', which = ''], io }) {
      const outcome = readWord('the outcome', which, ['YES', 'NO'])
      const ttlSeconds = readInteger('seconds', values.seconds, 1, TTL_SEC_MAX)
      const timeInForce = readWord('--time-in-force', values['time-in-force'], TIMES_IN_FORCE)
      const isOnlySigned = values.sign || values.validate
      const { client } = await (isOnlySigned ? traderReading : traderOf)(values, io)
      const { id: marketId } = await findMarket(client, market)
      const { size, price } = values
      const submission = await client.orders.sign({
        ...{ marketId, side, outcome, size, price, ttlSeconds },
        ...(timeInForce === 'GTC' ? {} : { timeInForce }),
        ...(values['post-only'] ? { postOnly: true } : {}),
        ...lifeOf(values),
        ...(await bookByOf(values['book-within'], client)),
      })
      if (values.sign) {
        io.out(showJson(submission))
        return 0
      }
      if (values.validate) {
        const checked = await client.orders.validate(submission)
        if (values.json) io.out(showJson(checked, 2))
        else if (checked.valid) io.out(`valid: ${checked.orderHash}\n`)
        else throw new CommandError(checked.errors.map(({ error }) => error).join('; '))
        return checked.valid ? 0 : 1
      }
      const placed = await client.orders.submit(submission)
      io.out(values.json ? showJson(placed, 2) : showFacts(factsOf(placed)))
      return 0
    },
  })
}

type LifeValues = {
  readonly label?: string | undefined
  readonly group?: string | undefined
  readonly 'group-window'?: string | undefined
  readonly 'group-fills'?: string | undefined
  readonly 'group-shares'?: string | undefined
  readonly replaces?: string | undefined
  readonly 'replace-always'?: boolean
}

/** Converts the command's options for label, group, protection and replacement to the options of the SDK. */
function lifeOf(values: LifeValues): OrderOptions {
  const { label, group, replaces } = values
  const always = values['replace-always'] === true
  if (always && replaces === undefined) {
    throw new OptionError('--replace-always needs --replaces')
  }
  return {
    ...(label === undefined ? {} : { label }),
    ...(group === undefined ? {} : { group }),
    ...protectionOf(values),
    ...(replaces === undefined ? {} : { replaces }),
    ...(always ? { replaceMode: 'always' as const } : {}),
  }
}

/** Returns the time after which the market must reject the order, by the exchange's clock. */
async function bookByOf(
  within: string | undefined,
  client: Pick<Client, 'time'>,
): Promise<Pick<OrderOptions, 'bookByMs'>> {
  if (within === undefined) return {}
  const ms = readInteger('book-within', within, 1, BOOK_WITHIN_MS_MAX)
  return { bookByMs: (await client.time()).serverTimeMs + ms }
}

function protectionOf(values: LifeValues): Pick<OrderOptions, 'protection'> {
  const { 'group-window': within, 'group-fills': fills, 'group-shares': shares } = values
  if (within === undefined) {
    if (fills === undefined && shares === undefined) return {}
    throw new OptionError('--group-fills and --group-shares need --group-window')
  }
  const windowMs = readInteger('group-window', within, 1, PROTECTION_WINDOW_MS_MAX)
  return {
    protection: {
      windowMs,
      ...(fills === undefined
        ? {}
        : { fillsMax: readInteger('group-fills', fills, 1, PROTECTION_FILLS_MAX) }),
      ...(shares === undefined ? {} : { sharesMax: readAmount('group-shares', shares) }),
    },
  }
}

function factsOf({ orderHash, status, matches, filled }: PlacedOrder): Record<string, string> {
  return {
    order: orderHash,
    status,
    matches: `${matches} ${matches === 1 ? 'order' : 'orders'} matched at once`,
    ...(filled === undefined ? {} : { filled: showAmount(filled) }),
  }
}
