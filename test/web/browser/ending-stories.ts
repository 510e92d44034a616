/**
 * How markets end on the page: a quick market while its page is open, and another market from the proposal to the
 * payout.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { assetPrice } from '#web/format.ts'
import { eventually } from '../../support/eventually.ts'
import { keepsNobodyOut } from './look-stories.ts'
import { connectDemo, type Stage, says, ticketOf } from './stage.ts'

const ANN = 10
const BOB = 11
const DISPUTE_SEC = 7_200
const HEARD_SEC = 2
/** When a test moves the time, a request in flight may exceed its deadline. The page then repeats the request. */
const MOVED = { expected: /the server responded with a status of 503 / }

export async function quickMarketEnds(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, '', MOVED)
  const reader = stage.client(ANN)
  await page.getByRole('link', { name: /^BTC up in 15 minutes/ }).click()
  await says(page, /^(YES|NO) is ahead\.$/)
  await ticketOf(page).waitFor()
  const chart = page.getByRole('region', { name: 'Price chart' })
  await says(chart, /^BTC is at [\d,.]+, .*the strike of [\d,.]+, .* \d\d:\d\d are left\.$/)
  const [marketId = ''] = /0x[0-9a-f]{64}/.exec(page.url()) ?? []
  const { expiration } = await reader.market(marketId)
  const { serverTime } = await reader.config({ fresh: true })
  // Moves the clock to `HEARD_SEC` before the end, so that the exchange still receives the price at the end.
  await stage.warp(Math.max(1, expiration - serverTime - HEARD_SEC))
  await says(page, 'Trading has ended.')
  assert.equal(await ticketOf(page).count(), 0)
  await says(page, /^The price went (up: YES|down: NO) has won\.$/)
  await says(chart, /^BTC was at [\d,.]+, .* The market has ended\.$/)
  await showsEvidence(page, stage, marketId)
  // The page links to the next market.
  await page.getByRole('link', { name: 'Next BTC market' }).click()
  await says(page, /^(YES|NO) is ahead\.$/)
}

/** Checks that the list of past markets shows the ended market's winner and both prices of every source. */
async function showsEvidence(page: Page, stage: Stage, marketId: string): Promise<void> {
  const { quickMarkets } = stage.client(ANN)
  const ended = (await quickMarkets.history('BTC')).find((one) => one.marketId === marketId)
  assert.ok(ended !== undefined)
  const { providers = [], decidedBy } = await quickMarkets.evidence('BTC', ended.id)
  assert.equal(providers.length, 3)
  const past = page.getByRole('region', { name: 'Past BTC markets' })
  await says(past, `Decided by ${decidedBy}.`)
  await says(past, ended.outcome === 0 ? 'YES won' : 'NO won')
  for (const { source, start, end } of providers) {
    const row = past.getByRole('row', { name: source })
    for (const report of [start, end]) await says(row, assetPrice(report?.price ?? 0))
  }
  await keepsNobodyOut(page, 'a quick market that has ended')
}

export async function resolutionAndRedemption(t: TestContext, stage: Stage): Promise<void> {
  const { week } = stage.markets
  const page = await stage.visit(t, `#/m/${week.id}`, MOVED)
  await connectDemo(page, ANN)
  const resolution = page.getByRole('region', { name: 'Resolution' })
  await says(resolution, /^Trading continues for/)
  const { serverTime } = await stage.client(ANN).config({ fresh: true })
  await stage.warp(week.expiration - serverTime + 1)
  const head = page.locator('.market-head')
  await says(head, 'Not decided yet')
  await says(resolution, /the exchange posts the bond of \$500\.00\./)
  await resolution.getByRole('button', { name: 'Propose YES' }).click()
  await says(resolution, /^YES was proposed with a bond of \$500\.00\./)
  await says(head, 'YES is proposed')
  await stage.warp(DISPUTE_SEC)
  await resolution.getByRole('button', { name: 'Settle as YES' }).click()
  await says(resolution, 'YES has won')
  await says(head, 'YES has won')
  assert.doesNotMatch(await head.innerText(), /%/)
  await positionsAreCards(t, stage)
  const balance = page.getByRole('button', { name: /^\$/ })
  const before = moneyOf(await balance.innerText())
  await resolution.getByRole('button', { name: 'Redeem $100,000.00' }).click()
  await says(page, 'Redeemed. The money is on its way to your account.')
  await eventually(async () => assert.equal(moneyOf(await balance.innerText()) - before, 100_000))
  await page.getByRole('link', { name: 'Portfolio' }).click()
  const activity = page.getByRole('region', { name: 'Activity' })
  await says(activity.getByRole('row', { name: /Redeemed/ }), '+$100,000.00')
}

/** Checks that profit and redeemable shares are visible on a phone. */
async function positionsAreCards(t: TestContext, stage: Stage): Promise<void> {
  const width = 390
  const page = await stage.visit(t, '#/portfolio', { viewport: { width, height: 844 } })
  await connectDemo(page, BOB)
  const card = page
    .getByRole('region', { name: 'Positions' })
    .getByRole('row', { name: stage.markets.week.question })
    .filter({ hasText: 'YES' })
  for (const part of [card.getByRole('button', { name: /^Redeem/ }), card.getByText(/^[+−]\$/)]) {
    const box = await part.boundingBox()
    assert.ok(box !== null && box.x >= 0 && box.x + box.width <= width, 'in sight')
  }
}

/** Checks the list entry of the market that the previous story has ended. */
export async function listNamesTheWinner(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, '')
  await page.getByLabel('State').selectOption('Ended')
  const row = page.getByRole('row', { name: stage.markets.week.question })
  await says(row, 'YES won')
  assert.doesNotMatch(await row.innerText(), /%/)
}

/** Proposes a wrong outcome of the market, and disputes the proposal as another trader. */
export async function proposalIsDisputed(t: TestContext, stage: Stage): Promise<void> {
  const { month } = stage.markets
  const page = await stage.visit(t, `#/m/${month.id}`, MOVED)
  await connectDemo(page, BOB)
  const { serverTime } = await stage.client(ANN).config({ fresh: true })
  await stage.warp(month.expiration - serverTime + 1)
  await eventually(() => stage.client(ANN).resolution.propose({ market: month, outcome: 'NO' }))
  const balance = page.getByRole('button', { name: /^\$/ })
  const resolution = page.getByRole('region', { name: 'Resolution' })
  await resolution.getByRole('button', { name: 'Dispute NO' }).click()
  await says(resolution, /^You post a bond of \$500\.00 at the oracle/)
  const before = moneyOf(await balance.innerText())
  await resolution.getByRole('button', { name: 'Post $500.00 and dispute' }).click()
  await says(resolution, 'NO was proposed and disputed. The oracle decides.')
  await eventually(async () => assert.equal(before - moneyOf(await balance.innerText()), 500))
}

function moneyOf(text: string): number {
  const [, amount = ''] = /\$([\d,.]+)/.exec(text) ?? []
  return Number(amount.replaceAll(',', ''))
}
