/**
 * Reads an endpoint of the list in `endpoints.ts`, and checks that the answer has every field with a value of the right
 * kind.
 */

import { ENDPOINTS, type Endpoint } from './endpoints.ts'
import { demand, demandEqual } from './mismatch.ts'
import {
  ADDRESS,
  BIT,
  BOOL,
  BYTES32,
  CATEGORY,
  demandShape,
  INTEGER,
  LIST,
  NATURAL,
  PRESENT,
  PRICE,
  type Shape,
  SUM,
  TEXT,
  TX_HASH,
} from './shape.ts'
import type { World } from './world.ts'

/** An id that no market, order, transaction or asset has. */
export const NOTHING = `0x${'1'.repeat(64)}`
/** An address without orders or trades. */
export const NOBODY = `0x${'1'.repeat(40)}`

const LEVELS = [{ price: PRICE, size: SUM }] as const

const NAMES: readonly (readonly [kind: Shape, fields: string])[] = [
  [BYTES32, 'id marketId orderHash'],
  [ADDRESS, 'contractAddress maker buyer seller userAddress marketAddress address'],
  [TEXT, 'question description matching tradeId status role reason marketQuestion'],
  [BOOL, 'resolved expired found'],
  [BIT, 'outcome side takerSide'],
  [PRICE, 'price'],
  [NATURAL, 'size remainingSize timestamp expiration chainId count createdAt matchedAt failedAt'],
  [NATURAL, 'attempts bestAskPrice lastPrice lastUpdate volume24h totalVolume totalHolders cost'],
  [NATURAL, 'totalMarkets activeMarkets resolvedMarkets totalTrades trades24h totalTraders'],
  [NATURAL, 'openOrders openInterest submittedAt'],
  [INTEGER, 'yesShares noShares totalShares totalInvested realisedProfit'],
  [CATEGORY, 'category'],
  [TX_HASH, 'txHash'],
  [LIST, 'settlements'],
  [LEVELS, 'bids asks'],
]
const KINDS: Readonly<Record<string, Shape>> = Object.fromEntries(
  NAMES.flatMap(([kind, fields]) => fields.split(' ').map((field) => [field, kind])),
)

const shapeOf = (fields: readonly string[]) =>
  Object.fromEntries(fields.map((field) => [field, KINDS[field] ?? PRESENT]))

/**
 * Reads a GET endpoint and checks the fields of the answer. Fills the path with an open market and the trader's
 * address. Without a trader, uses an address that has no orders or trades.
 */
export async function readEndpoint<T>(world: World, path: string, query = ''): Promise<T> {
  const endpoint = ENDPOINTS.find((one) => one.method === 'GET' && one.path === `/api/v1${path}`)
  if (endpoint === undefined) throw new Error(`the list of endpoints to check has no GET ${path}`)
  const { fields, list } = endpoint
  const filled = await fillIn(world, endpoint, query)
  const { status, body, text } = await world.ask(filled)
  demand(status === 200 && body !== undefined, `GET ${filled} to answer 200 with JSON`, text)
  const entries = list && { [list[0]]: KINDS[list[0]] ?? ([shapeOf(list[1])] as const) }
  demandShape('the answer', body, { ...shapeOf(fields), ...entries })
  const answer = body as Record<string, unknown>
  const isLast = (answer.nextCursor ?? answer.nextBefore ?? null) === null
  if (list !== undefined && 'count' in answer && isLast) {
    demandEqual(`count of ${filled}`, answer.count, (answer[list[0]] as unknown[]).length)
  }
  return body as T
}

async function fillIn(world: World, endpoint: Endpoint, query: string): Promise<string> {
  const path = endpoint.path.slice('/api/v1'.length)
  const required = Object.keys(endpoint.query).filter((name) => endpoint.query[name] === 'required')
  const user = world.trader?.address ?? NOBODY
  const values: Record<string, string | number> = { address: user, user, trader: user }
  values.txHash = NOTHING
  if (path.includes('{market') || required.includes('chain_id')) {
    const { id, contractAddress, chainId } = await world.openMarket()
    Object.assign(values, { marketId: id, marketAddress: contractAddress, chain_id: chainId })
  }
  const filled = path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => String(values[name]))
  const queries = [...required.map((name) => `${name}=${values[name]}`), query].filter(Boolean)
  return queries.length === 0 ? filled : `${filled}?${queries.join('&')}`
}
