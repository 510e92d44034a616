/**
 * Measures how fast trades settle on the local chain in batches of 1, 10 and 50, and the gas per trade. The measurement
 * starts when the trades are in the database, and ends when the markets have acknowledged that the last trade has
 * settled. The rate of batches of 50 is compared with that of batches of 1. The rate of bare transfers on the same
 * chain is printed, too. Hardhat's chain makes one block per transaction, so a batch saves the cost of blocks and of
 * reads of the chain. Settlement polls as often as on the devnet. With `--eager` it polls without a pause, which would
 * overload a shared node.
 */

import assert from 'node:assert/strict'
import type { Hex } from 'viem'
import { defaults } from '#config/default.ts'
import { devnet } from '#config/devnet.ts'
import { SELL } from '#domain/order.ts'
import { startWorld } from '../test/services/settlement/on-chain/chain-fixture.ts'
import { openTestChain } from '../test/support/chain.ts'
import { median, quick, report, runBench } from './bench.ts'

const SIZES = [1, 10, 50] as const
/** Number of trades in one measurement, by the size of the batch. */
const TRADES: Readonly<Record<number, number>> = quick
  ? { 1: 12, 10: 60, 50: 150 }
  : { 1: 60, 10: 200, 50: 500 }
const TRANSFERS = quick ? 30 : 100

const { pollMs, batchWaitMs, inFlightMax } = { ...defaults.settlement, ...devnet.settlement }
const pace = process.argv.includes('--eager')
  ? { readEveryMs: pollMs }
  : { batchWaitMs, inFlightMax, readEveryMs: pollMs, pollEveryMs: pollMs }

const chain = await openTestChain({ seed: true })
const gas = new Map<number, number[]>(SIZES.map((size) => [size, []]))
const rates = new Map<number, number[]>(SIZES.map((size) => [size, []]))
const bare: number[] = []

/** Returns the trades per second with batches of this size. */
async function settle(batchMax: number, warmup: boolean): Promise<number> {
  const world = await startWorld(chain, { direct: true, rules: { batchMax, ...pace } })
  try {
    const { state } = world
    const count = TRADES[batchMax] ?? 1
    // The first trade settles before the measurement, because it causes reads of the chain, the contract and the market
    // that happen only once.
    await world.trade()
    await world.run(() => state.history.ended.size === 1 && state.flight.batches.size === 0)
    for (let each = 0; each < count; each++) {
      const price = 0.3 + (each % 40) / 100
      await world.place({ by: 10 + (each % 5), side: SELL, price })
      await world.place({ by: 15 + (each % 5), price })
    }
    await world.projected()
    const begunMs = performance.now()
    await world.run(() => state.history.ended.size === count + 1 && state.flight.batches.size === 0)
    const rate = count / ((performance.now() - begunMs) / 1_000)
    assert.equal(
      (await world.statuses()).filter((status) => status === 'confirmed').length,
      count + 1,
    )
    await world.agree()
    if (!warmup) {
      rates.get(batchMax)?.push(rate)
      for (const each of world.said) {
        if (each.type !== 'BatchEnded' || each.settled < batchMax) continue
        gas.get(batchMax)?.push(each.gasUsed / each.settled)
      }
    }
    return rate
  } finally {
    await world.close()
  }
}

/**
 * Returns the number of bare transfers per second. The transfers are signed in advance and sent one after the other.
 */
async function transfer(): Promise<number> {
  const account = chain.chain.account(9)
  const first = await chain.publicClient.getTransactionCount({ address: account.address })
  const signed: Hex[] = []
  for (let nonce = first; nonce < first + TRANSFERS; nonce++) {
    signed.push(
      await account.signTransaction({
        type: 'eip1559',
        chainId: chain.settings.chainId,
        nonce,
        to: chain.owner.address,
        value: 1n,
        gas: 21_000n,
        maxFeePerGas: 100_000_000_000n,
        maxPriorityFeePerGas: 1_000_000_000n,
      }),
    )
  }
  const begunMs = performance.now()
  for (const serializedTransaction of signed) {
    await chain.publicClient.sendRawTransaction({ serializedTransaction })
  }
  return TRANSFERS / ((performance.now() - begunMs) / 1_000)
}

try {
  const result = await runBench({
    bench: 'settlement',
    unit: 'trades/s in batches of 50',
    peer: 'trades/s in batches of 1',
    bar: 5,
    rounds: quick ? 2 : 5,
    async ours({ warmup }) {
      await settle(10, warmup)
      if (!warmup) bare.push(await transfer())
      return settle(50, warmup)
    },
    theirs: ({ warmup }) => settle(1, warmup),
  })
  for (const size of SIZES) {
    const rate = median(rates.get(size) ?? []).toFixed(1)
    const perTrade = Math.round(median(gas.get(size) ?? []))
    process.stdout.write(`batches of ${size}: ${rate} trades/s, ${perTrade} gas per trade\n`)
  }
  process.stdout.write(`bare transfers: ${median(bare).toFixed(1)} transactions/s\n`)
  report(result)
} finally {
  await chain.close()
}
