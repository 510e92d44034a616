/**
 * Tries a settlement without sending it, and tells whether its trade would settle. A call that is only
 * simulated shows no events, and `settle` does not revert for a single trade: so the contract is asked
 * right after it, in the same simulation, whether the trade has settled. Only the operator may settle,
 * so the simulation gives the operator's account the code of `Multicall`, which does both for it.
 */

import type { Hex } from 'viem'
import type { Address } from '#domain/ids.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { type Call, hexAddress } from './call.ts'
import { asked, type ChainClient, chainFault } from './clients.ts'
import { multicall } from './multicall.ts'
import { revertOf } from './revert.ts'
import type { SettlementContract } from './settlement-contract.ts'

export type SettlementTrial = {
  /** False when the trade would be refused; true also when the chain cannot tell. */
  wouldSettle(settle: Call, trade: TradeToSettle): Promise<boolean>
}

export function makeSettlementTrial(options: {
  readonly client: ChainClient
  readonly contract: SettlementContract
  readonly multicall: Address
  /** The account that sends settlements. */
  readonly from: Address
  readonly gasMax: number
}): SettlementTrial {
  const { client, contract, from } = options
  const both = multicall(from)
  /** The contract cannot change it. */
  let code: Hex | undefined

  async function simulated(data: Hex): Promise<Hex | undefined> {
    code ??= await asked(client.viem.getCode({ address: hexAddress(options.multicall) }))
    if (code === undefined) return undefined
    try {
      const { data: returned } = await client.viem.call({
        to: hexAddress(from),
        data,
        gas: BigInt(options.gasMax),
        stateOverride: [{ address: hexAddress(from), code }],
      })
      return returned
    } catch (error) {
      if (revertOf(error) !== undefined) return undefined
      const fault = chainFault(error)
      // Not every node lends an account some code. What is sent then costs gas, which has a limit.
      if (fault.code === 'CHAIN_REFUSED') return undefined
      throw fault
    }
  }

  return {
    async wouldSettle(settle, { tradeKey, buyOrderHash, sellOrderHash }) {
      const ask = contract.isSettledCall(tradeKey, buyOrderHash, sellOrderHash)
      const returned = await simulated(both.aggregateCall([settle, ask], true).data)
      if (returned === undefined) return true
      const [done, settled] = both.resultsOf(returned)
      // What reverts as a whole is found out, and named, by the lane that sends it.
      if (done?.ok !== true || settled?.ok !== true) return true
      return BigInt(settled.returned) === 1n
    },
  }
}
