/** Decodes a transaction of the relayer: finds the operation and its owner. */

import type { Abi, Hex } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { delegatesAbi } from '#contracts/artifacts/Delegates.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { multicallAbi } from '#contracts/artifacts/Multicall.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { delegatesOf } from '#domain/delegate.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { purposeOf, type RelayKind, type RelayPurpose } from '#domain/relay.ts'
import { decodedCall } from './abi.ts'
import type { ChainContracts } from './contracts.ts'

export type Relayed = {
  readonly owner: Address
  readonly kind: RelayKind
  readonly purpose: RelayPurpose
}

const KINDS: Readonly<Record<string, RelayKind>> = {
  permit: 'stablecoin-permit',
  setApprovalForAllWithPermit: 'ctf-approval',
  redeemPositionsWithPermit: 'ctf-redemption',
  proposeResolution: 'propose-resolution',
  settleMarket: 'settle-market',
  cancelOrdersWithPermit: 'cancel-orders',
  cancelAllBeforeWithPermit: 'cancel-all-before',
  setDelegateWithPermit: 'set-delegate',
}

/**
 * Returns the operation in a transaction of one of the relayer's keys. A blank transaction has none, so the list is
 * empty.
 */
export function relayedIn(
  { to, from, data }: { readonly to: Address; readonly from: Address; readonly data: Hex },
  at: ChainContracts,
): Relayed[] {
  if (to === from) return []
  if (to === at.multicall) {
    const [calls] = decodedCall(multicallAbi, data).args as [readonly { callData: Hex }[]]
    const { args } = decodedCall(conditionalTokensAbi, calls[0]!.callData)
    return [relayed(args, 'batch-ctf-redemption')]
  }
  const abis = new Map<Address, Abi>([
    [at.stablecoin, testUSDCAbi],
    [at.conditionalTokens, conditionalTokensAbi],
    [at.settlement, settlementAbi],
    [delegatesOf(at.settlement), delegatesAbi],
  ])
  const { functionName, args } = decodedCall(abis.get(to) ?? marketAbi, data)
  const kind = KINDS[functionName]
  if (kind === undefined) throw new TypeError(`the relayer sends ${functionName}`)
  return [relayed(args, kind)]
}

function relayed([owner]: readonly unknown[], kind: RelayKind): Relayed {
  return { owner: toAddress(String(owner)), kind, purpose: purposeOf(kind) }
}
