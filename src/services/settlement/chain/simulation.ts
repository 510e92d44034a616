/**
 * Simulates a batch before it is sent, and leaves out refused trades. The contract's function `settle` returns a
 * verdict on each fill, so one call is enough if all fills would settle. A refusal by the first call does not count,
 * because the node may lag and not have the block in which a trader received the tokens. So the call is repeated at the
 * newest block of one node, which must not be older than the newest block seen before. The trades that this call
 * refuses are left out. The remaining trades are simulated again until none is refused, because a fill may need the
 * permit of a refused trade.
 *
 *     1 2 3 4   first call: 2 is refused  →  newest block: 2 is refused  →  1 3 4: none is refused, so they are sent
 */

import { formatEther, type Hex } from 'viem'
import { type Call, callOf, hexAddress } from '#chain/call.ts'
import { asked, type ChainClient, chainFault } from '#chain/clients.ts'
import { type Revert, revertOf } from '#chain/revert.ts'
import type { Fees } from '#chain/sender/fees.ts'
import { isTooPoor } from '#chain/sender/offered-fees.ts'
import {
  refusalsOf,
  type SettlementContract,
  type SettlementPermit,
} from '#chain/settlement-contract.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, OrderHash, TradeId } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { FaultySide, TradeToSettle } from '#domain/trade.ts'
import { batchOf, type EarlierPermits } from './settlement-batch.ts'

/** A trade that the contract would refuse. It is not sent. */
export type RefusedTrade = {
  readonly tradeId: TradeId
  readonly fault: FaultySide
  readonly reason: string
  /** The block at which the contract refused the trade; undefined if the contract was not called. */
  readonly block?: number
  /**
   * Set for a trade that was refused for a low balance: what each side had at `block`. `buyer` and `seller` are the
   * sides' balances of the tokens that they deliver. A balance is absent if the side's allowance is too low or its
   * approval is missing: no older trade can change this, so the trade must not wait for older trades. The allowance of
   * a side is absent if its order has an unused permit, which replaces the allowance.
   */
  readonly has?: {
    readonly buyer?: bigint
    readonly seller?: bigint
    /** The buyer's allowance. */
    readonly allowance?: bigint
    /** The seller's allowance; only in a mint, where both sides pay dollars. */
    readonly sellerAllowance?: bigint
  }
}

type Trial = {
  readonly refused: readonly RefusedTrade[]
  /** The call to send, with its trades, which would all settle. Undefined if no trade is left. */
  readonly ready?: {
    readonly trades: readonly TradeToSettle[]
    readonly permits: readonly SettlementPermit[]
    readonly call: Call
    readonly gas: number
  }
  /** Set if a call with the trades that were not refused would revert as a whole. */
  readonly revert?: Revert
}

export type Simulate = (
  trades: readonly TradeToSettle[],
  options: {
    readonly usedPermits: ReadonlySet<OrderHash>
    /** Permits of other orders that must come before the permits of these trades. */
    readonly earlier: EarlierPermits
    /** The newest block seen. */
    readonly headNumber: number
  },
) => Promise<Trial>

/**
 * Gas limit of a batch: the sum of a base and a part for each fill, each mint or merge, each permit and each byte. This
 * limit suffices in most markets, even if traders change the state of the chain before the batch is in a block (see
 * contracts/README.md). Unused gas is not paid.
 */
const GAS_BASE = 171_000
const GAS_PER_FILL = 350_000
/** Additional gas of a mint or merge. */
const GAS_PER_SET = 470_000
const GAS_PER_PERMIT = 110_000
const GAS_PER_BYTE = 16

/** Revert of a whole batch: the stablecoin is halted, so no trade can settle now. */
const COLLATERAL_STOPPED: Revert = {
  name: 'CollateralStopped',
  args: [],
  words: 'the stablecoin is halted: it rejects the transfers of all accounts',
}

type Where = { readonly client: ChainClient; readonly blockNumber: bigint | undefined }

type Simulated = { readonly returned: Hex } | { readonly revert: Revert }

type SimulationOptions = {
  readonly client: ChainClient
  readonly contract: SettlementContract
  /** The account that sends settlements. */
  readonly from: Address
  readonly stablecoin: Address
  /** Maximum gas of one transaction on this chain. */
  readonly gasMax: number
  /** The fees that a transaction sent now would offer. */
  readonly fees: () => Promise<Fees>
}

/** Makes the functions of a simulation that call an Ethereum node. */
function nodeCalls(options: SimulationOptions) {
  const { contract, from, stablecoin } = options

  /** Calls `settle` with the sender, gas limit and fees that the transaction will have. */
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
      // Make the fault retryable: several Ethereum nodes may share one URL, and the node that answered may not have the
      // block yet.
      throw new Fault(fault.code, fault.message, { retryable: true, cause: error })
    }
  }

  /** Returns an Ethereum node and its newest block; throws if that block is below the newest block seen before. */
  async function newest(headNumber: number): Promise<{ client: ChainClient; blockNumber: bigint }> {
    const client = options.client.pinned()
    const blockNumber = await asked(client.viem.getBlockNumber())
    if (blockNumber < headNumber) {
      throw new Fault(
        'CHAIN_UNAVAILABLE',
        'the Ethereum node does not have a block that was read before: it is behind',
        {
          retryable: true,
        },
      )
    }
    return { client, blockNumber }
  }

  /**
   * Returns whether the stablecoin accepts a transfer from an account that is not a trader. If it refuses the transfer,
   * the stablecoin is halted for all accounts.
   */
  async function collateralMoves({ client, blockNumber }: Where): Promise<boolean> {
    const own = hexAddress(from)
    const { data } = callOf(stablecoin, testUSDCAbi, 'transferFrom', [own, own, 0n])
    try {
      await client.viem.call({
        account: hexAddress(contract.address),
        to: hexAddress(stablecoin),
        data,
        ...(blockNumber === undefined ? {} : { blockNumber }),
      })
      return true
    } catch (error) {
      if (revertOf(error) !== undefined) return false
      throw chainFault(error)
    }
  }

  return { simulated, newest, collateralMoves }
}

