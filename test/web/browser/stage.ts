/** Common parts of the browser stories: one exchange with a local chain, one browser, and its visitors. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { type Client, createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { DEMO_EVENT, DEMO_WORDS } from '#devnet/demo-words.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { createVisitors, openBrowser, type PageOptions } from '../../support/browser.ts'
import { eventually } from '../../support/eventually.ts'
import { type Exchange, startExchange } from '../../support/exchange.ts'
import { warp } from '../../support/warp.ts'

const ENVIRONMENT = {
  // Short intervals, because stories wait for heartbeats, which update the page's time, and for reads of the chain.
  SIBYL_STREAM_HEARTBEAT_MS: '1000',
  SIBYL_RESOLUTION_POLL_MS: '250',
  SIBYL_TRANSPARENCY: 'on',
}

export type Stage = {
  readonly exchange: Exchange
  /** Demo markets that last a month, a quarter and a week. */
  readonly markets: { readonly month: Market; readonly quarter: Market; readonly week: Market }
  /** Returns the client of this demo account, the same one each time. */
  client(account: number): Client
  /** Opens a page in a new session; `hash` is the part of its address after the host. */
  visit(t: TestContext, hash: string, options?: PageOptions): Promise<Page>
  /** Kills the exchange, runs the function, and starts the exchange again at the same address. */
  restart(whileGone: () => Promise<void>): Promise<void>
  /** Moves the time of the chain and of the exchange. */
  warp(seconds: number): Promise<void>
}

export async function openStage(t: TestContext): Promise<Stage> {
  const browser = await openBrowser()
  t.after(() => browser.close())
  const exchange = await startExchange(t, { devnet: true, environment: ENVIRONMENT })
  const visitPage = createVisitors(browser)
  const clients = new Map<number, Client>()
  const client = (account: number) => {
    const made =
      clients.get(account) ?? createClient({ url: exchange.url, signer: devnetKey(account) })
    clients.set(account, made)
    return made
  }
  const reader = createClient({ url: exchange.url })
  const listed = await eventually(async () => {
    const all = await reader.markets()
    assert.equal(all.length, DEMO_WORDS.length + DEMO_EVENT.questions.length)
    return all
  })
  const lasting = (days: number) => {
    const words = DEMO_WORDS.find((one) => one.days === days)
    const market = listed.find(({ question }) => question === words?.question)
    assert.ok(market !== undefined)
    return market
  }
  return {
    exchange,
    markets: { month: lasting(30), quarter: lasting(90), week: lasting(7) },
    client,
    visit: (test, hash, options) => visitPage(test, `${exchange.url}/${hash}`, options),
    async restart(whileGone) {
      const { port } = new URL(exchange.url)
      await exchange.kill()
      await whileGone()
      await exchange.start({ ...ENVIRONMENT, SIBYL_PORT: port })
    },
    warp: (seconds) => warp(reader, seconds),
  }
}

export async function connectDemo(page: Page, account: number): Promise<void> {
  await page.getByRole('button', { name: 'Connect', exact: true }).click()
  await page.getByRole('button', { name: `Demo trader ${account}` }).click()
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
}

export function ticketOf(page: Page): Locator {
  return page.getByRole('region', { name: 'Ticket' })
}

/** Writes an order into the ticket and sends it. */
export async function sendOrder(
  page: Page,
  order: {
    readonly side: 'Buy' | 'Sell'
    /** YES if none is named. */
    readonly outcome?: 'YES' | 'NO'
    readonly cents: string
    readonly shares: string
  },
): Promise<void> {
  const { side, outcome = 'YES' } = order
  const ticket = ticketOf(page)
  await ticket.getByRole('button', { name: 'Limit', exact: true }).click()
  await ticket.getByRole('button', { name: side, exact: true }).click()
  if (outcome === 'NO') await ticket.getByRole('button', { name: /^NO / }).click()
  await ticket.getByLabel('Limit price').fill(order.cents)
  await ticket.getByLabel('Shares').fill(order.shares)
  await ticket.getByRole('button', { name: `${side} ${outcome}`, exact: true }).click()
}

/** Waits until the page shows this text. */
export async function says(place: Page | Locator, words: string | RegExp): Promise<void> {
  await place.getByText(words).first().waitFor()
}

/** Returns the rows of the ladder, asks from the highest down, then bids: `Ask 58.0¢ 12.48 235`. */
export async function ladderOf(page: Page): Promise<readonly string[]> {
  return await page.locator('.ladder-row:not([disabled])').evaluateAll((rows) =>
    rows.map((row) =>
      [...row.children]
        .map(({ textContent }) => textContent)
        .join(' ')
        .trim(),
    ),
  )
}
