/** Stories of the ticket: parsed input, the result of a market order, and confirmations before money is at risk. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { devnetAccount } from '#devnet/accounts.ts'
import { eventually } from '../../support/eventually.ts'
import { connectDemo, type Stage, says, sendOrder, ticketOf } from './stage.ts'

const MAKER = 12
const TAKER = 13
const CENT = 10_000

export async function marketOrder(t: TestContext, stage: Stage): Promise<void> {
  const { id: marketId, question } = stage.markets.week
  const maker = stage.client(MAKER)
  const terms = { marketId, side: 'sell', outcome: 'YES', ttlSeconds: 3_600 } as const
  await maker.orders.place({ ...terms, price: 48 * CENT, size: '100' })
  await maker.orders.place({ ...terms, price: 49 * CENT, size: '100' })
  await maker.orders.place({ ...terms, price: 60 * CENT, size: '100' })
  // A price in the list leads to the ticket, which is filled in but not sent.
  const page = await stage.visit(t, '')
  await connectDemo(page, TAKER)
  await page.getByRole('link', { name: `Buy YES 48.0¢ of ${question}` }).click()
  const ticket = ticketOf(page)
  await says(ticket.getByRole('button', { name: /^YES/, pressed: true }), '48.0¢')
  assert.match(page.url(), new RegExp(`#/m/${marketId}$`))
  for (const step of ['+$10', '+$100', '+$10'])
    await ticket.getByRole('button', { name: step, exact: true }).click()
  assert.equal(await ticket.getByLabel('Amount').inputValue(), '120')
  await ticket.getByLabel('Amount').fill('72.50')
  await eventually(async () => {
    assert.equal(await ticket.getByLabel('Shares').inputValue(), '150')
    const figures = await ticket.locator('dl').innerText()
    assert.match(figures, /Average price\s+48\.3¢/)
    assert.match(figures, /Worst price\s+50\.0¢/)
    assert.match(figures, /Cost\s+\$72\.50/)
  })
  // Nothing beyond the slippage limit is taken.
  await ticket.getByLabel('Shares').fill('250')
  await says(ticket, '50.00 shares')
  await ticket.getByLabel('Shares').fill('150')
  await ticket.getByRole('button', { name: 'Buy YES', exact: true }).click()
  await says(page.getByRole('log'), /150\.00 filled/)
  const open = await stage.client(TAKER).orders.list({ market: marketId })
  assert.deepEqual(open, [])
  // One button sells all held shares, and others sell a part.
  await page.getByRole('button', { name: 'Sell all YES' }).click()
  await ticket.getByRole('button', { name: 'Sell', pressed: true }).waitFor()
  const held = ticket.getByLabel('Shares')
  await eventually(async () => assert.match(await held.inputValue(), /^1000\d\d|^100150$/))
  await ticket.getByRole('button', { name: '50%' }).click()
  assert.match(await held.inputValue(), /^500\d\d/)
}

export async function ticketUnderstands(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, `#/m/${stage.markets.week.id}`)
  await connectDemo(page, TAKER)
  const ticket = ticketOf(page)
  await ticket.getByRole('button', { name: 'Limit', exact: true }).click()
  await ticket.getByLabel('Limit price').fill('0.42')
  await ticket.getByRole('button', { name: 'Did you mean 42¢?' }).click()
  assert.equal(await ticket.getByLabel('Limit price').inputValue(), '42')
  await ticket.getByLabel('Shares').fill('1,000')
  await says(ticket, '= 1,000.00')
  await says(ticket, '$420.00')
  await ticket.getByLabel('Shares').fill('1,5')
  await says(ticket.getByRole('alert'), /^A comma separates thousands/)
}

export async function shortSaleWarns(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, `#/m/${stage.markets.week.id}`)
  await connectDemo(page, TAKER)
  const own = page.getByRole('region', { name: 'Open orders' })
  await sendOrder(page, { side: 'Sell', cents: '97', shares: '500,000' })
  const ticket = ticketOf(page)
  await says(ticket.getByRole('alert'), /^You have [\d,.]+ YES shares: [\d,.]+ are missing\./)
  assert.equal(await own.getByRole('row').count(), 0)
  await ticket.getByRole('button', { name: 'Sell YES anyway' }).click()
  await says(page.getByRole('log'), 'the order is in the book')
  await own.getByRole('button', { name: 'Cancel all' }).click()
  await own.getByRole('button', { name: 'Keep the orders' }).click()
  const open = await stage.client(TAKER).orders.list({ market: stage.markets.week.id })
  assert.equal(open.length, 1)
  await own.getByRole('button', { name: 'Cancel all' }).click()
  await own.getByRole('button', { name: 'Cancel one order' }).click()
  await says(page.getByRole('log'), 'Order cancelled.')
}

/** Announces a wallet that connects and then never answers. */
function announceSilentWallet(address: string): void {
  const provider = {
    request: ({ method }: { method: string }) => {
      if (method === 'eth_chainId') return Promise.resolve('0x7a69')
      if (method === 'eth_requestAccounts' || method === 'eth_accounts') {
        return Promise.resolve([address])
      }
      return new Promise(() => undefined)
    },
    on: () => provider,
  }
  const info = { uuid: 's', rdns: 'test.silent', name: 'Silent wallet', icon: '' }
  addEventListener('eip6963:requestProvider', () => {
    dispatchEvent(
      new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }),
    )
  })
}

export async function silentWallet(t: TestContext, stage: Stage): Promise<void> {
  const page = await stage.visit(t, `#/m/${stage.markets.week.id}`, {
    before: `(${announceSilentWallet})('${devnetAccount(TAKER).address}')`,
  })
  await page.getByRole('button', { name: 'Connect', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Silent wallet' }).click()
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
  await sendOrder(page, { side: 'Buy', cents: '1', shares: '200' })
  const ticket = ticketOf(page)
  await ticket.getByRole('button', { name: 'Stop waiting for the wallet' }).click()
  await says(ticket.getByRole('alert'), 'The wallet did not answer. No order was sent.')
  const send = ticket.getByRole('button', { name: 'Buy YES', exact: true })
  assert.equal(await send.isEnabled(), true)
}
