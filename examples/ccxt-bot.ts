/**
 * A bot that quotes both sides of one outcome through ccxt, and moves its quotes with the book. SIBYL_KEY is the
 * private key of its trader. MINUTES is the time after which the bot stops. The package `sibyl-ccxt` contains this file
 * as `quoting-bot.js`.
 */

import { ExchangeClosedByUser, ExchangeError, NetworkError, OrderImmediatelyFillable } from 'ccxt'
import { Sibyl } from '#ccxt/sibyl.ts'

const {
  SIBYL_URL = 'http://127.0.0.1:8080',
  SIBYL_KEY = '',
  SIBYL_OUTCOME,
  MINUTES = 'Infinity',
} = process.env

const SIZE = 20
const SPREAD = 0.02
/** Minimum change of the fair price after which a quote is replaced. */
const STEP = 0.005

const exchange = new Sibyl({ urls: { api: { rest: SIBYL_URL } }, privateKey: SIBYL_KEY })
const say = (...words: unknown[]) => console.log(new Date().toISOString(), ...words)

type Level = readonly [price: number, size: number]
type Quote = { readonly id: string; readonly price: number }
const quotes: Record<'buy' | 'sell', Quote | undefined> = { buy: undefined, sell: undefined }
/** Prices of our newest quotes. */
const ownPrices: number[] = []
const counts = { placed: 0, moved: 0, filled: 0, errors: 0 }

/** Places a quote, or replaces the old one in one step, so that each side always has exactly one quote. */
async function quote(outcome: string, side: 'buy' | 'sell', fair: number): Promise<void> {
  const price = Math.round((side === 'buy' ? fair - SPREAD / 2 : fair + SPREAD / 2) * 1_000) / 1_000
  const old = quotes[side]
  if (old !== undefined && Math.abs(old.price - price) < STEP) return
  const params = { postOnly: true, clientOrderId: `bot ${side}`, group: 'bot', ttlSeconds: 600 }
  try {
    // With `replaceMode: 'always'`, the exchange places the new order even if the old one is no longer open.
    const { id } =
      old === undefined
        ? await exchange.createOrder(outcome, 'limit', side, SIZE, price, params)
        : await exchange.editOrder(old.id, outcome, 'limit', side, SIZE, price, {
            ...params,
            replaceMode: 'always',
          })
    quotes[side] = { id: id!, price }
    ownPrices.splice(0, 0, price)
    ownPrices.length = Math.min(ownPrices.length, 8)
    counts[old === undefined ? 'placed' : 'moved'] += 1
  } catch (error) {
    if (!(error instanceof ExchangeError || error instanceof NetworkError)) throw error
    counts.errors += 1
    if (!(error instanceof OrderImmediatelyFillable)) say('refused:', error.message)
  }
}

/**
 * Returns the middle between the best bid and the best ask of other traders. If only one of the two exists, returns its
 * price. If neither exists, returns one half.
 */
function fairPrice(bids: readonly Level[], asks: readonly Level[]): number {
  // A book may be older than the bot's last quote, and still contain an earlier quote of the bot. So the bot's recent
  // quotes are skipped.
  const ofOthers = ([price, size]: Level) => size > SIZE || !ownPrices.includes(price)
  const [bid, ask] = [bids.find(ofOthers)?.[0], asks.find(ofOthers)?.[0]]
  if (bid === undefined || ask === undefined) return bid ?? ask ?? 0.5
  return (bid + ask) / 2
}

async function followOrders(outcome: string): Promise<void> {
  for (;;) {
    for (const order of await exchange.watchOrders(outcome)) {
      if (order.status !== 'closed' || (order.side !== 'buy' && order.side !== 'sell')) continue
      counts.filled += 1
      say(order.side, order.amount, 'at', order.price, 'is filled')
      if (quotes[order.side]?.id === order.id) quotes[order.side] = undefined
    }
  }
}

await exchange.loadMarkets()
const outcome = SIBYL_OUTCOME ?? Object.keys(exchange.outcomes ?? {})[0]
if (outcome === undefined) throw new Error('no market is open')
say('quoting', outcome, 'at', SIBYL_URL)
const endMs = Date.now() + Number(MINUTES) * 60_000
const following = followOrders(outcome).catch((error: Error) => {
  if (!(error instanceof ExchangeClosedByUser)) say(error.message)
})
let sayMs = 0
while (Date.now() < endMs) {
  const next = exchange.watchOrderBook(outcome)
  // An unchanged book sends no update, so the loop also wakes every five seconds to check the time.
  const book = await Promise.race([next, exchange.sleep(Math.min(5_000, endMs - Date.now()))])
  if (book !== undefined) {
    const { bids, asks } = book as { bids: Level[]; asks: Level[] }
    const fair = Math.min(Math.max(fairPrice(bids, asks), 0.05), 0.95)
    await quote(outcome, 'buy', fair)
    await quote(outcome, 'sell', fair)
  } else next.catch(() => undefined)
  if (Date.now() - sayMs > 30_000) {
    sayMs = Date.now()
    const { bids, asks } = await exchange.fetchOrderBook(outcome, 1)
    say('book', bids[0] ?? [], asks[0] ?? [], JSON.stringify(counts))
  }
}
const cancelled = await exchange.cancelAllOrders(outcome)
say('done:', JSON.stringify(counts), `and ${cancelled.length} quotes cancelled`)
await exchange.close()
await following
