import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { createVisitors, findBrowser, MISSING_BROWSER, openBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { servicesRequired } from '../support/required-services.ts'

type Json = Record<string, unknown>
type Document = {
  readonly paths: Record<
    string,
    { post: { requestBody: { content: Record<string, { examples: Record<string, Example> }> } } }
  >
}
const skip = findBrowser() === undefined && !servicesRequired ? MISSING_BROWSER : false

type Example = { readonly summary: string; readonly value: Json }

test('on the devnet the first example of an order is signed, and is accepted as it stands', async (t) => {
  const { url } = await startExchange(t, { devnet: true })
  const exampleOf = async (path: string): Promise<Example> => {
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
    const { examples } = document.paths[path]!.post.requestBody.content['application/json']!
    // What the page of the documentation shows, and sends when it is told to.
    return Object.values(examples)[0]!
  }
  const send = async (path: string, { value }: Example): Promise<Json> => {
    const headers = { 'content-type': 'application/json' }
    const sent = await fetch(`${url}${path}`, {
      ...{ method: 'POST', headers, body: JSON.stringify(value) },
    })
    assert.equal(sent.status, 200)
    return (await sent.json()) as Json
  }
  // The exchange is open before it has read its markets from the chain.
  const first = await eventually(async () => {
    const example = await exampleOf('/api/v1/orders')
    assert.match(example.summary, /signed for an hour/)
    return example
  })
  const checked = await send('/api/v1/orders/validate', await exampleOf('/api/v1/orders/validate'))
  assert.equal(checked.valid, true)
  const placed = await send('/api/v1/orders', first)
  assert.equal(placed.status, 'accepted')
  assert.equal((await send('/api/v1/orders', first)).duplicate, true)
  // Another who asks gets an order of his own.
  const second = await exampleOf('/api/v1/orders')
  const again = await send('/api/v1/orders', second)
  assert.equal(again.status, 'accepted')
  assert.notEqual(again.orderHash, placed.orderHash)
  const { results } = await send('/api/v1/orders/batch', await exampleOf('/api/v1/orders/batch'))
  assert.equal((results as Json[])[0]?.status, 'accepted')
  const { trader } = first.value.order as { trader: string }
  assert.equal((await createClient({ url }).orders.list({ trader })).length, 3)

  await t.test(
    'the page of the documentation explains itself, and executes it',
    { skip },
    async (inner) => {
      const browser = await openBrowser()
      inner.after(() => browser.close())
      const page = await createVisitors(browser)(inner, `${url}/docs`)
      for (const name of ['Units', 'Signing', 'Authentication', 'Trying it']) {
        await page.getByRole('heading', { name, exact: true }).waitFor()
      }
      const operation = page.locator('#operations-orders-placeOrder')
      await operation.locator('.opblock-summary-control').click()
      await operation.locator('button.execute').click()
      const status = operation.locator('.live-responses-table tbody .response-col_status')
      await status.waitFor()
      assert.match((await status.textContent()) ?? '', /^200/)
      assert.equal((await createClient({ url }).orders.list({ trader })).length, 4)
    },
  )
})
