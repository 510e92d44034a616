/** Reads of the API that the SDK has no call for. */

import type { Market } from '#client/answers.ts'
import { createTransport } from '#client/transport.ts'
import { exchangeUrl } from './exchange.ts'

export type Position = {
  readonly marketId: string
  readonly marketQuestion: string
  readonly contractAddress: string
  readonly yesShares: number
  readonly noShares: number
  readonly yesCost: number
  readonly noCost: number
  readonly expiration: number
  readonly resolved: boolean
}

export type OwnTrade = {
  readonly tradeId: string
  readonly marketId: string
  readonly marketQuestion: string
  readonly role: 'buyer' | 'seller'
  readonly outcome: 0 | 1
  readonly price: number
  readonly size: number
  readonly cost: number
  readonly status: string
  readonly timestamp: number
  readonly txHash: string
}

export type Payout = {
  readonly marketId: string
  readonly marketQuestion: string
  readonly winningOutcome: 0 | 1
  readonly payout: number
  readonly txHash: string
  readonly status: string
  readonly timestamp: number
}

type Activity = { readonly activity: readonly OwnTrade[]; readonly settlements: readonly Payout[] }
type Whose = { readonly address: string; readonly chainId: number }

const ACTIVITY_LISTED = 50
const POSITIONS_MAX = 2_000

const send = createTransport({
  url: exchangeUrl,
  headers: undefined,
  timeoutMs: 15_000,
  retries: 2,
  backoffMs: 200,
  fetch: (input, init) => fetch(input, init),
})

export function readMarketPage(
  cursor: string | undefined,
): Promise<{ readonly markets: readonly Market[]; readonly nextCursor: string | null }> {
  return send({ method: 'GET', path: '/api/v1/markets', query: { cursor } })
}

export function readMarket(marketId: string): Promise<Market> {
  return send({ method: 'GET', path: `/api/v1/markets/${marketId}` })
}

export async function readPositions({ address, chainId }: Whose): Promise<readonly Position[]> {
  const all: Position[] = []
  let cursor: string | undefined
  do {
    const page = await send<{ positions: Position[]; nextCursor: string | null }>({
      method: 'GET',
      path: `/api/v1/users/${address}/positions`,
      query: { chain_id: chainId, cursor },
    })
    all.push(...page.positions)
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && all.length < POSITIONS_MAX)
  return all
}

export function readActivity({ address, chainId }: Whose): Promise<Activity> {
  return send({
    method: 'GET',
    path: `/api/v1/users/${address}/activity`,
    query: { chain_id: chainId, limit: ACTIVITY_LISTED },
  })
}
