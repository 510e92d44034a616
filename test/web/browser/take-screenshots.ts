/**
 * `npm run screenshots`: writes the pictures of the trading page in `docs/images`, from an exchange with some hours of
 * simulated trading. With a folder as argument, writes every view into that folder instead, at three widths and in both
 * colour schemes.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import type { Market } from '#protocol/shapes/markets.ts'
import { openBrowser } from '../../support/browser.ts'
import { openExchange } from '../../support/exchange.ts'
import { takeEveryView } from './every-view.ts'
import { makeUpTrading } from './made-up-trading.ts'
import { connectDemo, says } from './stage.ts'

const FOLDER = fileURLToPath(new URL('../../../docs/images', import.meta.url))
/** The pictures show an account without trades, because marks of its own trades would cover the chart. */
const VISITOR = 12

/** Takes a picture of the page as WebP, which is a third of the size of PNG. */
async function take(page: Page, name: string): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const picture = { format: 'webp', quality: 85 } as const
  const { data } = await session.send('Page.captureScreenshot', picture)
  writeFileSync(join(FOLDER, `${name}.webp`), Buffer.from(data, 'base64'))
  process.stdout.write(`docs/images/${name}.webp\n`)
}

/** Switches the chart to candles of 15 minutes; resolves when they are drawn. */
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
  await page.locator('.quick-price', { hasText: /\d/ }).nth(1).waitFor()
  await take(page, 'markets')
  await page.getByRole('link', { name: market.question, exact: true }).click()
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

const folder = process.argv[2]
const exchange = await openExchange({ devnet: true })
const browser = await openBrowser()
try {
  const markets = await makeUpTrading(exchange.url)
  mkdirSync(folder ?? FOLDER, { recursive: true })
  if (folder !== undefined) await takeEveryView({ browser, url: exchange.url, markets, folder })
  else await takeAll(browser, exchange.url, markets[0]!)
} finally {
  await browser.close()
  await exchange.dispose()
}
