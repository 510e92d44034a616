/** A resolution thread: settles due resolutions of one chain, so that no holder waits. */

import assert from 'node:assert/strict'
import { accountOf, balanceOf } from '#chain/accounts.ts'
import { simulate } from '#chain/call.ts'
import { marketContract } from '#chain/market-contract.ts'
import { makeLane } from '#chain/sender/lane.ts'
import { databaseUrlOf, resolvedChains, type ThreadData } from '#config/thread-data.ts'
import { RESOLUTIONS_READ_MAX } from '#domain/limits.ts'
import { knownHash } from '#domain/transaction.ts'
import type { Served } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { startKeyWatch } from '#services/kit/key-watch.ts'
import { linkWriters, makeKit, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { resolutionMeters } from './metrics.ts'
import {
  newResolution,
  type ResolutionDue,
  type ResolutionEvent,
  type ResolutionPorts,
  type ResolutionProtocol,
  type ResolutionState,
  resolution,
} from './resolution.ts'

const PURPOSE = 'resolution'
/**
 * A settlement succeeds even if gas is missing to report the payouts, so the minimum gas, which an estimate finds, is
 * too little.
 */
const GAS_MIN = 400_000

export function resolutionThread(data: ThreadData, world: ChainWorld = chainWorld): ThreadParts {
  const { name, index, settings } = data
  const chain = resolvedChains(settings)[index]
  assert(chain !== undefined, `${name} has a chain`)
  const { chainId, confirmations } = chain
  const kit = makeKit(data, world, { chain: String(chainId) })
  const { log, clock } = kit
  const writers = linkWriters(settings, kit.links)
  // One node at a time uses the key.
  const role = `resolution/${chainId}`
  const leases = makeLeases(data, kit, world)
  const reads = world.makeReads(databaseUrlOf(settings))
  const { query } = reads
  let state: ResolutionState | undefined
  let served: Served | undefined
  let key: ReturnType<typeof startKeyWatch> | undefined
  const meters = resolutionMeters(kit, () => state)
  const client = world.makeChainClient({
    chainId,
    rpcUrls: chain.rpcUrls,
    onError: ({ host, why }) => log.debug({ host, why }, 'a request to the chain failed'),
  })

  async function due(nowSec: number): Promise<ResolutionDue[]> {
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

  function callFor({ step, market }: ResolutionDue) {
    const contract = marketContract(client, market)
    return step === 'settle' ? contract.settleCall() : contract.reportPayoutsCall()
  }

  /** Returns the actor's functions from outside, with the lane of the key. */
  function portsOf({ account, address: sender }: ReturnType<typeof accountOf>): ResolutionPorts {
    const lane = makeLane({
      client: client.viem,
      account,
      chainId,
      journal: makeJournal(leases.writeQueue(role, writers.store), reads),
      nowMs: clock.nowMs,
      policy: { confirmations },
      onTrouble: meters.troubled,
    })
    return {
      recover: async () => (await lane.recover()).map(({ reference }) => reference),
      due,
      async attempt(one) {
        const simulated = await simulate(client, callFor(one), sender)
        if (!simulated.ok) return { refused: simulated.revert.words }
        return { gas: Math.max(GAS_MIN, Number(simulated.gas)) }
      },
      async send(one, gas) {
        const { reference } = one
        const row = await lane.send({
          ...callFor(one),
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

  const look = () => served?.hear('Tick', {}, 0, undefined)

  function begin(): void {
    const own = accountOf(settings.keys.resolution)
    state = newResolution(portsOf(own))
    served = serveActor<ResolutionState, ResolutionProtocol, ResolutionEvent>({
      behaviour: resolution,
      state,
      clock,
      say: meters.said,
    })
    kit.every(settings.resolution.pollMs, look)
    key = startKeyWatch(kit, settings.relayer, {
      ...{ setting: 'SIBYL_RESOLUTION_KEY', chainId, address: own.address },
      balanceWei: () => balanceOf(client, own.address),
    })
    log.info({ key: own.address }, `settles resolutions on chain ${chainId}`)
  }

  return {
    start: () => leases.hold(role, begin),
    connect(peer, port) {
      if (writers.take(peer, port) === 'store') look()
    },
    health: () => key?.why() || (state?.why ?? (leases.standby() || 'starting')),
    metrics: kit.metrics,
    async drain() {
      kit.quiet()
    },
    async stop() {
      kit.quiet()
      writers.close()
      await reads.close()
      await leases.close()
    },
  }
}
