/**
 * Reads an account’s balances of a market at the newest block. The request names the block by its hash (EIP-1898), so
 * every Ethereum node answers for exactly that block.
 */

import type { Hex } from 'viem'
import { headerOf } from '#chain/block-reads.ts'
import { hexAddress } from '#chain/call.ts'
import { asked, type ChainClient } from '#chain/clients.ts'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'

/** Maximum number of attempts if the newest block is replaced, or is not on every Ethereum node yet. */
const ATTEMPTS_MAX = 4

type HeadBalances = {
  readonly blockNumber: number
  readonly blockHash: string
  readonly shares: readonly [yes: bigint, no: bigint]
}

export async function headBalances(
  client: ChainClient,
  contracts: { readonly conditionalTokens: Address; readonly stablecoin: Address },
  holder: Address,
  marketId: MarketId,
): Promise<HeadBalances> {
  const ids = OUTCOMES.map((outcome) => positionIdOf(contracts.stablecoin, marketId, outcome))
  for (let attempt = 1; ; attempt++) {
    const head = await headerOf(client, 'latest')
    if (head === undefined) {
      throw new Fault('CHAIN_UNAVAILABLE', 'the Ethereum node does not return its newest block', {
        retryable: true,
      })
    }
    try {
      const [yes = 0n, no = 0n] = await asked(
        client.viem.readContract({
          address: hexAddress(contracts.conditionalTokens),
          abi: conditionalTokensAbi,
          functionName: 'balanceOfBatch',
          args: [ids.map(() => hexAddress(holder)), ids.map(BigInt)],
          blockHash: head.hash as Hex,
          requireCanonical: true,
        }),
      )
      return { blockNumber: head.number, blockHash: head.hash, shares: [yes, no] }
    } catch (error) {
      const isGone = error instanceof Fault && error.code === 'CHAIN_REFUSED'
      if (!isGone || attempt >= ATTEMPTS_MAX) throw error
    }
  }
}
