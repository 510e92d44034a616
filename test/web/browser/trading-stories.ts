/** Trading on the page: a trade between two people, a book with many orders, a restart, and refusals. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import type { PlaceIntent } from '#client/client.ts'
import { devnetAccount } from '#devnet/accounts.ts'
import { cents, decimal } from '#web/format.ts'
import { depthOf, depthWords } from '#web/market/depth-steps.ts'
import { eventually } from '../../support/eventually.ts'
import { randomFrom } from '../../support/random.ts'
import { sampleOf } from '../../support/sample.ts'
import { connectDemo, ladderOf, type Stage, says, sendOrder, ticketOf } from './stage.ts'

const ANN = 10
const BOB = 11
const CROWD = [12, 13, 14, 15]
const SIGNER = 16
const CENT = 10_000
/** Messages of the browser about requests while the exchange is unreachable or not ready. */
const GONE_OR_STARTING =
  /ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)|status of 503/
const LADDER_ROWS = 15
const DEPTH_LEVELS = 25
const ORDERS = sampleOf(1_000, 4)
/** Number of cancels per trader. */
const CANCELS = 10

/** Returns the position of the account in the shown market. */
function ownPosition(page: Page) {
  return page.getByRole('region', { name: 'Your position' })
}

export async function tradeOfTwo(t: TestContext, stage: Stage): Promise<void> {
  const { month } = stage.markets
  // Ann finds the market in the list, and Bob follows a link to it.
  const ann = await stage.visit(t, '')
  const bob = await stage.visit(t, `#/m/${month.id}`)
  await connectDemo(bob, BOB)
  await says(ownPosition(bob), '100,000.00')
  await sendOrder(bob, { side: 'Sell', cents: '40', shares: '25' })
  await says(bob, 'Sell 25.00 YES at 40.0¢: the order is in the book.')

  await ann.getByRole('link', { name: month.question, exact: true }).click()
  await connectDemo(ann, ANN)
  await says(ann.getByRole('button', { name: /^\$/ }), '$1,000,000.00')
  await ann.getByRole('button', { name: /^Ask 40\.0¢ ?25\.00/ }).click()
  await ticketOf(ann).getByRole('button', { name: 'Buy YES', exact: true }).click()

  // Each page shows its message for some seconds only, so both are checked at the same time.
  await Promise.all([
    says(ann, 'Bought 25.00 YES at 40.0¢: confirmed on chain.'),
    says(bob, 'Sold 25.00 YES at 40.0¢: confirmed on chain.'),
  ])
  await says(ownPosition(ann), '100,025.00')
  await says(ownPosition(bob), '99,975.00')
  await says(ann.getByRole('button', { name: /^\$/ }), '$999,990.00')
  await says(bob.getByRole('button', { name: /^\$/ }), '$1,000,010.00')
  for (const page of [ann, bob]) {
    await says(page.getByRole('region', { name: 'Trades' }), 'confirmed')
    const chart = page.getByRole('region', { name: 'Price chart' })
    await says(chart, /^YES is at 40\.0¢, .* Last trade: 25\.00 YES at 40\.0¢\.$/)
  }
}

/** Returns the account's orders on the shown page. */
function openOrders(page: Page) {
  return page.getByRole('region', { name: 'Open orders' })
}

export async function orderIsProven(t: TestContext, stage: Stage): Promise<void> {
  const { week } = stage.markets
  const page = await stage.visit(t, `#/m/${week.id}`)
  await connectDemo(page, SIGNER)
  await sendOrder(page, { side: 'Sell', cents: '91', shares: '3' })
  await says(page, 'Sell 3.00 YES at 91.0¢: the order is in the book.')
  // Simulates a malicious server: changes one number in its proof.
  await page.route('**/proof', async (route) => {
    const response = await route.fetch()
    const text = await response.text()
    await route.fulfill({ response, body: text.replace(/^index \d+$/m, 'index 0') })
  })
  const orders = openOrders(page)
  const button = orders.getByRole('button', { name: /^Proof: Sell YES at 91\.0¢/ })
  await button.click()
  await says(page, /is not in the tree|the proof is for another entry/)
  assert.equal(await orders.getByText('✓ Proven').count(), 0)
  await page.unroute('**/proof')
  await button.click()
  const tick = orders.getByText('✓ Proven')
  await tick.waitFor()
  assert.match(
    (await tick.getAttribute('title')) ?? '',
    /^Entry \d+ of \d+ in the log localhost\/log\//,
  )
  await orders.getByRole('button', { name: /^Cancel: Sell YES at 91\.0¢/ }).click()
  await says(page, 'Order cancelled.')
}

/** Reads the book from the API; returns the ladder rows that the page should show. */
async function bookWords(stage: Stage, outcome: 'YES' | 'NO'): Promise<string[]> {
  const { bids, asks } = await stage.client(ANN).orderbook(stage.markets.quarter.id, outcome)
  const words = (kind: string, levels: readonly { price: number; size: bigint }[]) => {
    let total = 0n
    return levels.slice(0, LADDER_ROWS).map(({ price, size }) => {
      total += size
      return `${kind} ${cents(price)} ${decimal(size, 2)} ${decimal(total, 0)}`
    })
  }
  return [...words('Ask', asks).reverse(), ...words('Bid', bids)]
}

async function showsTheBook(stage: Stage, page: Page, outcome: 'YES' | 'NO'): Promise<void> {
  await eventually(async () => {
    const book = await bookWords(stage, outcome)
    assert.ok(book.length > 0)
    assert.deepEqual(await ladderOf(page), book)
  })
}

