/** Stories of an empty wallet: the test has its key and signs the page's requests. */

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

/** A wallet whose answers come from the test. */
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

async function connectFresh(page: Page, rpcUrl: string): Promise<void> {
  const account = privateKeyToAccount(generatePrivateKey())
  const transport = http(rpcUrl)
  const wallet = createWalletClient({ account, chain: hardhat, transport })
  const node = createPublicClient({ chain: hardhat, transport })
  await page.exposeFunction('askWallet', async (method: string, params: readonly never[] = []) => {
    switch (method) {
      case 'eth_requestAccounts':
      case 'eth_accounts':
        return [account.address]
      case 'eth_signTypedData_v4':
        return account.signTypedData(JSON.parse(params[1] ?? '{}'))
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

/** Opens the market as a wallet with test dollars, and nothing else. */
async function visitFresh(t: TestContext, stage: Stage, marketId: string): Promise<Page> {
  const page = await stage.visit(t, `#/m/${marketId}`, { before: `(${announceWallet})()` })
  const { chains } = await stage.client(10).config()
  await connectFresh(page, chains[0]?.rpcUrl ?? '')
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
  // The bid for NO at 40¢ is an ask for YES at 60¢, and marked as one.
  await says(book(bob), 'with orders of NO')
  await book(bob)
    .getByRole('button', { name: /^Ask 60\.0¢ 12\.50 ?, 12\.50 of it from orders of NO/ })
    .waitFor()
  await ticket.getByLabel('Shares').fill('10')
  await eventually(async () => {
    const figures = await ticket.locator('dl').innerText()
    assert.match(figures, /Fills at once\s+10\.00 shares/)
    assert.match(figures, /With orders of NO\s+10\.00 shares/)
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
  // Seen from NO, the rest of the bid is a bid like any other.
  await book(bob).getByRole('button', { name: 'NO', exact: true }).click()
  await book(bob)
    .getByRole('button', { name: /^Bid 40\.0¢ 2\.50 \d$/ })
    .waitFor()
}

export async function freshWallet(t: TestContext, stage: Stage): Promise<void> {
  const { quarter } = stage.markets
  const page = await visitFresh(t, stage, quarter.id)
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
  // It signs its permissions and orders, without ether.
  await sendOrder(page, { side: 'Buy', cents: '1', shares: '200' })
  await says(page.getByRole('log'), 'the order is in the book')
}
