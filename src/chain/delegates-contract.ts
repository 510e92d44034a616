/**
 * The contract of delegations: decodes its events, reads nonces, and asks whether a contract account accepts a
 * signature.
 */

import { decodeFunctionResult, encodeFunctionData, type Hex } from 'viem'
import { delegatesAbi } from '#contracts/artifacts/Delegates.abi.ts'
import { type Delegation, delegatesOf } from '#domain/delegate.ts'
import { type Address, type MarketId, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import { type Call, callOf, hexAddress, readerOf } from './call.ts'
import { type ChainLog, decoded, type Place, placeOf, safeNumber } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'
import type { SignatureParts } from './conditional-tokens.ts'

/**
 * Gas limit of a read call, which is more than the contract ever needs. With a fixed limit, the answer does not depend
 * on the node's own gas limit.
 */
const ASK_GAS = 300_000n

type DelegateSet = Place & Delegation & { readonly type: 'DelegateSet' }

/** Decodes an event of the contract; undefined for any other log. */
export function delegatesEvent(log: ChainLog): DelegateSet | undefined {
  const event = decoded(delegatesAbi, log)
  if (event?.eventName !== 'DelegateSet') return undefined
  const { account, delegate, until, settlesUntil, maxOrderSize, maxOpenNotional } = event.args
  return {
    type: 'DelegateSet',
    ...placeOf(log),
    account: toAddress(account),
    delegate: toAddress(delegate),
    untilSec: safeNumber(until),
    settlesUntilSec: safeNumber(settlesUntil),
    maxOrderSize: safeNumber(maxOrderSize),
    maxOpenNotional: safeNumber(maxOpenNotional),
    markets: event.args.markets as readonly string[] as readonly MarketId[],
  }
}

/**
 * Returns whether the code of an account accepts a signature of a digest, under the rules of the settlement
 * contract.
 */
export async function acceptsSignature(
  client: ChainClient,
  settlement: Address,
  asking: {
    readonly account: Address
    readonly digest: string
    readonly signature: string
  },
): Promise<boolean> {
  // The caller has checked that the signature has 65 bytes: r, s and v.
  const [r, s, v] = [
    asking.signature.slice(2, 66),
    asking.signature.slice(66, 130),
    asking.signature.slice(130),
  ]
  const vs = BigInt(`0x${s}`) | (/^(01|1c)$/i.test(v) ? 1n << 255n : 0n)
  const args = [
    hexAddress(asking.account),
    // With the zero address as signer, the contract does not check for delegates. The exchange knows delegates and
    // their limits from events.
    hexAddress(ZERO_ADDRESS),
    asking.digest as Hex,
    `0x${r}` as Hex,
    `0x${vs.toString(16).padStart(64, '0')}` as Hex,
  ] as const
  const data = encodeFunctionData({ abi: delegatesAbi, functionName: 'isSigner', args })
  return answerOf(client, settlement, 'isSigner', data)
}

/** Returns whether a key is currently a delegate of the account on the chain. Ignores the limits of the delegation. */
export function isCurrentDelegate(
  client: ChainClient,
  settlement: Address,
  { account, delegate }: Pick<Delegation, 'account' | 'delegate'>,
): Promise<boolean> {
  const args = [hexAddress(account), hexAddress(delegate)] as const
  const data = encodeFunctionData({ abi: delegatesAbi, functionName: 'isCurrent', args })
  return answerOf(client, settlement, 'isCurrent', data)
}

/** Returns whether an account has code. */
export async function hasCode(client: ChainClient, account: Address): Promise<boolean> {
  const code = await asked(client.viem.getCode({ address: hexAddress(account) }))
  return code !== undefined && code !== '0x'
}

async function answerOf(
  client: ChainClient,
  settlement: Address,
  functionName: 'isSigner' | 'isCurrent',
  data: Hex,
): Promise<boolean> {
  const { data: returned } = await asked(
    client.viem.call({
      account: hexAddress(settlement),
      to: hexAddress(delegatesOf(settlement)),
      data,
      gas: ASK_GAS,
    }),
  )
  // A settlement contract of an earlier version has no contract for delegates. The call then returns no data.
  if (returned === undefined || returned === '0x') return false
  return decodeFunctionResult({ abi: delegatesAbi, functionName, data: returned })
}

/** Returns the nonce of an account's next delegation by signature. */
export function delegationNonce(
  client: ChainClient,
  settlement: Address,
  account: Address,
): Promise<bigint> {
  return readerOf(client, delegatesOf(settlement), delegatesAbi)('nonces', [hexAddress(account)])
}

/** Returns the call that appoints or revokes a delegate by signature; any account may send it. */
export function setDelegateWithPermitCall(
  settlement: Address,
  delegation: Pick<Delegation, 'account' | 'delegate' | 'markets'> & {
    readonly until: bigint
    readonly maxOrderSize: bigint
    readonly maxOpenNotional: bigint
    readonly deadline: bigint
  },
  { v, r, s }: SignatureParts,
): Call {
  const { account, delegate, until, maxOrderSize, maxOpenNotional, markets } = delegation
  return callOf(delegatesOf(settlement), delegatesAbi, 'setDelegateWithPermit', [
    hexAddress(account),
    hexAddress(delegate),
    until,
    {
      maxOrderSize,
      maxOpenNotional,
      markets: markets as readonly string[] as readonly Hex[],
    },
    delegation.deadline,
    v,
    r as Hex,
    s as Hex,
  ])
}
