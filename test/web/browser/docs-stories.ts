/** Tests the documentation page, on the same exchange as the trading page. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { devnetAccount } from '#devnet/accounts.ts'
import type { Stage } from './stage.ts'

/** Whose order its example is. */
const TRADER = 19

export async function docsExecute(t: TestContext, stage: Stage): Promise<void> {
  const openOrders = async () => {
    const { address: trader } = devnetAccount(TRADER)
    return (await stage.client(TRADER).orders.list({ trader })).length
  }
  const before = await openOrders()
  const page = await stage.visit(t, 'docs')
  for (const name of ['Units', 'Signing', 'Authentication', 'Trying it']) {
    await page.getByRole('heading', { name, exact: true }).waitFor()
  }
  const operation = page.locator('#operations-orders-placeOrder')
  await operation.locator('.opblock-summary-control').click()
  await operation.locator('button.execute').click()
  const status = operation.locator('.live-responses-table tbody .response-col_status')
  await status.waitFor()
  assert.match((await status.textContent()) ?? '', /^200/)
  assert.equal(await openOrders(), before + 1)
}
