/** Checks of a client's first reads: configuration, time, documents, and the form of errors. */

import type { Check } from './check.ts'
import { demand, demandEqual, Skipped } from './mismatch.ts'
import { missingFrom, type OpenApi } from './openapi-check.ts'
import { ADDRESS, BOOL, demandShape, INTEGER, NATURAL, NUMBER, TEXT } from './shape.ts'
import type { Answer } from './world.ts'

const ORDER_FIELDS = [
  'marketId bytes32',
  'trader address',
  'side uint8',
  'outcome uint8',
  'price uint64',
  'size uint64',
  'nonce uint64',
  'expiration uint64',
  'makerFeeRecipient address',
]

/**
 * Checks that an answer is an error with the wanted status, and has a message, a code and, if wanted, the invalid
 * field.
 */
export function demandRefusal(
  { status, body, text }: Answer,
  wanted: { readonly status: number; readonly code?: string; readonly field?: string },
): void {
  demandEqual('status', status, wanted.status)
  demand(body !== undefined, 'a JSON body', text)
  demandShape('the body', body, { error: TEXT, code: TEXT })
  const { code, field } = body as { code: string; field?: string }
  if (wanted.code !== undefined) demandEqual('code', code, wanted.code)
  if (wanted.field !== undefined) demandEqual('field', field, wanted.field)
}

export const SERVICE_CHECKS: readonly Check[] = [
  {
    id: 'config.shape',
    says: 'GET /config returns the service, the time, the limits and the chains',
    async run({ ask }) {
      const { status, body } = await ask('/config')
      demandEqual('status', status, 200)
      demandShape('config', body, {
        service: { name: TEXT, version: TEXT },
        serverTime: NATURAL,
        auth: { bearer: BOOL, tokenSeconds: NATURAL, registerMessage: TEXT },
        limits: { priceMin: INTEGER, priceMax: INTEGER, expirationAheadSecondsMin: INTEGER },
        chains: [
          {
            chainId: NATURAL,
            contracts: { settlement: ADDRESS, conditionalTokens: ADDRESS, stablecoin: ADDRESS },
            stablecoin: { symbol: TEXT, decimals: NUMBER, address: ADDRESS },
          },
        ],
      })
    },
  },
  {
    id: 'config.signing',
    says: 'GET /config gives, for each chain, the EIP-712 domain and all fields of an order',
    async run({ config }) {
      const { chains } = await config()
      if (chains.length === 0) throw new Skipped('the server has no chain configured')
      for (const { chainId, contracts, signatures } of chains) {
        const { domain, types, primaryType } = signatures.order
        const fields = types[primaryType]?.map(({ name, type }) => `${name} ${type}`)
        demandEqual('the fields of an order', fields, ORDER_FIELDS)
        demand(domain.name.endsWith('Settlement'), 'a domain named …Settlement', domain.name)
        demandEqual('domain version', domain.version, '1')
        demandEqual('domain chainId', domain.chainId, chainId)
        demandEqual('verifyingContract', domain.verifyingContract, contracts.settlement)
      }
    },
  },
  {
    id: 'config.limits',
    says: 'GET /config has prices of 1 to 999999, an order lifetime of at least 60 s and a token lifetime of 300 s',
    async run({ config }) {
      const { limits, auth } = await config()
      const { priceMin, priceMax, expirationAheadSecondsMin } = limits
      demandEqual('limits', [priceMin, priceMax, expirationAheadSecondsMin], [1, 999_999, 60])
      demandEqual('tokenSeconds', auth.tokenSeconds, 300)
      demand(
        auth.registerMessage.startsWith('Register API key for '),
        'a message that begins with "Register API key for "',
        auth.registerMessage,
      )
    },
  },
  {
    id: 'config.time',
    says: 'serverTime in GET /config is in Unix seconds and does not go back',
    async run({ ask }) {
      const timeOf = async () => ((await ask('/config')).body as { serverTime: number }).serverTime
      const first = await timeOf()
      const second = await timeOf()
      demand(
        second >= first && second - first < 60,
        `serverTime ${first} or at most 59 seconds later`,
        second,
      )
      demand(first > 1_600_000_000 && first < 100_000_000_000, 'Unix seconds', first)
    },
  },
  {
    id: 'http.request-id',
    says: 'every answer has a different value of the header x-request-id',
    async run({ ask }) {
      const ids = [await ask('/config'), await ask('/nothing')].map(({ headers }) =>
        headers.get('x-request-id'),
      )
      demand(ids.every(Boolean) && new Set(ids).size === 2, 'two different ids', ids)
    },
  },
  {
    id: 'http.unknown-path',
    says: 'an unknown path gets 404, and an unsupported method gets 405',
    async run({ ask }) {
      demandRefusal(await ask('/nothing-here'), { status: 404 })
      demandRefusal(await ask('/orders', { method: 'PUT', body: {} }), { status: 405 })
    },
  },
  {
    id: 'http.rate-limits',
    says: 'the RateLimit headers contain the limit, the unused part of the limit, and the time until the whole limit is available again',
    async run({ ask }) {
      const { headers } = await ask('/markets')
      const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) =>
        headers.get(`ratelimit-${name}`),
      )
      if ([limit, remaining, reset].every((value) => value === null)) {
        throw new Skipped('the server sends no RateLimit headers: its rate limits are off')
      }
      for (const value of [limit, remaining, reset]) {
        demand(/^\d+$/.test(value ?? ''), 'three whole numbers', { limit, remaining, reset })
      }
      demand(
        Number(remaining) <= Number(limit),
        `ratelimit-remaining to be at most ${limit}`,
        remaining,
      )
    },
  },
  {
    id: 'docs.openapi',
    says: '/openapi.json describes every endpoint of the contract, with its fields and examples',
    async run({ ask }) {
      const { status, body } = await ask('//openapi.json')
      demandEqual('status', status, 200)
      const document = (body ?? {}) as OpenApi
      demand(/^3\./.test(document.openapi ?? ''), 'OpenAPI of version 3', document.openapi)
      demandEqual('parts missing in /openapi.json to be', missingFrom(document), [])
    },
  },
  {
    id: 'docs.asyncapi',
    says: '/asyncapi.json describes the stream',
    async run({ ask }) {
      const { status, body } = await ask('//asyncapi.json')
      demandEqual('status', status, 200)
      demandShape('the document', body, { asyncapi: TEXT })
    },
  },
]
