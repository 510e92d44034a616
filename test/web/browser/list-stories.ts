/**
 * The list of markets: its filter is in the URL, watched markets are kept after a reload, and links can be
 * shared.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { DEMO_EVENT } from '#devnet/demo-words.ts'
import { eventually } from '../../support/eventually.ts'
import { type Stage, says } from './stage.ts'

const MARKET_LINKS = '.market-table .market-cell > a'

export async function listInTheAddress(t: TestContext, stage: Stage): Promise<void> {
  const { month, quarter, week } = stage.markets
  const page = await stage.visit(t, '#/?sort=ends')
  const shows = async (...questions: readonly string[]) =>
    eventually(async () => {
      assert.deepEqual(await page.locator(MARKET_LINKS).allInnerTexts(), questions)
    })
  const { markets } = await stage.client(10).event(DEMO_EVENT.info.slug)
  const race = markets.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ question }) => question)
  await shows(week.question, month.question, ...race, quarter.question)
  await page.getByRole('button', { name: 'Ends in' }).click()
  await shows(quarter.question, ...race, month.question, week.question)
  await page.getByLabel('Search markets').fill('rain')
  await shows(month.question)
  assert.match(page.url(), /#\/\?search=rain&sort=ends&reversed=1$/)
  // The list is the same after another view and after a reload.
  await page.getByRole('link', { name: month.question, exact: true }).click()
  await page.getByRole('link', { name: 'Markets', exact: true }).first().click()
  await shows(month.question)
  await page.getByRole('button', { name: `Watch ${month.question}` }).click()
  await page.getByLabel('Search markets').fill('')
  await page.getByRole('button', { name: '★ Watched' }).click()
  await page.reload()
  await shows(month.question)
}

export async function eventWithItsMarkets(t: TestContext, stage: Stage): Promise<void> {
  const { title, slug } = DEMO_EVENT.info
  const maker = stage.client(10)
  const { markets, hash } = await maker.event(slug)
  const page = await stage.visit(t, '', { expected: /status of 404/ })
  const card = page.getByRole('region', { name: 'Events' }).getByRole('article')
  await says(card, DEMO_EVENT.questions[0] ?? '')
  await card.getByRole('link', { name: title }).click()
  await page.getByRole('heading', { name: title }).waitFor()
  assert.match(page.url(), new RegExp(`#/e/${slug}$`))
  assert.deepEqual(await page.locator(MARKET_LINKS).allInnerTexts(), DEMO_EVENT.questions)
  // The bids for YES of 0.50, 0.40 and 0.20 add up to 1.10, but at most one of the markets pays a dollar. So selling
  // YES in all of them earns 0.10.
  const terms = { side: 'buy', outcome: 'YES', size: '10', ttlSeconds: 3_600 } as const
  for (const [at, price] of ['0.50', '0.40', '0.20'].entries()) {
    const marketId = markets[at]!.id
    const { orderHash } = await maker.orders.place({ ...terms, marketId, price })
    t.after(() => maker.orders.cancel({ orderHash, marketId, side: 'buy' }))
  }
  await says(page, 'Selling YES in every market earns 10.0¢ per share.')
  // The page of a market links back to its event.
  await page.getByRole('link', { name: DEMO_EVENT.questions[1]!, exact: true }).click()
  await page.getByRole('navigation', { name: 'Where you are' }).getByText(title).click()
  await page.getByRole('heading', { name: title }).waitFor()
  // The shared link contains the start of the event's hash, so it cannot lead to another event.
  await page.getByRole('button', { name: 'Share' }).click()
  const path = `/e/${slug}-${hash.slice(2, 14)}`
  await says(page.getByRole('log'), new RegExp(`${path}$`))
  const text = await (await fetch(stage.exchange.url + path)).text()
  assert.ok(text.includes(`<meta property="og:title" content="${title}">`))
  assert.match(
    text,
    /<meta property="og:description" content="Does Astylos of Croton win the foot race\? /,
  )
  await page.goto(stage.exchange.url + path)
  await page.getByRole('heading', { name: title }).waitFor()
  await page.goto(stage.exchange.url + path.replace(/[0-9a-f]{12}$/, '0'.repeat(12)))
  await says(page, 'This page does not exist.')
}

/** Maximum number of page loads: the test fails if the stream is slow in every one of them. */
const SLOW_LOADS_MAX = 5

export async function listIsReadOnce(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, '')
  const listed = page.getByRole('link', { name: stage.markets.month.question, exact: true })
  await listed.waitFor()
  await page.waitForLoadState('networkidle')
  let steps: string[] = []
  page.on('request', (request) => {
    const { pathname, search } = new URL(request.url())
    if (pathname === '/api/v1/markets') steps.push(search)
  })
  page.on('websocket', (socket) => {
    socket.on('framereceived', ({ payload }) => {
      if (payload.includes('"market.snapshot"')) steps.push('snapshot')
    })
  })
  const load = async (): Promise<readonly string[]> => {
    steps = []
    await page.reload()
    await listed.waitFor()
    await says(page, /^\d+ ms$/)
    await page.waitForLoadState('networkidle')
    return steps
  }
  // If the stream is not ready within a second, the page reads the list twice: before and after the stream's snapshot.
  // The test then loads the page again.
  let loads = 1
  while ((await load())[0] !== 'snapshot' && loads < SLOW_LOADS_MAX) loads++
  assert.deepEqual(steps, ['snapshot', '?status=open&limit=200'])
}

export async function shareLink(t: TestContext, stage: Stage): Promise<void> {
  const { quarter } = stage.markets
  const page = await stage.visit(t, `#/m/${quarter.id}`, { expected: /status of 404/ })
  await page.getByRole('button', { name: 'Share' }).click()
  const toast = page.getByRole('log').getByText('/m/will-')
  const [link = ''] = /http\S+/.exec(await toast.innerText()) ?? []
  assert.match(link, /\/m\/will-the-total-value-[a-z-]+-[0-9a-f]{12}$/)
  const answer = await fetch(link)
  const text = await answer.text()
  assert.ok(text.includes(`<meta property="og:title" content="${quarter.question}">`))
  assert.match(text, /<meta property="og:description" content="(YES [\d.]+%, NO|Not traded)/)
  await page.goto(link)
  await page.getByRole('heading', { name: quarter.question }).waitFor()
  await page.goto(link.replace(/[0-9a-f]{12}$/, '0'.repeat(12)))
  await says(page, 'This page does not exist.')
}
