/**
 * `npm run screenshots`: the pictures of the trading page in `docs/images`, of an exchange on which some
 * hours of trading have just been made up.
 */

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import type { Market } from '#client/answers.ts'
import { type Client, createClient, type PlaceIntent } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { DEMO_WORDS } from '#devnet/demo-words.ts'
import { openBrowser } from '../../support/browser.ts'
import { eventually } from '../../support/eventually.ts'
import { openExchange } from '../../support/exchange.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { warp } from '../../support/warp.ts'
import { connectDemo, says } from './stage.ts'

const FOLDER = fileURLToPath(new URL('../../../docs/images', import.meta.url))
const SEED = 7
const CENT = 10_000
const SHARE = 1_000_000
const STEPS = 40
const STEP_SEC = 300
const QUICK_SEC = 900
/** Where the price of each market begins, in cents. */
const STARTS = [64, 31, 88]
const LEVELS = 12
/** Has not traded: the marks of its own trades would cover the chart. */
const VISITOR = 12

type Scene = { readonly maker: Client; readonly taker: Client; readonly random: Random }

/** A trade now and then at a price that wanders. */
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

/** Makes the hours up, and answers when a quick market runs. */
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
  // Quick markets begin at the quarters of an hour.
  const { serverTime } = await taker.config({ fresh: true })
  await warp(taker, QUICK_SEC - (serverTime % QUICK_SEC) - 2 + QUICK_SEC)
  for (const [at, { id }] of markets.entries()) await quote(scene, id, prices[at] ?? 50)
  for (const asset of ['BTC', 'ETH']) {
    await eventually(async () => assert.ok(await taker.quickMarkets.active(asset)))
  }
}

/** As WebP, which is a third of a PNG. */
async function take(page: Page, name: string): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const picture = { format: 'webp', quality: 85 } as const
  const { data } = await session.send('Page.captureScreenshot', picture)
  writeFileSync(join(FOLDER, `${name}.webp`), Buffer.from(data, 'base64'))
  process.stdout.write(`docs/images/${name}.webp\n`)
}

/** Candles that show the hours, drawn. */
async function showCandles(page: Page): Promise<void> {
  const read = page.waitForResponse(/interval=15m/)
  await page.getByRole('button', { name: '15m', exact: true }).click()
  await page.getByRole('button', { name: 'Candles', exact: true }).click()
  await read
  await page.mouse.move(0, 0)
  await page.evaluate(
    () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
  )
}

async function takeAll(browser: Browser, url: string, market: Market): Promise<void> {
  const wide = { viewport: { width: 1_280, height: 800 }, colorScheme: 'dark' } as const
  const narrow = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const
  const page = await browser.newPage(wide)
  await page.goto(url)
  await connectDemo(page, VISITOR)
  await says(page, 'up in 15 minutes?')
  await take(page, 'markets')
  await page.getByRole('link', { name: market.question }).click()
  await says(page.getByRole('region', { name: 'Your position' }), 'YES')
  await showCandles(page)
  await page.getByRole('region', { name: 'Ticket' }).getByLabel('Shares').fill('250')
  await take(page, 'market')
  const phone = await browser.newPage(narrow)
  await phone.goto(`${url}/#/m/${market.id}`)
  await says(phone.getByRole('region', { name: 'Trades' }), 'confirmed')
  await showCandles(phone)
  await take(phone, 'phone')
}

mkdirSync(FOLDER, { recursive: true })
const exchange = await openExchange({ devnet: true })
const browser = await openBrowser()
try {
  const client = (account: number) =>
    createClient({ url: exchange.url, signer: devnetKey(account) })
  const scene = { maker: client(10), taker: client(11), random: randomFrom(SEED) }
  const listed = await eventually(async () => {
    const all = await scene.taker.markets()
    assert.equal(all.length, DEMO_WORDS.length)
    return all
  })
  const markets = DEMO_WORDS.flatMap(({ question }) =>
    listed.filter((market) => market.question === question),
  )
  await makeHistory(scene, markets)
  await takeAll(browser, exchange.url, markets[0]!)
} finally {
  await browser.close()
  await exchange.dispose()
}