export function makeSimulation(options: SimulationOptions): Simulate {
  const { contract, gasMax } = options
  const { simulated, newest, collateralMoves } = nodeCalls(options)

  return async (trades, { usedPermits, earlier, headNumber }) => {
    const refused: RefusedTrade[] = []
    let rest = trades
    const fees = await asked(options.fees())
    let where: Where = { client: options.client, blockNumber: undefined }
    // The loop ends, because each simulation at the newest block leaves out at least one trade. The loop has no other
    // limit: leaving out a trade may cause further refusals, and stopping early would make the good trades wait for
    // another batch.
    while (rest.length > 0) {
      const built = encoded(contract, rest, usedPermits, earlier)
      if ('unencodable' in built) {
        refused.push(...built.unencodable)
        rest = without(rest, built.unencodable)
        continue
      }
      const { batch, call } = built
      const { data } = call
      let gas = Math.min(
        gasMax,
        GAS_BASE +
          GAS_PER_FILL * batch.fills.length +
          GAS_PER_SET * batch.trades.filter(({ kind }) => kind !== undefined).length +
          GAS_PER_PERMIT * batch.permits.length +
          GAS_PER_BYTE * (data.length / 2 - 1),
      )
      let result = await simulated(where.client, {
        data,
        gas,
        fees,
        blockNumber: where.blockNumber,
      })
      // If the call reverts with `TooLittleGas`, repeat it with twice the gas. The gas that the contract needs has no
      // fixed maximum: to compute the token of an outcome, it tries points of a curve until one fits.
      while ('revert' in result && result.revert.name === 'TooLittleGas' && gas < gasMax) {
        gas = Math.min(gasMax, 2 * gas)
        result = await simulated(where.client, { data, gas, fees, blockNumber: where.blockNumber })
      }
      if ('revert' in result) return { refused, revert: result.revert }
      const verdicts = refusalsOf(result.returned)
      const found = batch.trades.flatMap(({ tradeId }, fill) => {
        const refusal = verdicts[fill]
        return refusal === undefined ? [] : [{ tradeId, ...refusal, ...at(where) }]
      })
      if (found.length === 0) {
        const { trades, permits } = batch
        return { refused, ready: { trades, permits, call, gas } }
      }
      if (where.blockNumber === undefined) {
        where = await newest(headNumber)
        continue
      }
      // If the stablecoin refuses both sides of a trade, either it is halted or it blocks both accounts. A simulated
      // transfer of the settlement account shows which of the two is true.
      if (found.some(isUnexplained) && !(await collateralMoves(where))) {
        return { refused, revert: COLLATERAL_STOPPED }
      }
      refused.push(
        ...found.map((each) => (isUnexplained(each) ? { ...each, fault: 'both' as const } : each)),
      )
      rest = without(rest, found)
    }
    return { refused }
  }
}

function at({ blockNumber }: Where): { block?: number } {
  return blockNumber === undefined ? {} : { block: Number(blockNumber) }
}

/** Returns true if the stablecoin refuses both sides for a reason that the contract does not know. */
function isUnexplained({ fault, reason }: RefusedTrade): boolean {
  return fault === 'none' && reason === 'CollateralRefused'
}

function without(
  trades: readonly TradeToSettle[],
  refused: readonly RefusedTrade[],
): TradeToSettle[] {
  const left = new Set(refused.map(({ tradeId }) => tradeId))
  return trades.filter(({ tradeId }) => !left.has(tradeId))
}

/**
 * Returns the contract call for these trades. If some trades cannot be encoded, returns only these trades, each with
 * the side at fault.
 */
function encoded(
  contract: SettlementContract,
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
  earlier: EarlierPermits,
):
  | { readonly batch: ReturnType<typeof batchOf>; readonly call: Call }
  | { readonly unencodable: readonly RefusedTrade[] } {
  const attempt = (part: readonly TradeToSettle[]) => {
    const batch = batchOf(part, usedPermits, earlier)
    return { batch, call: contract.settleCall(batch.orders, batch.fills, batch.permits) }
  }
  try {
    return attempt(trades)
  } catch (error) {
    const isSound = (order: VerifiedOrder): boolean =>
      succeeds(() => contract.settleCall([{ order, signature: order.signature }], [], []))
    const unencodable = trades
      .filter((trade) => !succeeds(() => attempt([trade])))
      .map(({ tradeId, buy, sell }): RefusedTrade => {
        const [buyer, seller] = [isSound(buy), isSound(sell)]
        const fault = buyer === seller ? 'both' : buyer ? 'seller' : 'buyer'
        return { tradeId, fault, reason: 'Unencodable' }
      })
    if (unencodable.length === 0) throw error
    return { unencodable }
  }
}

function succeeds(work: () => unknown): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}
