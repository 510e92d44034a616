/** Signs that a market belongs to an event, in the form that the factory requires. */

import { type Hex, keccak256, type PrivateKeyAccount } from 'viem'
import type { Address } from '#domain/ids.ts'
import { EVENT_MARKET_TYPES, factoryDomain } from '#domain/typed-data.ts'

/**
 * Returns the signature with which an operator of the factory assigns a market, at its predicted address, to an event.
 */
export function signEventMarket(
  operator: PrivateKeyAccount,
  asked: {
    readonly chainId: number
    readonly factory: string
    readonly market: Hex
    readonly metadata: Hex
  },
): Promise<Hex> {
  return operator.signTypedData({
    domain: factoryDomain(asked.chainId, asked.factory as Address),
    types: EVENT_MARKET_TYPES,
    primaryType: 'EventMarket',
    message: { market: asked.market, eventHash: keccak256(asked.metadata) },
  })
}
