/** Some hours of invented trading, for screenshots of the page. */

import assert from 'node:assert/strict'
import { type Client, createClient, type PlaceIntent } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { DEMO_EVENT, DEMO_WORDS } from '#devnet/demo-words.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { eventually } from '../../support/eventually.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { warp } from '../../support/warp.ts'

const SEED = 7
const CENT = 10_000
const SHARE = 1_000_000
const STEPS = 40
const STEP_SEC = 300
const QUICK_SEC = 900
/** Initial price of each market, in cents. */
const STARTS = [64, 31, 88]
const LEVELS = 12

type Scene = { readonly maker: Client; readonly taker: Client; readonly random: Random }

/** Makes some trades, at a price that drifts randomly. */
async function trade({ maker, taker, random }: Scene, marketId: string, cents: number) {
  const terms = { marketId, outcome: 'YES', price: cents * CENT, ttlSeconds: 86_400 } as const
  const size = random.int(20, 400) * SHARE
  const [first, second] = random.chance(0.5)
    ? (['sell', 'buy'] as const)
    : (['buy', 'sell'] as const)
  await maker.orders.place({ ...terms, side: first, size })
  await taker.orders.place({ ...terms, side: second, size })
}

async function quote({ maker, random }: Scene, marketId: string, cents: number): Promise<void> {
  const intents = Array.from({ length: LEVELS }, (_, at): PlaceIntent[] => {
    const level = (away: number, side: 'buy' | 'sell', outcome: 'YES' | 'NO'): PlaceIntent => ({
      marketId,
      side,
      outcome,
      price: Math.round((outcome === 'YES' ? cents : 100 - cents) * CENT + away * CENT),
      size: random.int(50, 900) * SHARE,
      ttlSeconds: 86_400,
    })
    const away = 0.5 + at * 0.5
    return [
      level(-away, 'buy', 'YES'),
      level(away, 'sell', 'YES'),
      level(-away, 'buy', 'NO'),
      level(away, 'sell', 'NO'),
    ]
  })
  const results = await maker.orders.placeBatch(intents.flat())
  assert.ok(results.every(({ ok }) => ok))
}

async function makeHistory(scene: Scene, markets: readonly Market[]): Promise<void> {
  const { taker, random } = scene
  const prices = [...STARTS]
  for (let step = 0; step < STEPS; step++) {
    for (const [at, { id }] of markets.entries()) {
      const moved = (prices[at] ?? 50) + random.int(-3, 3) / 2
      prices[at] = Math.min(95, Math.max(5, moved))
      await trade(scene, id, prices[at])
    }
    await warp(taker, STEP_SEC)
  }
  // A quick market begins every `QUICK_SEC`. Moves the time to 2 s before the second start from now.
  const { serverTime } = await taker.config({ fresh: true })
  await warp(taker, QUICK_SEC - (serverTime % QUICK_SEC) - 2 + QUICK_SEC)
  for (const [at, { id }] of markets.entries()) await quote(scene, id, prices[at] ?? 50)
  for (const asset of ['BTC', 'ETH']) {
    await eventually(async () => assert.ok(await taker.quickMarkets.active(asset)))
  }
}

/** Trades for some hours, waits until a quick market runs, and returns the demo markets. */
export async function makeUpTrading(url: string): Promise<readonly Market[]> {
  const client = (account: number) => createClient({ url, signer: devnetKey(account) })
  const scene = { maker: client(10), taker: client(11), random: randomFrom(SEED) }
  const listed = await eventually(async () => {
    const all = await scene.taker.markets()
    assert.equal(all.length, DEMO_WORDS.length + DEMO_EVENT.questions.length)
    return all
  })
  const markets = DEMO_WORDS.flatMap(({ question }) =>
    listed.filter((market) => market.question === question),
  )
  await makeHistory(scene, markets)
  return markets
}
