/** Tests of the page's appearance on a phone, and of its accessibility. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { TestContext } from 'node:test'
import type { AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'
import { reportHtml } from '../../../loadtest/report-html.ts'
import { sampleReport } from '../../loadtest/sample-report.ts'
import { overflowOf } from '../../support/browser.ts'
import { eventually } from '../../support/eventually.ts'
import { connectDemo, type Stage, says, sendOrder, ticketOf } from './stage.ts'

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
const CAROL = 17

export async function phone(t: TestContext, stage: Stage): Promise<void> {
  const { month } = stage.markets
  const page = await stage.visit(t, '', PHONE)
  const fits = async (what: string) =>
    assert.ok((await overflowOf(page)) <= 0, `${what} is too wide`)
  const listed = page.getByRole('link', { name: month.question, exact: true })
  await listed.waitFor()
  await fits('the list')
  await connectDemo(page, CAROL)
  await fits('the list with an account')
  await listed.click()
  for (const part of ['Chart', 'Book', 'Info', 'Trade']) {
    await page.getByRole('button', { name: part, exact: true }).click()
    await fits(part)
  }
  await page.getByRole('button', { name: 'Chart', exact: true }).click()
  assert.equal(await ticketOf(page).isVisible(), false, 'one part at a time')
  // One tap opens the ticket, and all of its fields can be reached.
  await page.getByRole('button', { name: /^Buy YES/ }).click()
  await sendOrder(page, { side: 'Buy', cents: '3', shares: '11' })
  await says(page, 'Buy 11.00 YES at 3.0¢: the order is in the book.')
  await page.getByRole('link', { name: 'Portfolio' }).click()
  const orders = page.getByRole('region', { name: 'Open orders' })
  await says(orders, '11.00')
  await fits('the portfolio')
  await orders.getByRole('button', { name: /^Cancel: Buy YES at 3.0¢/ }).click()
  await says(orders, 'You have no open orders.')
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Accessibility problems that axe finds. */
async function barriers(page: Page, rule?: string): Promise<string[]> {
  const some = rule === undefined ? {} : { runOnly: { type: 'rule', values: [rule] } }
  const options = { resultTypes: ['violations'], ...some }
  const { violations } = await page.evaluate((asked) => {
    const { axe } = globalThis as unknown as { axe: { run(how: object): Promise<AxeResults> } }
    return axe.run(asked)
  }, options)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html} ${any[0]?.message}`))
}

/** Asserts that axe finds no serious accessibility problem, in either colour scheme. */
export async function keepsNobodyOut(page: Page, what: string): Promise<void> {
  // Runs axe through the debugger, whose scripts are not subject to the page's content security policy.
  await page.evaluate(AXE)
  await page.emulateMedia({ colorScheme: 'dark' })
  assert.deepEqual(await barriers(page), [], what)
  // The light scheme shows the same elements, so only the contrast is checked.
  await page.emulateMedia({ colorScheme: 'light' })
  assert.deepEqual(await barriers(page, 'color-contrast'), [], `${what} in light`)
}

export async function accessible(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, '', { colorScheme: 'dark' })
  const look = (what: string) => keepsNobodyOut(page, what)
  await page.getByRole('link', { name: stage.markets.month.question, exact: true }).waitFor()
  await look('the list')
  await page.getByRole('button', { name: 'Connect', exact: true }).click()
  await look('the account dialog')
  await page.getByRole('button', { name: 'Demo trader 10' }).click()
  await page.getByRole('link', { name: stage.markets.month.question, exact: true }).click()
  await says(page.getByRole('region', { name: 'Your position' }), 'YES')
  await says(page.getByRole('region', { name: 'Trades' }), 'confirmed')
  await page.getByRole('button', { name: 'Depth', exact: true }).click()
  await look('the market')
  await page.getByRole('link', { name: 'Portfolio' }).click()
  await says(page.getByRole('region', { name: 'Activity' }), 'Bought YES')
  await look('the portfolio')
  await page.keyboard.press('?')
  await look('the shortcuts')
}

/** Checks the layout at the widths of a small laptop and of a desktop screen. */
export async function layout(t: TestContext, stage: Stage): Promise<void> {
  const laptop = { width: 1_024, height: 768 }
  const page = await stage.visit(t, `#/m/${stage.markets.month.id}`, { viewport: laptop })
  const chart = page.getByRole('region', { name: 'Price chart' })
  const book = page.getByRole('region', { name: 'Order book of YES' })
  await book.waitFor()
  const [left, right] = [await chart.boundingBox(), await book.boundingBox()]
  assert.ok(left !== null && right !== null)
  assert.ok(Math.abs(left.y - right.y) < 2, 'the book is beside the chart')
  assert.ok(left.x + left.width <= right.x)
  assert.ok(left.width >= 400, 'the chart is wide enough')
  assert.ok((await overflowOf(page)) <= 0)

  await page.setViewportSize({ width: 1_440, height: 900 })
  await page.getByRole('button', { name: 'Connect', exact: true }).click()
  const dialog = page.getByRole('dialog')
  const last = dialog.getByRole('button', { name: 'Demo trader 19' })
  await last.waitFor()
  const [frame, button] = [await dialog.boundingBox(), await last.boundingBox()]
  assert.ok(frame !== null && button !== null)
  assert.ok(button.x + button.width <= frame.x + frame.width - 8, 'nothing is cut off')
}

