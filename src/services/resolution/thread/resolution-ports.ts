/** Access of the resolution actor to the chain and the database. */

import type { accountOf } from '#chain/accounts.ts'
import { simulate } from '#chain/call.ts'
import type { ChainClient } from '#chain/clients.ts'
import { marketContract } from '#chain/market-contract.ts'
import { makeLane } from '#chain/sender/lane.ts'
import type { Journal } from '#chain/sender/sender.ts'
import type { Settings } from '#config/settings-schema.ts'
import { RESOLUTIONS_READ_MAX } from '#domain/limits.ts'
import { knownHash } from '#domain/transaction.ts'
import type { Query } from '#store/reads/queries.ts'
import type { ResolutionDue, ResolutionPorts } from '../resolution.ts'

const PURPOSE = 'resolution'
/**
 * Minimum gas limit of a settlement. A settlement succeeds even if its gas is too low to report the payouts. So a gas
 * estimate would be too low.
 */
const GAS_MIN = 400_000

type PortParts = {
  readonly chain: Settings['chains'][number]
  readonly client: ChainClient
  readonly query: Query
  readonly own: ReturnType<typeof accountOf>
  readonly journal: Journal
  readonly nowMs: () => number
  readonly onTrouble: (where: 'rpc' | 'journal', error: unknown) => void
}

/**
 * Returns the functions that connect the resolution actor to the chain and the database. Transactions are sent with
 * this thread's key.
 */
export function resolutionPorts(parts: PortParts): ResolutionPorts {
  const { client, query, journal, nowMs, onTrouble } = parts
  const { chainId, confirmations } = parts.chain
  const { account, address: sender } = parts.own
  const lane = makeLane({
    client: client.viem,
    account,
    chainId,
    journal,
    nowMs,
    policy: { confirmations },
    onTrouble,
  })
  return {
    recover: async () => (await lane.recover()).map(({ reference }) => reference),
    due: (nowSec) => dueOn(chainId, query, nowSec),
    async attempt(one) {
      const simulated = await simulate(client, callFor(client, one), sender)
      if (!simulated.ok) return { refused: simulated.revert.words }
      return { gas: Math.max(GAS_MIN, Number(simulated.gas)) }
    },
    async send(one, gas) {
      const { reference } = one
      const row = await lane.send({
        ...callFor(client, one),
        gas: BigInt(gas),
        purpose: PURPOSE,
        reference,
      })
      return { nonce: row.nonce, txHash: knownHash(row) }
    },
    async poll() {
      if (lane.open().length === 0) return []
      const { news } = await lane.poll()
      return news.map((each) => ({
        type: each.type === 'finished' ? 'finished' : 'waiting',
        reference: each.transaction.reference,
        nonce: each.transaction.nonce,
        txHash: knownHash(each.transaction),
        outcome: each.type === 'finished' ? each.outcome : undefined,
      }))
    },
    acknowledge: (nonce) => lane.acknowledge({ sender, nonce }),
  }
}

async function dueOn(chainId: number, query: Query, nowSec: number): Promise<ResolutionDue[]> {
  const limit = RESOLUTIONS_READ_MAX
  const [assertions, unpaid] = await Promise.all([
    query('assertionsToSettle', { chainId, endedBySec: nowSec, limit }),
    query('marketsWithoutPayout', { chainId, limit }),
  ])
  const found: ResolutionDue[] = unpaid.map(({ id, contractAddress }) => ({
    reference: `report ${id}`,
    step: 'report',
    marketId: id,
    market: contractAddress,
  }))
  for (const { id, marketId } of assertions) {
    const market = await query('chainMarketById', { marketId })
    if (market === undefined) continue
    const reference = `settle ${id}`
    found.push({ reference, step: 'settle', marketId, market: market.contractAddress })
  }
  return found
}

function callFor(client: ChainClient, { step, market }: ResolutionDue) {
  const contract = marketContract(client, market)
  return step === 'settle' ? contract.settleCall() : contract.reportPayoutsCall()
}