export async function ladderOfManyOrders(t: TestContext, stage: Stage): Promise<void> {
  const random = randomFrom(Number(process.env.TEST_SEED ?? Date.now() % 1e9))
  t.diagnostic(`TEST_SEED=${random.seed}`)
  const { id: marketId } = stage.markets.quarter
  const page = await stage.visit(t, `#/m/${marketId}`)
  await says(page, 'No orders')
  // A few of the orders match, and each match is a trade to settle.
  const intent = (): PlaceIntent => {
    const side = random.pick(['buy', 'sell'] as const)
    const away = random.int(-1, 60)
    return {
      marketId,
      side,
      outcome: random.pick(['YES', 'NO'] as const),
      price: 50 * CENT + (side === 'buy' ? -away : away) * (CENT / 2),
      size: random.int(1_000_000, 9_000_000),
      ttlSeconds: 3_600,
    }
  }
  await Promise.all(
    CROWD.map(async (account) => {
      const { orders } = stage.client(account)
      const results = await orders.placeBatch(Array.from({ length: ORDERS / CROWD.length }, intent))
      const placed = results.flatMap((result) => (result.ok ? [result.placed] : []))
      assert.equal(placed.length, results.length)
      const open = placed.filter(({ matches }) => matches === 0).slice(0, CANCELS)
      // Orders that were filled meanwhile can no longer be cancelled.
      const cancelled = open.map(({ orderHash }) => orders.cancel({ orderHash, marketId }))
      await Promise.allSettled(cancelled)
    }),
  )
  await showsTheBook(stage, page, 'YES')
  await page
    .getByRole('region', { name: 'Order book of YES' })
    .getByRole('button', { name: 'NO' })
    .click()
  await showsTheBook(stage, page, 'NO')
  await page.getByRole('button', { name: 'Depth', exact: true }).click()
  const { bids, asks } = await stage.client(ANN).orderbook(marketId, 'NO')
  const depth = depthOf(bids.slice(0, DEPTH_LEVELS), asks.slice(0, DEPTH_LEVELS))
  await says(page.getByRole('region', { name: 'Price chart' }), depthWords('NO', depth))
}

export async function restartIsCaughtUp(t: TestContext, stage: Stage): Promise<void> {
  const { id: marketId } = stage.markets.quarter
  const page = await stage.visit(t, `#/m/${marketId}`, {
    expected: GONE_OR_STARTING,
  })
  await showsTheBook(stage, page, 'YES')
  await page.evaluate(() => {
    document.body.dataset.visit = 'first'
  })
  await stage.restart(async () => {
    await says(page, 'Connection lost. The data on this page can be old. Reconnecting …')
  })
  const ann = stage.client(ANN)
  const { bids } = await ann.orderbook(marketId, 'YES')
  const price = bids[0]?.price ?? CENT
  const order = { marketId, side: 'buy', outcome: 'YES', size: '7', ttlSeconds: 3_600 } as const
  await ann.orders.place({ ...order, price })
  await says(page, 'Live')
  await showsTheBook(stage, page, 'YES')
  assert.equal(await page.evaluate(() => document.body.dataset.visit), 'first')
}

/** Announces a wallet that connects at the second attempt, and never signs. */
function announceRefusingWallet(address: string): void {
  const declined = () => Object.assign(new Error('User rejected the request.'), { code: 4001 })
  let asked = 0
  const provider = {
    async request({ method }: { method: string }) {
      if (method === 'eth_chainId') return '0x7a69'
      if (method === 'eth_requestAccounts' && ++asked > 1) return [address]
      throw declined()
    },
    on: () => provider,
  }
  const info = { uuid: 'u', rdns: 'test.refusing', name: 'Refusing wallet', icon: '' }
  addEventListener('eip6963:requestProvider', () => {
    dispatchEvent(
      new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }),
    )
  })
}

export async function walletThatRefuses(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, `#/m/${stage.markets.quarter.id}`, {
    before: `(${announceRefusingWallet})('${devnetAccount(SIGNER).address}')`,
  })
  await page.getByRole('button', { name: 'Connect', exact: true }).click()
  const wallet = page.getByRole('dialog').getByRole('button', { name: 'Refusing wallet' })
  await wallet.click()
  await says(page.getByRole('log'), 'You declined the request in the wallet.')
  await wallet.click()
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
  await sendOrder(page, { side: 'Buy', cents: '1', shares: '10' })
  await says(ticketOf(page).getByRole('alert'), 'You declined the request in the wallet.')
}

export async function refusalSaysWhy(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, `#/m/${stage.markets.quarter.id}`, {
    expected: /status of 4\d\d/,
  })
  await connectDemo(page, SIGNER)
  const refusal = ticketOf(page).getByRole('alert')
  await ticketOf(page).getByRole('button', { name: 'Limit', exact: true }).click()
  await ticketOf(page).getByLabel('Post only').check()
  await sendOrder(page, { side: 'Buy', cents: '99', shares: '10' })
  await says(refusal, /^Post only: the order would have traded on arrival, at \d+\.\d¢\.$/)
  await ticketOf(page).getByLabel('Shares').fill('2000000')
  await says(refusal, /^The order may cost \$1,97[\d,.]+, but you have only \$1,000,000\.00\.$/)
  assert.ok(await ticketOf(page).getByRole('button', { name: 'Buy YES', exact: true }).isDisabled())
}
