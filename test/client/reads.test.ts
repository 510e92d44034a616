/** Tests the SDK's reads. Each list is read to its last page, and each read makes the right request. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { createReader } from '#client/reader.ts'

/** Returns a client whose server has this many markets and positions, three per page. */
function clientOf(count: number) {
  const asked: string[] = []
  const answer = async (input: unknown) => {
    const url = new URL(String(input))
    asked.push(url.pathname + url.search)
    const from = Number(url.searchParams.get('cursor') ?? 0)
    const page = Array.from({ length: Math.min(3, count - from) }, (_, at) => ({ id: from + at }))
    const nextCursor = from + 3 < count ? String(from + 3) : null
    return Response.json({ markets: page, positions: page, nextCursor })
  }
  const client = createClient({ url: 'http://exchange', fetch: answer as typeof fetch })
  return { client, asked, answer }
}

test('the client reads all pages of markets, and fails if the list exceeds the maximum length', async () => {
  const { client, asked } = clientOf(8)
  const ids = (list: readonly object[]) => list.map((one) => Reflect.get(one, 'id'))
  assert.deepEqual(ids(await client.markets({ chainId: 5, quick: true })), [0, 1, 2, 3, 4, 5, 6, 7])
  assert.deepEqual(
    asked,
    ['', '&cursor=3', '&cursor=6'].map((more) => `/api/v1/markets?chain_id=5&quick=true${more}`),
  )
  assert.equal((await client.markets({ max: 8 })).length, 8)
  await assert.rejects(client.markets({ max: 7 }), { code: 'TOO_MANY_MARKETS', field: 'max' })
  asked.length = 0
  for await (const { id } of client.eachMarket({ search: 'rain' })) {
    if (Number(id) === 4) break
  }
  assert.deepEqual(asked, ['/api/v1/markets?search=rain', '/api/v1/markets?search=rain&cursor=3'])
  assert.deepEqual(await clientOf(0).client.markets(), [])
})

test('each read method of the client requests its documented path', async () => {
  const { client, asked } = clientOf(4)
  const user = { address: '0xab', chainId: 7 }
  assert.equal((await client.positions(user)).length, 4)
  await client.activity({ ...user, limit: 5 })
  await client.candles('0x1', { outcome: 'NO', interval: '1m', from: 60, to: 120 })
  await client.stats('0x1')
  await client.holders('0x1')
  await client.market('0x1')
  await client.platformStats({ chainId: 7 })
  await client.platformStats()
  assert.deepEqual(asked, [
    '/api/v1/users/0xab/positions?chain_id=7',
    '/api/v1/users/0xab/positions?chain_id=7&cursor=3',
    '/api/v1/users/0xab/activity?chain_id=7&limit=5',
    '/api/v1/candles/0x1?outcome=NO&interval=1m&from=60&to=120',
    '/api/v1/stats/0x1',
    '/api/v1/holders/0x1',
    '/api/v1/markets/0x1',
    '/api/v1/platform/stats?chain_id=7',
    '/api/v1/platform/stats',
  ])
})

test('a read-only client can read markets, and needs an address and a chain id to read positions', async () => {
  const { asked, answer } = clientOf(4)
  const reader = createReader({ url: 'http://exchange', fetch: answer as typeof fetch })
  assert.equal((await reader.markets({ status: 'open' })).length, 4)
  assert.deepEqual(asked, ['/api/v1/markets?status=open', '/api/v1/markets?status=open&cursor=3'])
  await assert.rejects(reader.positions({ chainId: 5 }), {
    code: 'MISSING_FIELD',
    field: 'address',
  })
  const address = `0x${'1'.repeat(40)}`
  await assert.rejects(reader.positions({ address }), { code: 'MISSING_FIELD', field: 'chainId' })
  assert.equal((await reader.positions({ address, chainId: 5 })).length, 4)
})
