/** The trades of a market, newest first, and notices about the account's own trades. */

import { batch, signal } from '@preact/signals'
import type { TradesMessage } from '#protocol/shapes/stream.ts'
import { isCalledOff } from '../error-words.ts'
import { cents, shares } from '../format.ts'
import { account } from '../state/account.ts'
import { reader, stream } from '../state/exchange.ts'
import { refreshFunds } from '../state/funds.ts'
import { showError, showToast } from '../state/toasts.ts'
import { oncePerFrame } from './next-frame.ts'
import { applyTrades, joinTapes, ownLegOf, type TapeTrade } from './tape-merge.ts'

/** Maximum number of trades that wait for the next frame. */
const WAITING_MAX = 1_000

/** Makes the list of a market's trades. Calls `settled` when a trade of the account is confirmed or has failed. */
export function makeMarketTape(marketId: string, settled: () => void) {
  const tape = signal<readonly TapeTrade[]>([])
  let waiting: TradesMessage[] = []

  async function readPast(): Promise<void> {
    try {
      const past = await reader.trades(marketId)
      const read = past.map(({ timestamp, ...trade }) => ({
        ...trade,
        takerSide: undefined,
        reason: '',
        ts: timestamp * 1_000,
      }))
      // If the tape already has a trade from the stream, keep the stream's version, because its status is newer.
      tape.value = joinTapes(tape.value, read)
    } catch (error) {
      showError(error)
    }
  }

  function tell(message: TradesMessage): void {
    if (message.type !== 'trade.status') return
    const trade = tape.value.find(({ tradeId }) => tradeId === message.tradeId)
    const own = trade === undefined ? undefined : ownLegOf(trade, account.value?.address)
    if (trade === undefined || own === undefined) return
    const what = `${own.side === 'buy' ? 'Bought' : 'Sold'} ${shares(trade.size)} ${
      own.outcome === 0 ? 'YES' : 'NO'
    } at ${cents(own.price)}`
    if (message.status === 'confirmed') showToast('done', `${what}: confirmed on chain.`)
    if (message.status === 'failed') showToast('error', `${what}: failed. ${message.reason}`.trim())
    if (message.status === 'confirmed' || message.status === 'failed') {
      void refreshFunds()
      settled()
    }
  }

  const take = oncePerFrame(() => {
    const messages = waiting
    waiting = []
    batch(() => {
      for (const message of messages) tape.value = applyTrades(tape.value, message)
      for (const message of messages) tell(message)
    })
  })

  return {
    tape,
    follow(): () => void {
      const trades = stream().trades(marketId, (message) => {
        if (waiting.length < WAITING_MAX) waiting.push(message)
        take.ask()
      })
      trades.ready.then(readPast, (error: unknown) => {
        if (!isCalledOff(error)) void readPast()
      })
      return () => {
        trades.close()
        take.stop()
      }
    },
  }
}
