/** `sibyl watch`: follows a book, trades of a market or a trader's orders until stopped. */

import { createClient } from '#client/client.ts'
import type { LocalBook } from '#client/local-book.ts'
import { signerAddress } from '#client/sign-order.ts'
import type { BookMessage } from '#client/stream-messages.ts'
import type { SibylStream, StreamSubscription } from '#client/stream-types.ts'
import { OptionError, readInteger } from '#devnet/command.ts'
import { parseAddress } from '#domain/ids.ts'
import type { OrdersMessage, TradesMessage } from '#protocol/shapes/stream.ts'
import {
  type Call,
  command,
  type Options,
  READ_OPTIONS,
  readWord,
  SIGN_OPTIONS,
} from '../command.ts'
import { keyOf, readerOf, urlOf } from '../connect.ts'
import { findMarket } from '../find-market.ts'
import { showAmount, showId, showJson } from '../show.ts'

const COUNT_MAX = 1_000_000_000

const COUNT_OPTION = { value: '<n>', help: 'ends after this many messages' } as const

export const watchBook = command({
  name: 'watch book',
  takes: '<market> [<YES|NO>]',
  about: 'follows the book of an outcome, and verifies every checksum',
  options: {
    count: COUNT_OPTION,
    implied: {
      help: 'adds levels implied by orders of the other outcome, in a complementary market',
    },
    ...READ_OPTIONS,
  },
  async run(call) {
    const [market = '', which = 'YES'] = call.positionals
    const outcome = readWord('the outcome', which, ['YES', 'NO'])
    const client = readerOf(call.values, call.io)
    const { id: marketId } = await findMarket(client, market)
    const implied = call.values.implied ? { implied: true } : {}
    return follow<BookMessage, LocalBook>(call, client.stream(), {
      start: (stream, listener) => stream.book({ marketId, outcome, ...implied }, listener),
      show: ({ seq }, book) => {
        const best = (side: 'bids' | 'asks'): string => {
          const [level] = book[side](1)
          return level === undefined
            ? 'none'
            : `${showAmount(level.price)} × ${showAmount(level.size)}`
        }
        return `seq ${seq}  bid ${best('bids')}  ask ${best('asks')}`
      },
    })
  },
})

export const watchTrades = command({
  name: 'watch trades',
  takes: '<market>',
  about: 'follows the trades of a market and their settlement on the chain',
  options: { count: COUNT_OPTION, ...READ_OPTIONS },
  async run(call) {
    const client = readerOf(call.values, call.io)
    const { id: marketId } = await findMarket(client, call.positionals[0] ?? '')
    return follow<TradesMessage, undefined>(call, client.stream(), {
      start: (stream, listener) =>
        stream.trades(marketId, (message) => listener(message, undefined)),
      show: tradeLine,
    })
  },
})

export const watchOrders = command({
  name: 'watch orders',
  takes: '[<address>]',
  about: "follows a trader's orders, by default those of the trader of the given key",
  options: { count: COUNT_OPTION, ...SIGN_OPTIONS },
  async run(call) {
    const client = readerOf(call.values, call.io)
    const trader = await traderNamed(call)
    return follow<OrdersMessage, undefined>(call, client.stream(), {
      start: (stream, listener) => stream.orders(trader, (message) => listener(message, undefined)),
      show: orderLine,
    })
  },
})

async function traderNamed({ values, positionals: [named], io }: Call<typeof SIGN_OPTIONS>) {
  if (named === undefined) {
    // The configuration is requested first, so that an unreachable exchange is reported before the stream opens.
    await createClient({ url: urlOf(values, io), retries: 1 }).config()
    return signerAddress(keyOf(values, io, true))
  }
  if (parseAddress(named) !== undefined) return named
  throw new OptionError(`'${named}' is not an address (0x and 40 hex digits)`)
}

type Followed<Message, State> = {
  readonly start: (
    stream: SibylStream,
    listener: (message: Message, state: State) => void,
  ) => StreamSubscription
  readonly show: (message: Message, state: State) => string
}

/** Prints each message until the user stops the command or the requested number of messages is printed. */
async function follow<Message, State>(
  { values, io }: Call<Options>,
  stream: SibylStream,
  { start, show }: Followed<Message, State>,
): Promise<number> {
  const over = Promise.withResolvers<void>()
  const most =
    typeof values.count === 'string'
      ? readInteger('count', values.count, 1, COUNT_MAX)
      : Number.POSITIVE_INFINITY
  let printed = 0
  if (io.signal.aborted) over.resolve()
  io.signal.addEventListener('abort', () => over.resolve())
  stream.on('closed', ({ reconnectInMs }) => {
    if (reconnectInMs !== undefined) io.err(`sibyl: the connection was lost; reconnecting\n`)
  })
  stream.on('gap', () => io.err('sibyl: a message is missing; waiting for a new snapshot\n'))
  stream.on('checksum', () =>
    io.err('sibyl: the book does not match the received checksum; waiting for a new snapshot\n'),
  )
  const { ready } = start(stream, (message, state) => {
    if (printed++ >= most) return
    io.out(values.json === true ? showJson(message) : `${show(message, state)}\n`)
    if (printed === most) over.resolve()
  })
  ready.catch(over.reject)
  try {
    await over.promise
    return 0
  } finally {
    stream.close()
  }
}

function tradeLine(message: TradesMessage): string {
  if (message.type === 'trades.snapshot') {
    return `seq ${message.seq}  ${message.trades.length} trades so far`
  }
  if (message.type === 'trade.status') {
    const { seq, status, txHash, reason } = message
    return `seq ${seq}  ${status}  ${txHash === '' ? reason : txHash}`
  }
  const { seq, price, size, outcome, takerSide } = message
  const what = `${takerSide === 0 ? 'bought' : 'sold'} ${outcome === 0 ? 'YES' : 'NO'}`
  return `seq ${seq}  ${what} ${showAmount(size)} at ${showAmount(price)}`
}

function orderLine(message: OrdersMessage): string {
  if (message.type === 'orders.snapshot') return `${message.count} open orders`
  if (message.type === 'orders.ended') {
    return `${showId(message.marketId)}  all orders ${message.status}: ${message.reason}`
  }
  const { orderHash, status, side, outcome, price, remainingSize } = message
  const what = `${side === 0 ? 'buy' : 'sell'} ${outcome === 0 ? 'YES' : 'NO'}`
  return `${showId(orderHash)}  ${status}  ${what} at ${showAmount(price)}, ${showAmount(remainingSize)} open`
}
