/**
 * Simulates a batch before it is sent, and leaves out what would be refused: `settle` returns its verdict
 * on each fill. In the good case that is one question. A refusal counts only if the newest block says so,
 * asked of one node that has seen what we have seen: a node that is behind may lack what a trader
 * received a moment ago. What is left then is simulated again, because a fill may need what another
 * one brought.
 *
 *   1 2 3 4   at the head: 2 is refused  →  the newest block: 2 is refused  →  1 3 4: good, to be sent
 */

import { formatEther, type Hex } from 'viem'
import { Fault } from '#domain/fault.ts'
import type { Address, OrderHash, TradeId } from '#domain/ids.ts'
import type { FaultySide, TradeToSettle } from '#domain/trade.ts'
import { type Call, hexAddress } from './call.ts'
import { asked, type ChainClient, chainFault } from './clients.ts'
import { type Revert, revertOf } from './revert.ts'
import type { Fees } from './sender/fees.ts'
import { isTooPoor } from './sender/offered-fees.ts'
import { batchOf } from './settlement-batch.ts'
import {
  refusalsOf,
  type SettlementContract,
  type SettlementPermit,
} from './settlement-contract.ts'
import type { SparePermits } from './spare-permits.ts'

/** A trade that would be refused, and so is not sent. */
export type RefusedTrade = {
  readonly tradeId: TradeId
  readonly fault: FaultySide
  readonly reason: string
}

type Trial = {
  readonly refused: readonly RefusedTrade[]
  /** What is to be sent, for trades that would all settle; nothing when none is left, or not sure. */
  readonly ready?: {
    readonly trades: readonly TradeToSettle[]
    readonly permits: readonly SettlementPermit[]
    readonly call: Call
    readonly gas: number
  }
  /** Why the rest would revert as a whole. */
  readonly revert?: Revert
}

export type SettlementTrial = (
  trades: readonly TradeToSettle[],
  options: {
    readonly usedPermits: ReadonlySet<OrderHash>
    /** Permits of orders that are left out are kept there, for a later one of their owner. */
    readonly spare: SparePermits
    /** The newest block that was seen. */
    readonly headNumber: number
    /** Whether a refusal is likely: then it is asked at once where refusals count. */
    readonly isDoubtful?: boolean
  },
) => Promise<Trial>

/**
 * Enough for a batch of most markets whatever its traders do meanwhile (see contracts/README.md). What
 * is not used is not paid.
 */
const GAS_BASE = 171_000
const GAS_PER_FILL = 350_000
const GAS_PER_PERMIT = 110_000
const GAS_PER_BYTE = 16

/** Simulations of one batch. Each leaves out what it refuses; the rest of a batch beyond it waits. */
const ROUNDS_MAX = 6

/** What a buyer whose permits did not all come along is refused for. */
const LACKS_ALLOWANCE: ReadonlySet<string> = new Set(['InsufficientAllowance', 'BothUnfunded'])

type Simulated = { readonly returned: Hex } | { readonly revert: Revert }

export function makeSettlementTrial(options: {
  readonly client: ChainClient
  readonly contract: SettlementContract
  /** The account that sends settlements. */
  readonly from: Address
  /** The most gas that a transaction of this chain may have. */
  readonly gasMax: number
  /** The fees that a transaction sent now would offer. */
  readonly fees: () => Promise<Fees>
}): SettlementTrial {
  const { contract, from, gasMax } = options

  /** Calls `settle` on the terms of its transaction: same sender, gas limit and fees. */
  async function simulated(
    client: ChainClient,
    {
      data,
      gas,
      fees,
      blockNumber,
    }: { data: Hex; gas: number; fees: Fees; blockNumber: bigint | undefined },
  ): Promise<Simulated> {
    try {
      const { data: returned = '0x' } = await client.viem.call({
        account: hexAddress(from),
        to: hexAddress(contract.address),
        data,
        gas: BigInt(gas),
        ...fees,
        ...(blockNumber === undefined ? {} : { blockNumber }),
      })
      return { returned }
    } catch (error) {
      if (isTooPoor(error)) {
        const wei = BigInt(gas) * fees.maxFeePerGas
        const words = `the settlement key ${from} needs ${formatEther(wei)} ether for a batch, and has less`
        throw new Fault('SENDER_TOO_POOR', words, { retryable: true, cause: error })
      }
      const revert = revertOf(error)
      if (revert !== undefined) return { revert }
      const fault = chainFault(error)
      if (blockNumber === undefined || fault.retryable) throw fault
      // Behind one address there may be several nodes, and this one does not have the block yet.
      throw new Fault(fault.code, fault.message, { retryable: true, cause: error })
    }
  }

  /** The newest block of one node that is not behind what was seen. */
  async function newest(headNumber: number): Promise<{ client: ChainClient; blockNumber: bigint }> {
    const client = options.client.pinned()
    const blockNumber = await asked(client.viem.getBlockNumber())
    if (blockNumber < headNumber) {
      throw new Fault('CHAIN_UNAVAILABLE', 'the node is behind what was seen', { retryable: true })
    }
    return { client, blockNumber }
  }

  return async (trades, { usedPermits, spare, headNumber, isDoubtful = false }) => {
    const refused: RefusedTrade[] = []
    let rest = trades
    const fees = await asked(options.fees())
    let where: { client: ChainClient; blockNumber: bigint | undefined } = isDoubtful
      ? await newest(headNumber)
      : { client: options.client, blockNumber: undefined }
    for (let round = 0; round < ROUNDS_MAX && rest.length > 0; round++) {
      const batch = batchOf(rest, usedPermits, spare.before)
      const call = contract.settleCall(batch.orders, batch.fills, batch.permits)
      const { data } = call
      let gas = Math.min(
        gasMax,
        GAS_BASE +
          GAS_PER_FILL * batch.fills.length +
          GAS_PER_PERMIT * batch.permits.length +
          GAS_PER_BYTE * (data.length / 2 - 1),
      )
      let result = await simulated(where.client, {
        data,
        gas,
        fees,
        blockNumber: where.blockNumber,
      })
      // To find the token of an outcome the contract tries points of a curve until one fits. How many
      // that are depends on the market, and there is no bound on it.
      while ('revert' in result && result.revert.name === 'TooLittleGas' && gas < gasMax) {
        gas = Math.min(gasMax, 2 * gas)
        result = await simulated(where.client, { data, gas, fees, blockNumber: where.blockNumber })
      }
      if ('revert' in result) return { refused, revert: result.revert }
      const verdicts = refusalsOf(result.returned)
      const found = batch.trades.flatMap(({ tradeId, buyer }, fill) => {
        const refusal = verdicts[fill]
        if (refusal === undefined) return []
        // What the permits that did not come along would have allowed is nobody's fault.
        const isShort = batch.short.has(buyer) && LACKS_ALLOWANCE.has(refusal.reason)
        return [{ tradeId, ...refusal, ...(isShort ? { fault: 'none' as const } : {}) }]
      })
      if (found.length === 0)
        return { refused, ready: { trades: batch.trades, permits: batch.permits, call, gas } }
      if (where.blockNumber === undefined) {
        where = await newest(headNumber)
        continue
      }
      refused.push(...found)
      const reasons = new Map(found.map(({ tradeId, reason }) => [tradeId, reason]))
      for (const { tradeId, buy } of rest) {
        const reason = reasons.get(tradeId)
        if (reason === undefined || reason === 'AlreadySettled') continue
        if (!usedPermits.has(buy.orderHash)) spare.keep(buy)
      }
      rest = rest.filter(({ tradeId }) => !reasons.has(tradeId))
    }
    return { refused }
  }
}
