/** Tests what the SDK signs if the exchange sends false contracts, amounts or times. */

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { registerApiKey } from '#client/api-keys.ts'
import { type ClientOptions, createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { TypedData } from '#client/sign-typed-data.ts'
import type { Address } from '#domain/ids.ts'
import { PERMIT_TYPES, signatureSchemes } from '#domain/typed-data.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const MAIN = 137
const addressOf = (digits: string): Address => `0x${digits.repeat(20)}` as Address
const HONEST = {
  settlement: addressOf('a1'),
  conditionalTokens: addressOf('a2'),
  stablecoin: addressOf('a3'),
}
const ATTACKER = addressOf('ee')
const MARKET = { id: `0x${'ab'.repeat(32)}`, contractAddress: addressOf('a7') }
const ann = traderNumbered(31)

type Lies = {
  chainId?: number
  contracts?: Partial<typeof HONEST>
  bond?: string
  aheadSec?: number
  serviceName?: string
  /** Signature scheme of the stablecoin's permit, which the exchange sends instead of the correct scheme. */
  permit?: object
}

function chainOf({ chainId = MAIN, contracts = {}, permit }: Lies) {
  const said = { ...HONEST, ...contracts }
  const stablecoin = { address: said.stablecoin, domainName: 'USD Coin', domainVersion: '2' }
  const signatures = signatureSchemes({ chainId, ...said, stablecoin })
  return {
    chainId,
    role: 'main',
    contracts: { ...said, marketFactory: ATTACKER, multicall: ATTACKER, oracle: ATTACKER },
    stablecoin: { symbol: 'USDC', decimals: 6, address: said.stablecoin },
    signatures: { ...signatures, ...(permit === undefined ? {} : { stablecoinPermit: permit }) },
  }
}

/** Starts an exchange on a real socket; `lies` may change while it runs. */
async function lyingExchange(t: TestContext, lies: Lies, options: Partial<ClientOptions> = {}) {
  const server = createServer((request, response) => {
    const serverTime = Math.floor(Date.now() / 1_000) + (lies.aheadSec ?? 0)
    const config = { service: { name: lies.serviceName ?? 'Sibyl' }, serverTime, limits: {} }
    const nonces = { conditionalTokens: '0', stablecoin: '0', market: '0', bond: lies.bond ?? '0' }
    const body = request.url?.startsWith('/api/v1/config')
      ? { ...config, chains: [chainOf(lies)] }
      : { ...nonces, serverTime }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const signed: TypedData[] = []
  const signer = {
    address: ann.address,
    signTypedData: async (typed: unknown) => {
      signed.push(typed as TypedData)
      return `0x${'11'.repeat(64)}1b`
    },
  }
  return { url, signed, client: createClient({ url, signer, retries: 0, ...options }) }
}

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => assert.fail('it was signed'),
    (error: unknown) => (error instanceof SibylError ? [error.code, error.field] : error),
  )
}

const INTENT = {
  marketId: MARKET.id,
  side: 'buy',
  outcome: 'YES',
  price: '0.5',
  size: '1',
} as const

test('a client with given contract addresses refuses to sign for any other contract', async (t) => {
  for (const name of ['settlement', 'conditionalTokens', 'stablecoin'] as const) {
    const lies = { contracts: { [name]: ATTACKER } }
    const { client, signed } = await lyingExchange(t, lies, { pins: HONEST })
    const refused = ['EXCHANGE_CHANGED', `pins.${name}`]
    assert.deepEqual(await codeOf(client.relayer.sign.stablecoinPermit()), refused)
    assert.deepEqual(await codeOf(client.relayer.sign.ctfApproval()), refused)
    assert.deepEqual(await codeOf(client.orders.sign({ ...INTENT, ttlSeconds: 120 })), refused)
    assert.deepEqual(signed, [])
  }
})

test('if the caller gives the order domain, the client signs relayed operations for no other contract or chain', async (t) => {
  const domain = { chainId: MAIN, verifyingContract: HONEST.settlement }
  const lies: Lies = { contracts: { settlement: ATTACKER } }
  const { client } = await lyingExchange(t, lies, { domain })
  const refused = ['EXCHANGE_CHANGED', 'pins.settlement']
  assert.deepEqual(await codeOf(client.relayer.sign.stablecoinPermit()), refused)
  lies.contracts = {}
  lies.chainId = 1
  await client.config({ fresh: true })
  assert.deepEqual(await codeOf(client.relayer.sign.ctfApproval()), ['INVALID_FIELD', 'chainId'])
})

test('if the caller gives no contract addresses, the client keeps the exchange’s first addresses and refuses later changes', async (t) => {
  const lies: Lies = {}
  const { client, signed } = await lyingExchange(t, lies)
  await client.relayer.sign.stablecoinPermit()
  assert.equal(signed[0]?.message.spender, HONEST.settlement)
  lies.contracts = { settlement: ATTACKER }
  await client.config({ fresh: true })
  const refused = ['EXCHANGE_CHANGED', 'pins.settlement']
  assert.deepEqual(await codeOf(client.relayer.sign.stablecoinPermit()), refused)
  assert.deepEqual(await codeOf(client.orders.sign({ ...INTENT, ttlSeconds: 120 })), refused)
  assert.equal(signed.length, 1)
})

test('the client signs permits with its own types and chain id, not with those from the exchange', async (t) => {
  const permit = {
    domain: { name: 'USD Coin', version: '2', chainId: 1, verifyingContract: ATTACKER },
    primaryType: 'Transfer',
    types: { Transfer: [{ name: 'owner', type: 'address' }] },
  }
  const { client, signed } = await lyingExchange(t, { permit }, { chainId: MAIN })
  await client.relayer.sign.stablecoinPermit({ value: '5' })
  const [typed] = signed
  assert.equal(typed?.primaryType, 'Permit')
  assert.deepEqual(typed?.types, PERMIT_TYPES)
  assert.deepEqual(typed?.domain, {
    name: 'USD Coin',
    version: '2',
    chainId: MAIN,
    verifyingContract: HONEST.stablecoin,
  })
})

test('the client signs stablecoin permits for 10,000 dollars unless the caller gives another value', async (t) => {
  const { client, signed } = await lyingExchange(t, {})
  await client.relayer.sign.stablecoinPermit()
  await client.relayer.sign.stablecoinPermit({ value: '12.5' })
  await client.relayer.sign.stablecoinPermit({ value: 'unlimited' })
  assert.deepEqual(
    signed.map(({ message }) => message.value),
    [10_000_000_000n, 12_500_000n, 2n ** 256n - 1n],
  )
})

test('the client refuses to sign a permit if the bond of a proposal exceeds the caller’s limit', async (t) => {
  const { client, signed } = await lyingExchange(t, { bond: String(2n ** 255n) })
  const proposal = { market: MARKET, outcome: 'YES' } as const
  const refused = ['BOND_TOO_HIGH', 'bondMax']
  assert.deepEqual(await codeOf(client.relayer.sign.proposeResolution(proposal)), refused)
  const permits = signed.filter(({ primaryType }) => primaryType === 'Permit')
  assert.deepEqual(permits, [])

  const honest = await lyingExchange(t, { bond: '500000000' })
  await honest.client.relayer.sign.proposeResolution(proposal)
  assert.equal(honest.signed.at(-1)?.message.value, 500_000_000n)
  const low = honest.client.relayer.sign.proposeResolution({ ...proposal, bondMax: '499' })
  assert.deepEqual(await codeOf(low), refused)
})

test('the client corrects its clock by the exchange’s time, but refuses to sign if the difference exceeds five minutes', async (t) => {
  const year2100 = 70 * 365 * 86_400
  const lied = await lyingExchange(t, { aheadSec: year2100 })
  const refused = ['CLOCK_DIFFERS', 'clockCorrectionSecondsMax']
  assert.deepEqual(await codeOf(lied.client.orders.sign({ ...INTENT, ttlSeconds: 120 })), refused)
  assert.deepEqual(await codeOf(lied.client.relayer.sign.stablecoinPermit()), refused)
  assert.deepEqual(lied.signed, [])

  const near = (value: unknown, aheadSec: number) => {
    const ownSec = Math.floor(Date.now() / 1_000)
    assert.ok(Math.abs(Number(value) - ownSec - aheadSec) <= 5, `${value} is not ${ownSec}`)
  }
  const slow = await lyingExchange(t, { aheadSec: 200 })
  near((await slow.client.orders.sign({ ...INTENT, ttlSeconds: 120 })).order.expiration, 320)
  await slow.client.relayer.sign.stablecoinPermit({ ttlSeconds: 600 })
  near(slow.signed.at(-1)?.message.deadline, 800)
  const wide = await lyingExchange(t, { aheadSec: 4_000 }, { clockCorrectionSecondsMax: 5_000 })
  near((await wide.client.orders.sign({ ...INTENT, ttlSeconds: 120 })).order.expiration, 4_120)
})

test('on a local chain, the client corrects its clock by the exchange’s time, however large the difference is', async (t) => {
  const { client } = await lyingExchange(t, { chainId: 31_337, aheadSec: 90_000 })
  const { order } = await client.orders.sign({ ...INTENT, ttlSeconds: 120 })
  assert.ok(Number(order.expiration) > Date.now() / 1_000 + 90_000)
})

test('the client refuses to sign an API key if the exchange’s service name contains a forged message', async (t) => {
  const { url } = await lyingExchange(t, { serviceName: 'x: 0x0\n\nI hereby sell my house' })
  const signer = {
    address: ann.address,
    signMessage: (): Promise<string> => assert.fail('it was signed'),
  }
  const refused = ['UNEXPECTED_ANSWER', undefined]
  assert.deepEqual(await codeOf(registerApiKey({ url }, signer)), refused)
})

test('the client refuses a list that repeats a page, and a file that decompresses beyond the size limit', async (t) => {
  const { hash } = await import('node:crypto')
  const { gzipSync } = await import('node:zlib')
  let file: Uint8Array = gzipSync('{"seq":1}\n')
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/api/v1/archive/')) {
      const next = file.length > 1_000 ? {} : { 'sibyl-next': '7' }
      const etag = `"${hash('sha256', file)}"`
      response.writeHead(200, { 'content-type': 'application/gzip', etag, ...next }).end(file)
      return
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    const lists = { markets: [], events: [], orders: [], positions: [] }
    response.end(JSON.stringify({ ...lists, count: 0, nextCursor: 'again', chains: [chainOf({})] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({ url, chainId: MAIN, retries: 0 })
  const endless = { code: 'UNEXPECTED_ANSWER', message: /returned the same page twice/ }
  const all = async (list: AsyncIterable<unknown>) => {
    for await (const _ of list);
  }
  const user = { address: ATTACKER, chainId: MAIN }
  await assert.rejects(client.markets(), endless)
  await assert.rejects(all(client.eachEvent()), endless)
  await assert.rejects(client.positions(user), endless)
  await assert.rejects(client.orders.list({ trader: ATTACKER }), endless)
  await assert.rejects(all(client.archive.files(MARKET.id, '2026-11-18')), endless)
  file = gzipSync(Buffer.alloc(17 * 1024 * 1024, ' '))
  await assert.rejects(all(client.archive.events(MARKET.id, '2026-11-18')), {
    ...{ code: 'UNEXPECTED_ANSWER', message: /more than 16777216 characters/ },
  })
})