export async function keysAndExport(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, `#/m/${stage.markets.quarter.id}`)
  await connectDemo(page, CAROL)
  const pressed = (name: RegExp) => ticketOf(page).getByRole('button', { name, pressed: true })
  await page.keyboard.press('s')
  await pressed(/^Sell$/).waitFor()
  await page.keyboard.press('n')
  await pressed(/^NO/).waitFor()
  // A key that is pressed in a field is text, not a shortcut.
  await ticketOf(page).getByLabel('Shares').focus()
  await page.keyboard.press('b')
  await pressed(/^Sell$/).waitFor()
  await page.evaluate(() => (document.activeElement as HTMLElement).blur())
  await page.keyboard.press('?')
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
  await says(dialog, 'Portfolio')
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'hidden' })
  await page.keyboard.press('p')
  const positions = page.getByRole('region', { name: 'Positions' })
  await says(positions, stage.markets.quarter.question)
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    positions.getByRole('button', { name: 'Export CSV' }).click(),
  ])
  assert.equal(file.suggestedFilename(), 'positions.csv')
  const rows = readFileSync(await file.path(), 'utf8')
  assert.match(rows, /^market,market_id,outcome,shares,/)
  const { id, question } = stage.markets.quarter
  assert.ok(rows.includes(`"${question}",${id},NO,`))
  await positions.getByRole('link', { name: `Sell NO of ${question}` }).click()
  await pressed(/^Sell$/).waitFor()
  await pressed(/^NO/).waitFor()
  await eventually(async () => {
    assert.equal(await ticketOf(page).getByLabel('Shares').inputValue(), '100000')
  })
}

/** Checks the chart of a market without trades. */
export async function chartBeforeTrades(t: TestContext, stage: Stage): Promise<void> {
  const { id: marketId } = stage.markets.quarter
  const page = await stage.visit(t, `#/m/${marketId}`)
  const chart = page.getByRole('region', { name: 'Price chart' })
  await says(chart, 'There is no price yet.')
  const { orders } = stage.client(CAROL)
  const terms = { marketId, outcome: 'YES', size: '10', ttlSeconds: 3_600 } as const
  const bid = await orders.place({ ...terms, side: 'buy', price: '0.40' })
  const ask = await orders.place({ ...terms, side: 'sell', price: '0.50' })
  await says(chart, 'Mid price: no trades yet')
  await says(chart, 'There are no trades yet. The mid of YES is at 45.0¢')
  await orders.cancel({ orderHash: bid.orderHash, marketId, side: 'buy' })
  await orders.cancel({ orderHash: ask.orderHash, marketId, side: 'sell' })
  await says(chart, 'There is no price yet.')
}

/** Checks the report of a load test, a page without a server. */
export async function loadReport(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, '', { viewport: PHONE.viewport })
  await page.goto('about:blank')
  await page.setContent(reportHtml({ ...sampleReport(), ended: 'why'.repeat(100) }))
  assert.equal(await overflowOf(page), 0, 'as wide as the window')
  await keepsNobodyOut(page, 'the report')
}
