/** Stories of a new, empty wallet. The test has the wallet's key, and signs what the page requests. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import { createPublicClient, createWalletClient, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { hardhat } from 'viem/chains'
import { DEMO_EVENT } from '#devnet/demo-words.ts'
import { eventually } from '../../support/eventually.ts'
import { type Stage, says, sendOrder, ticketOf } from './stage.ts'

type WalletWindow = {
  askWallet(method: string, params: readonly unknown[] | undefined): Promise<unknown>
}

/** Announces a wallet whose answers the test gives. */
function announceWallet(): void {
  const provider = {
    request: ({ method, params }: { method: string; params?: readonly unknown[] }) =>
      (globalThis as unknown as WalletWindow).askWallet(method, params),
    on: () => provider,
  }
  const info = { uuid: 'f', rdns: 'test.fresh', name: 'Fresh wallet', icon: '' }
  addEventListener('eip6963:requestProvider', () => {
    dispatchEvent(
      new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }),
    )
  })
}

/** Connects a new wallet; `signed` receives the type of each signature that the page requests. */
async function connectFresh(page: Page, rpcUrl: string, signed: string[]): Promise<void> {
  const account = privateKeyToAccount(generatePrivateKey())
  const transport = http(rpcUrl)
  const wallet = createWalletClient({ account, chain: hardhat, transport })
  const node = createPublicClient({ chain: hardhat, transport })
  await page.exposeFunction('askWallet', async (method: string, params: readonly never[] = []) => {
    switch (method) {
      case 'eth_requestAccounts':
      case 'eth_accounts':
        return [account.address]
      case 'eth_signTypedData_v4': {
        const typed = JSON.parse(params[1] ?? '{}')
        signed.push(typed.primaryType)
        return account.signTypedData(typed)
      }
      case 'eth_sendTransaction':
        return wallet.sendTransaction(params[0]!)
      default:
        return node.request({ method, params } as never)
    }
  })
  await page.getByRole('button', { name: 'Connect', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Fresh wallet' }).click()
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
}

/** Opens the market with a new wallet that has test dollars and nothing else. */
async function visitFresh(
  t: TestContext,
  stage: Stage,
  marketId: string,
  signed: string[] = [],
): Promise<Page> {
  const page = await stage.visit(t, `#/m/${marketId}`, {
    before: `(${announceWallet})()`,
    // Expected refusal of an order that exceeds the limits of the session key.
    expected: /403 \(Forbidden\).*\/api\/v1\/orders\)$/,
  })
  const { chains } = await stage.client(10).config()
  await connectFresh(page, chains[0]?.rpcUrl ?? '', signed)
  const balance = page.getByRole('button', { name: /^\$/ })
  await says(balance, '$0.00')
  await page.getByRole('button', { name: 'Get $10,000 to test' }).click()
  await says(balance, '$10,000.00')
  return page
}

export async function mintOfTwo(t: TestContext, stage: Stage): Promise<void> {
  const { markets } = await stage.client(10).event(DEMO_EVENT.info.slug)
  const market = markets.find(({ question }) => question === DEMO_EVENT.complementary)
  assert.ok(market !== undefined)
  const [ann, bob] = await Promise.all([
    visitFresh(t, stage, market.id),
    visitFresh(t, stage, market.id),
  ])
  await says(bob.getByRole('heading', { level: 1 }).locator('..'), 'Complementary')
  const ticket = ticketOf(bob)
  await ticket.getByLabel('Shares').fill('10')
  await says(ticket, 'No trader sells YES or buys NO now. Place a limit order instead.')
  await sendOrder(ann, { side: 'Buy', outcome: 'NO', cents: '40', shares: '12.5' })
  await says(ann, 'Buy 12.50 NO at 40.0¢: the order is in the book.')
  const book = (page: Page) => page.getByRole('region', { name: /^Order book of/ })
  await book(ann)
    .getByRole('button', { name: /^Bid with 12\.50 of your own at 40\.0¢ 12\.50/ })
    .waitFor()
  // The book of YES shows the bid for NO at 40¢ as an ask at 60¢, marked as coming from orders of NO.
  await says(book(bob), 'with orders of NO')
  await book(bob)
    .getByRole('button', {
      name: /^Ask 60\.0¢ 12\.50 ?, 12\.50 of these shares come from orders for NO/,
    })
    .waitFor()
  await ticket.getByLabel('Shares').fill('10')
  await eventually(async () => {
    const figures = await ticket.locator('dl').innerText()
    assert.match(figures, /Fills immediately\s+10\.00 shares/)
    assert.match(figures, /With orders for NO\s+10\.00 shares/)
    assert.match(figures, /Average price\s+60\.0¢/)
    assert.match(figures, /Worst price\s+62\.0¢/)
    assert.match(figures, /Cost\s+\$6\.00/)
  })
  await ticket.getByRole('button', { name: 'Buy YES', exact: true }).click()
  await Promise.all([
    says(ann, 'Bought 10.00 NO at 40.0¢: confirmed on chain.'),
    says(bob, 'Bought 10.00 YES at 60.0¢: confirmed on chain.'),
  ])
  await says(ann.getByRole('button', { name: /^\$/ }), '$9,996.00')
  await says(bob.getByRole('button', { name: /^\$/ }), '$9,994.00')
  const position = (page: Page) => page.getByRole('region', { name: 'Your position' })
  await says(position(ann).getByRole('row', { name: /^NO/ }), '10.00')
  await says(position(bob).getByRole('row', { name: /^YES/ }), '10.00')
  await says(bob.getByRole('region', { name: 'Trades' }), 'mint')
  // Ann's bid is for NO. So the book of NO shows its rest as a bid, not as an implied ask.
  await book(bob).getByRole('button', { name: 'NO', exact: true }).click()
  await book(bob)
    .getByRole('button', { name: /^Bid 40\.0¢ 2\.50 \d$/ })
    .waitFor()
}

export async function freshWallet(t: TestContext, stage: Stage): Promise<void> {
  const { quarter } = stage.markets
  const signed: string[] = []
  const page = await visitFresh(t, stage, quarter.id, signed)
  const balance = page.getByRole('button', { name: /^\$/ })
  await says(page.getByRole('region', { name: 'Ticket' }), 'No fees')

  const position = page.getByRole('region', { name: 'Your position' })
  await says(position, 'You have no shares of this market.')
  await position.getByText('Split and merge').click()
  await position.getByLabel('Dollars').fill('100')
  const [split, merge] = ['Split', 'Merge'].map((name) => position.getByRole('button', { name }))
  assert.equal(await merge?.isDisabled(), true, 'there is nothing to merge')
  await split?.click()
  await says(page.getByRole('log'), '$100.00 became 100.00 YES and 100.00 NO.')
  await says(balance, '$9,900.00')
  await says(position.getByRole('row', { name: /^NO/ }), '100.00')
  await position.getByLabel('Dollars').fill('40')
  await merge?.click()
  await says(page.getByRole('log'), '40.00 YES and 40.00 NO became $40.00.')
  await says(balance, '$9,940.00')
  await eventually(async () => {
    const rows = await position.getByRole('row').allInnerTexts()
    assert.match(rows.join('\n'), /YES\s+60\.00[\s\S]*NO\s+60\.00/)
  })
  // The new account approves and places an order without ether.
  await sendOrder(page, { side: 'Buy', cents: '1', shares: '200' })
  await says(page.getByRole('log'), 'the order is in the book')
  await useSessionKey(page, signed)
}

/**
 * Tests a session key. After one signature for the key, orders need no signature, within the key's limits and until it
 * is revoked.
 */
async function useSessionKey(page: Page, signed: string[]): Promise<void> {
  assert.equal(signed.at(-1), 'Order', 'without a session key the wallet signs each order')
  signed.length = 0
  const log = page.getByRole('log')
  const open = page.getByRole('region', { name: 'Open orders' }).getByRole('row')
  const panel = page.getByRole('region', { name: 'Session key' })
  const show = (name: string) => page.getByRole('link', { name, exact: true }).click()
  const order = (cents: string, shares: string) => sendOrder(page, { side: 'Buy', cents, shares })
  const market = page.url()

  await show('Portfolio')
  await panel.getByLabel('Shares per order').fill('300')
  await panel.getByLabel('Dollars open').fill('4')
  await panel.getByRole('button', { name: 'Create a session key' }).click()
  await says(panel, /^Signs your orders in all markets until .*: up to 300.00 shares each, \$4.00/)
  await says(panel, 'It cannot move, approve or redeem anything.')
  assert.deepEqual(signed.splice(0), ['SetDelegate'])
  await page.reload()
  await says(panel, /^Signs your orders in all markets/)
  await page.goto(market)
  await order('1', '300')
  await says(log, 'Buy 300.00 YES at 1.0¢: the order is in the book.')
  await order('2', '100')
  await says(
    ticketOf(page),
    'Open orders of the session key are worth $3.00; this order would exceed its limit of $4.00.',
  )
  assert.deepEqual(signed, [], 'the session key signs without a prompt')
  await order('2', '301')
  await says(log, 'Buy 301.00 YES at 2.0¢: the order is in the book.')
  assert.deepEqual(signed.splice(0), ['Order'], 'the wallet signs an order that is too large')

  await show('Portfolio')
  await eventually(async () => assert.equal(await open.count(), 4))
  await panel.getByRole('button', { name: 'Revoke' }).click()
  await says(panel, 'Sign once with your wallet; your orders then need no more wallet signatures.')
  assert.deepEqual(signed, ['SetDelegate'])
  await eventually(async () => {
    const rows = (await open.allInnerTexts()).slice(1).join('\n')
    assert.match(rows, /301\.00[\s\S]*200\.00/)
    assert.doesNotMatch(rows, /300\.00/, 'the order of the revoked key has left')
  })
}
