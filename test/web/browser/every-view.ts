/**
 * Takes pictures of every view of the page, at the widths of a desktop screen, a small laptop and a phone, in light and
 * dark.
 */

import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { DEMO_EVENT } from '#devnet/demo-words.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { eventually } from '../../support/eventually.ts'
import { warp } from '../../support/warp.ts'
import { connectDemo, says } from './stage.ts'

const SIZES = [
  { width: 1_440, height: 900 },
  { width: 1_024, height: 768 },
  { width: 390, height: 844 },
]
const SCHEMES = ['dark', 'light'] as const
/** Has traded in every market. */
const TRADER = 11
const WEEK_DAYS = 7
const DISPUTE_SEC = 7_200

type Places = {
  readonly browser: Browser
  readonly url: string
  readonly markets: readonly Market[]
  readonly folder: string
}

type View = { readonly name: string; show(page: Page): Promise<void> }

export async function takeEveryView(places: Places): Promise<void> {
  const { url, markets } = places
  const [month] = markets
  const week = markets.find(({ expiration, createdAt }) => {
    return Math.round((expiration - createdAt) / 86_400) === WEEK_DAYS
  })
  if (month === undefined || week === undefined) throw new Error('a demo market is missing')
  const go = async (page: Page, hash: string) => {
    await page.goto(`${url}/${hash}`)
    await page.reload()
  }
  const open: readonly View[] = [
    { name: 'list', show: (page) => go(page, '') },
    { name: 'event', show: (page) => go(page, `#/e/${DEMO_EVENT.info.slug}`) },
    { name: 'market', show: (page) => go(page, `#/m/${month.id}`) },
    {
      name: 'market-book',
      async show(page) {
        const book = page.getByRole('button', { name: 'Book', exact: true })
        if (await book.isVisible()) await book.click()
      },
    },
    {
      name: 'market-trade',
      async show(page) {
        const trade = page.getByRole('button', { name: 'Trade', exact: true })
        if (await trade.isVisible()) await trade.click()
        await page.getByRole('region', { name: 'Ticket' }).getByLabel('Shares').fill('250')
      },
    },
    {
      name: 'market-depth',
      async show(page) {
        const chart = page.getByRole('button', { name: 'Chart', exact: true })
        if (await chart.isVisible()) await chart.click()
        await page.getByRole('button', { name: 'Depth', exact: true }).click()
        await page.locator('.depth-field').hover({ position: { x: 60, y: 100 } })
      },
    },
    {
      name: 'market-info',
      async show(page) {
        const info = page.getByRole('button', { name: 'Info', exact: true })
        if (await info.isVisible()) await info.click()
      },
    },
    {
      name: 'quick',
      async show(page) {
        await go(page, '')
        await page.getByRole('link', { name: /^BTC/ }).first().click()
        await says(page, /is ahead\.$/)
      },
    },
    {
      name: 'quick-past',
      async show(page) {
        const info = page.getByRole('button', { name: 'Info', exact: true })
        if (await info.isVisible()) await info.click()
        const past = page.getByRole('region', { name: 'Past BTC markets' })
        await past.locator('summary').first().click()
        await says(past, /^Decided by/)
      },
    },
    {
      name: 'quick-ended',
      async show(page) {
        const past = page.getByRole('region', { name: 'Past BTC markets' })
        await past.getByRole('link', { name: 'The market' }).click()
        await says(page, /has won\.$/)
        await says(past, /^Decided by/)
      },
    },
    { name: 'portfolio', show: (page) => go(page, '#/portfolio') },
    {
      name: 'account',
      async show(page) {
        await page.locator('#account-button').click()
      },
    },
  ]
  await takeViews(places, open)
  const trader = createClient({ url, signer: devnetKey(TRADER) })
  const { serverTime } = await trader.config({ fresh: true })
  await warp(trader, week.expiration - serverTime + 1)
  await eventually(() => trader.resolution.propose({ market: week, outcome: 'YES' }))
  await takeViews(places, [{ name: 'proposed', show: (page) => go(page, `#/m/${week.id}`) }])
  await warp(trader, DISPUTE_SEC)
  await eventually(() => trader.resolution.settle({ market: week, winningOutcome: 'YES' }))
  await trader.resolution.waitFor(week.id, 'resolved')
  await takeViews(places, [
    { name: 'ended', show: (page) => go(page, `#/m/${week.id}`) },
    { name: 'portfolio-redeem', show: (page) => go(page, '#/portfolio') },
    {
      name: 'list-ended',
      async show(page) {
        await go(page, '')
        await page.getByLabel('State').selectOption('Ended')
      },
    },
  ])
}

async function takeViews({ browser, url, folder }: Places, views: readonly View[]): Promise<void> {
  for (const viewport of SIZES) {
    for (const colorScheme of SCHEMES) {
      const context = await browser.newContext({ viewport, colorScheme })
      const page = await context.newPage()
      await page.goto(url)
      await connectDemo(page, TRADER)
      for (const { name, show } of views) {
        await show(page)
        await page.waitForLoadState('networkidle')
        const path = join(folder, `${name}-${viewport.width}-${colorScheme}.png`)
        await page.screenshot({ path, fullPage: name !== 'account' })
      }
      await context.close()
    }
  }
}
