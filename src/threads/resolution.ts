/** A resolution thread: settles on one chain what can be settled, so that nobody waits for it. */

import assert from 'node:assert/strict'
import { Counter, Gauge, Registry } from 'prom-client'
import type { ClerkProtocol } from '#actors/clerk.ts'
import {
  newResolution,
  type ResolutionDue,
  type ResolutionEvent,
  type ResolutionProtocol,
  type ResolutionState,
  resolution,
} from '#actors/resolution.ts'
import { accountsOf } from '#chain/accounts.ts'
import { simulate } from '#chain/call.ts'
import { makeChainClient } from '#chain/clients.ts'
import { marketContract } from '#chain/market-contract.ts'
import { makeLane } from '#chain/sender/lane.ts'
import type { TransactionSender } from '#chain/sender/sender.ts'
import { makeLog } from '#config/logging.ts'
import {
  channelOptions,
  databaseUrlOf,
  settledChains,
  type ThreadData,
} from '#config/thread-data.ts'
import type { Address } from '#domain/ids.ts'
import { RESOLUTIONS_READ_MAX } from '#domain/limits.ts'
import { reject } from '#domain/rejection.ts'
import { Channel } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { closeDatabase, type Database, openDatabase } from '#store/database.ts'
import { makeJournal } from '#store/journal.ts'
import { answerQuery, askQuery, type Queries, type QueryName } from '#store/queries.ts'

const MAILBOX_MAX = 10_000
const PURPOSE = 'resolution'
/**
 * A settlement survives it when the payouts cannot be reported for want of gas, so the least gas with
 * which it succeeds, which is what an estimate finds, is too little.
 */
const GAS_MIN = 400_000

export function resolutionThread(data: ThreadData): ThreadParts {
  const { name, index, settings, isTerminal } = data
  const chain = settledChains(settings)[index]
  assert(chain !== undefined, `${name} has a chain`)
  const { chainId } = chain
  const log = makeLog(settings.log, name, isTerminal)
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name, chain: String(chainId) })
  const registers = [registry]

  const settled = new Counter({
    name: 'sibyl_resolutions_sent_total',
    help: 'Transactions that settled a resolution or reported its payout, by how they ended',
    labelNames: ['outcome'],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_resolution_faults_total',
    help: 'Failures of the chain or the database that settling resolutions met',
    registers,
  })
  new Gauge({
    name: 'sibyl_resolutions_refused',
    help: 'Resolutions whose window has passed and that cannot be settled yet: disputes, mostly',
    registers,
    collect() {
      this.set(state?.pauses.size ?? 0)
    },
  })

  const client = makeChainClient({
    chainId,
    rpcUrls: chain.rpcUrls,
    onError: ({ host, why }) => log.debug({ host, why }, 'a request to the chain failed'),
  })
  const store = makeRef<ClerkProtocol>()
  let database: Database
  let lane: TransactionSender
  let state: ResolutionState | undefined
  let served: Served
  let timer: NodeJS.Timeout

  const query: <Name extends QueryName>(
    name: Name,
    args: Queries[Name]['takes'],
  ) => Promise<Queries[Name]['answers']> = (name, args) =>
    askQuery({ run: (task) => answerQuery(async () => database, task) }, name, args)

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

  function told(said: ResolutionEvent): void {
    switch (said.type) {
      case 'sent': {
        const { reference, marketId } = said.due
        log.info({ reference, marketId, txHash: said.txHash }, 'a resolution is being settled')
        return
      }
      case 'ended': {
        const { type: _, ...facts } = said
        settled.inc({ outcome: said.outcome })
        if (said.outcome === 'succeeded') log.info(facts, 'a resolution is settled')
        else log.warn(facts, 'a resolution was not settled')
        return
      }
      case 'refused':
        log.debug({ ...said.due, why: said.why }, 'a resolution cannot be settled yet')
        return
      case 'trouble':
        troubles.inc()
        log.warn({ why: said.why }, 'settling resolutions met a fault')
    }
  }

  return {
    async start() {
      database = await openDatabase(databaseUrlOf(settings), { readOnly: true })
      const [account] = accountsOf([settings.keys.resolution])
      assert(account !== undefined, 'a key to settle with')
      const sender = account.address.toLowerCase() as Address
      lane = makeLane({
        client: client.viem,
        account,
        chainId,
        journal: makeJournal(store, { run: (task) => answerQuery(async () => database, task) }),
        nowMs: systemClock.nowMs,
        policy: { confirmations: chain.confirmations },
        onTrouble: () => troubles.inc(),
      })
      state = newResolution({
        recover: async () => (await lane.recover()).map(({ reference }) => reference),
        due,
        async attempt(one) {
          const simulated = await simulate(client, callFor(one), sender)
          if (!simulated.ok) return { refused: simulated.revert.words }
          return { gas: Math.max(GAS_MIN, Number(simulated.gas)) }
        },
        async send(one, gas) {
          const { to, data } = callFor(one)
          const row = await lane.send({
            to,
            data,
            gas: BigInt(gas),
            purpose: PURPOSE,
            reference: one.reference,
          })
          return { nonce: row.nonce, txHash: row.hashes.at(-1) ?? '' }
        },
        async poll() {
          if (lane.open().length === 0) return []
          const { news } = await lane.poll()
          return news.map((each) => {
            const { nonce, reference, hashes, txHash } = each.transaction
            const ended = each.type === 'finished'
            return {
              type: ended ? ('finished' as const) : ('waiting' as const),
              reference,
              nonce,
              txHash: txHash === '' ? (hashes.at(-1) ?? '') : txHash,
              outcome: ended ? each.outcome : undefined,
            }
          })
        },
        acknowledge: (nonce) => lane.acknowledge({ sender, nonce }),
      })
      const own = state
      served = serve<ResolutionState, ResolutionProtocol, ResolutionEvent>({
        behaviour: resolution,
        select: () => ({ state: own }),
        clock: systemClock,
        mailboxMax: MAILBOX_MAX,
        batchMax: MAILBOX_MAX,
        full: reject('OVERLOADED'),
        say: (said) => said.forEach(told),
      })
      timer = setInterval(() => served.hear('Tick', {}, 0, undefined), settings.resolution.pollMs)
      log.info({ key: sender }, `settles resolutions on chain ${chainId}`)
    },
    connect(_peer, port) {
      store.replace(new Channel(port, channelOptions(settings), { heard: () => {} }))
      served.hear('Tick', {}, 0, undefined)
    },
    health: () => state?.why ?? 'starting',
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      clearInterval(timer)
    },
    async stop() {
      clearInterval(timer)
      store.close()
      await closeDatabase(database)
    },
  }
}
