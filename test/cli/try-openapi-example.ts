/** Signs and sends the first examples of a devnet's OpenAPI document, and expects that they are accepted unchanged. */

import assert from 'node:assert/strict'
import { createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'

type Json = Record<string, unknown>
type Document = {
  readonly paths: Record<
    string,
    { post: { requestBody: { content: Record<string, { examples: Record<string, Example> }> } } }
  >
}
type Example = { readonly summary: string; readonly value: Json }

/** Index of the demo trader who signs the orders: the last demo trader. */
const TRADER = 19

export async function tryOpenapiExample({ url }: Exchange): Promise<void> {
  const exampleOf = async (path: string): Promise<Example> => {
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
    const { examples } = document.paths[path]!.post.requestBody.content['application/json']!
    // The documentation page shows the first example and can send it as a request. So the test uses the first example.
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
  // The exchange accepts requests before it has read its markets from the chain. So the test waits until the document
  // has a signed example.
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
  // Each read of the document returns a new order, so that no two readers send the same order.
  const second = await exampleOf('/api/v1/orders')
  const again = await send('/api/v1/orders', second)
  assert.equal(again.status, 'accepted')
  assert.notEqual(again.orderHash, placed.orderHash)
  const { results } = await send('/api/v1/orders/batch', await exampleOf('/api/v1/orders/batch'))
  assert.equal((results as Json[])[0]?.status, 'accepted')
  const { trader } = first.value.order as { trader: string }
  const { orders } = createClient({ url, signer: devnetKey(TRADER) })
  const open = await orders.list({ trader })
  assert.equal(open.length, 3)
  // Later tests expect an empty book.
  for (const { orderHash, marketId } of open) await orders.cancel({ orderHash, marketId })
}
