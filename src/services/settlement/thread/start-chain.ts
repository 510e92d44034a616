/** Starts the settlement of one chain: the lane of its key, and the state of its actor. */

import { accountOf, balanceOf } from '#chain/accounts.ts'
import type { ChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { makeCallReader, makeFundsRead } from '#chain/funds-read.ts'
import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import { makeLane } from '#chain/sender/lane.ts'
import { offeredFees } from '#chain/sender/offered-fees.ts'
import { type SettlementContract, settlementContract } from '#chain/settlement-contract.ts'
import { stablecoin } from '#chain/stablecoin.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { MarketProtocol } from '#protocol/market.ts'
import { Unfit } from '#runtime/thread.ts'
import type { ChainWorld } from '#services/kit/chain-world.ts'
import { startKeyWatch } from '#services/kit/key-watch.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { makeLeases } from '#services/kit/leases.ts'
import type { Lease } from '#store/engine/fence.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { makeHoldingsRead } from '../chain/holdings.ts'
import { makeSettlementLane, type SettlementLane } from '../chain/settlement-lane.ts'
import { makeSimulation } from '../chain/simulation.ts'
import { makeSparePermits } from '../chain/spare-permits.ts'
import type { settlementMeters } from '../metrics.ts'
import { newSettlement, type ReportAnswer, type SettlementState } from '../state.ts'

/** Maximum number of transactions that may wait for confirmations at the same time. */
const OPEN_MAX = 256
const RPC_TIMEOUT_MS = 5_000

type Chain = Settings['chains'][number]

/** The parts of the settlement thread that all chains share. */
type StartParts = {
  readonly settings: Settings
  readonly world: ChainWorld
  readonly context: ThreadContext
  readonly store: WriteQueueRef
  readonly leases: ReturnType<typeof makeLeases>
  readonly reads: ReturnType<ChainWorld['makeReads']>
  readonly meters: ReturnType<typeof settlementMeters>
  readonly report: (request: MarketProtocol['ReportTrade']['takes']) => Promise<ReportAnswer>
  /**
   * Returns the traders whose failed fills have used up their gas budget of the day; undefined if there is no budget.
   */
  readonly barred: ((chainId: number) => ReadonlySet<Address>) | undefined
}

/** Name of the role that lets one node at a time settle the trades of a chain. */
export const roleOf = ({ chainId }: { readonly chainId: number }): string => `settlement/${chainId}`

/**
 * Returns the lease's epoch as a message field. Market threads ignore messages with the epoch of an earlier holder. The
 * field is absent if only one node can hold the lease.
 */
export const epochOf = (lease: Lease | undefined): { epoch?: number } =>
  lease === undefined || lease.epoch === 0 ? {} : { epoch: lease.epoch }

export async function startChain(chain: Chain, lease: Lease, parts: StartParts) {
  const { settings, world, context, meters } = parts
  const { chainId } = chain
  const own = accountOf(settings.keys.settlement)
  const client = world.makeChainClient({
    chainId,
    rpcUrls: chain.rpcUrls,
    timeoutMs: RPC_TIMEOUT_MS,
    rounds: 2,
    onError: (trouble) => meters.unanswered(chainId, trouble),
  })
  const contract = settlementContract(client, contractsOf(chain).settlement)
  const lane = laneOf(chain, parts, { client, contract, own })
  await checkGrace(parts, chainId, contract)
  const key = startKeyWatch(context, settings.relayer, {
    ...{ setting: 'SIBYL_SETTLEMENT_KEY', chainId, address: own.address },
    balanceWei: () => balanceOf(client, own.address),
    role: {
      contract: 'settlement contract',
      isHeld: () => contract.isOperator(own.address),
    },
  })
  return { sender: own.address, key, state: stateOf(chain, parts, lease, { contract, lane }) }
}

/** Makes the lane of a chain (one key and its transactions). The lane signs, simulates and sends the settlements. */
function laneOf(
  chain: Chain,
  { settings, store, leases, reads, context }: StartParts,
  on: {
    readonly client: ChainClient
    readonly contract: SettlementContract
    readonly own: ReturnType<typeof accountOf>
  },
): SettlementLane {
  const { client, contract, own } = on
  const { settlement: rules } = settings
  const { chainId, confirmations } = chain
  const contracts = contractsOf(chain)
  const maxFeeCap = BigInt(rules.maxFeeGwei) * WEI_PER_GWEI
  const readFunds = makeFundsRead(makeCallReader(client, contracts.multicall), contracts)
  return makeSettlementLane({
    client,
    contract,
    tokens: conditionalTokens(client, contracts.conditionalTokens, contracts.stablecoin),
    withHoldings: makeHoldingsRead(client, readFunds),
    simulate: makeSimulation({
      client,
      contract,
      from: own.address,
      stablecoin: contracts.stablecoin,
      gasMax: rules.gasMax,
      fees: () => offeredFees(client.viem, maxFeeCap),
    }),
    spare: makeSparePermits({
      stored: (owners) => reads.query('permitsOf', { chainId, owners }),
      nonceOf: stablecoin(client, contracts.stablecoin).nonce,
    }),
    sender: makeLane({
      client: client.viem,
      account: own.account,
      chainId,
      journal: makeJournal(leases.writeQueue(roleOf(chain), store), reads),
      nowMs: context.clock.nowMs,
      keccak256: loadKeccak().keccak256,
      policy: {
        confirmations,
        bumpAfterMs: rules.bumpAfterMs,
        maxFeeCap,
        openMax: OPEN_MAX,
      },
    }),
    confirmations,
    startBlock: chain.startBlock,
  })
}

/** Makes the actor's state, with its settings and ports. */
function stateOf(
  chain: Chain,
  parts: StartParts,
  lease: Lease,
  { contract, lane }: { readonly contract: SettlementContract; readonly lane: SettlementLane },
): SettlementState {
  const { chainId } = chain
  const { settings, store, leases, report, barred } = parts
  const { settlement: rules } = settings
  const { query } = parts.reads
  const role = roleOf(chain)
  return newSettlement(
    {
      chainId,
      batchMax: rules.batchMax,
      batchWaitMs: rules.batchWaitMs,
      inFlightMax: rules.inFlightMax,
      readEveryMs: rules.pollMs,
      pollEveryMs: rules.pollMs,
      maxLagMs: rules.maxLagSeconds * 1_000,
      tradeDeadlineMs: rules.tradeDeadlineSeconds * 1_000,
      retryGasMax: rules.retryGasMax,
    },
    {
      lane,
      readPending: (filter) => query('pendingTradesWithOrders', { chainId, ...filter }),
      readTrades: (tradeIds) => query('tradesWithOrders', { tradeIds }),
      readNotes: (tradeIds) => query('notesOf', { tradeIds }),
      saveNotes: async (changes) => {
        await askWrite(leases.writeQueue(role, store), 'noteTrades', { chainId, ...changes })
      },
      keyOf: (trade) => contract.tradeKeyOf(trade),
      report: async (marketId, tradeReport) =>
        // Send a report only while this node surely holds the lease, because another node may be settling this chain.
        // Otherwise return `closed`, and the report is retried.
        leases.isSure(role)
          ? report({ marketId, report: tradeReport, ...epochOf(lease) })
          : { unanswered: 'closed' },
      ...(barred === undefined ? {} : { barred: () => barred(chainId) }),
    },
  )
}

/**
 * Checks that the maximum lag and the deadline of trades are shorter than the contract's grace. So each trade settles
 * or fails while the contract still accepts it.
 */
async function checkGrace(
  { settings, context }: StartParts,
  chainId: number,
  contract: SettlementContract,
): Promise<void> {
  const { settlement: rules } = settings
  let graceSec: number
  try {
    graceSec = (await contract.delays()).graceSec
  } catch (error) {
    if (!(error instanceof Fault && error.retryable)) throw error
    context.log.warn(
      { chainId, why: error.message },
      'the grace period of the settlement contract could not be read',
    )
    return
  }
  const limits = {
    SIBYL_SETTLEMENT_MAX_LAG_SECONDS: rules.maxLagSeconds,
    SIBYL_SETTLEMENT_TRADE_DEADLINE_SECONDS: rules.tradeDeadlineSeconds,
  }
  for (const [name, seconds] of Object.entries(limits)) {
    if (seconds < graceSec) continue
    throw new Unfit(
      `${name} is ${seconds} s, but it must be below the grace period of the settlement contract of chain ${chainId}, which is ` +
        `${graceSec} s`,
    )
  }
}
