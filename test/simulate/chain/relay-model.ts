/**
 * Models the calls that the relayer sends for owners of funds, without an EVM. They are permits of the stablecoin,
 * approvals and redemptions of outcome tokens, and several calls in one transaction. A signature is valid once, with
 * the owner's next nonce at the contract.
 */

import { encodeErrorResult, encodeFunctionResult, type Hex, zeroHash } from 'viem'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { multicallAbi } from '#contracts/artifacts/Multicall.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { type Address, type MarketId, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import type { ChainContracts, Executed, Funds, ModelLog, Wallet } from './contracts.ts'
import { putRights } from './rights-model.ts'

const BOTH: readonly Outcome[] = [0, 1]

const done = (logs: readonly ModelLog[]): Executed => ({ returned: '0x', logs, verdicts: [] })

export class RelayModel {
  readonly #at: ChainContracts
  /** Owner and nonce of each signature, by its last word. */
  readonly signed = new Map<string, { readonly owner: Address; readonly nonce: bigint }>()

  constructor(at: ChainContracts) {
    this.#at = at
  }

  /** Executes a transaction or a call to the stablecoin. */
  permit(data: Hex, funds: Funds): Executed {
    const { functionName, args } = decodedCall(testUSDCAbi, data)
    if (functionName !== 'permit') throw new TypeError(`the model lacks ${functionName}`)
    const [owner, value, s] = [toAddress(String(args[0])), args[2] as bigint, String(args.at(-1))]
    const spender = toAddress(String(args[1]))
    const wallet = funds.wallet(owner)
    if (Number(args[3]) < funds.nowSec) {
      return { revert: revertData(testUSDCAbi, 'ERC2612ExpiredSignature', [args[3]]) }
    }
    if (!this.isSigned(s, owner, wallet.permits)) {
      return { revert: revertData(testUSDCAbi, 'ERC2612InvalidSigner', [ZERO_ADDRESS, owner]) }
    }
    return done([this.allow(owner, { spender, value }, funds)])
  }

  /** Uses up a permit of the stablecoin; returns its log. */
  allow(
    owner: Address,
    { spender, value }: { readonly spender: Address; readonly value: bigint },
    funds: Funds,
  ): ModelLog {
    const { stablecoin, settlement } = this.#at
    const wallet = funds.wallet(owner)
    const used = { ...wallet, permits: wallet.permits + 1n }
    if (spender === settlement) funds.put(owner, { ...used, allowance: value })
    else {
      const allowances = new Map(wallet.rights.allowances).set(spender, value)
      putRights(funds, owner, used, { allowances })
    }
    return logOf(testUSDCAbi, stablecoin, 'Approval', { owner, spender, value })
  }

  /** Executes a transaction or a call to the outcome tokens. */
  tokens(data: Hex, funds: Funds): Executed {
    const { functionName, args } = decodedCall(conditionalTokensAbi, data)
    const [owner, s] = [toAddress(String(args[0])), String(args.at(-1))]
    const wallet = funds.wallet(owner)
    const deadline = args.at(-4) as bigint
    if (Number(deadline) < funds.nowSec) {
      return { revert: revertData(conditionalTokensAbi, 'PermitExpired', [deadline]) }
    }
    if (!this.isSigned(s, owner, wallet.tokensNonce)) {
      return {
        revert: revertData(conditionalTokensAbi, 'PermitSignerMismatch', [ZERO_ADDRESS, owner]),
      }
    }
    const marketId = String(args[3]) as MarketId
    // After a reorg, a redemption may be mined before the payouts of its market are reported.
    if (functionName === 'redeemPositionsWithPermit' && funds.marketOf(marketId)?.isPaid !== true) {
      return { revert: revertData(FAILED, 'Error', ['result for condition not received yet']) }
    }
    funds.put(owner, { ...wallet, tokensNonce: wallet.tokensNonce + 1n })
    if (functionName === 'setApprovalForAllWithPermit') {
      const isApproved = args[2] === true
      funds.put(owner, { ...funds.wallet(owner), isApproved })
      const named = { account: owner, operator: this.#at.settlement, approved: isApproved }
      return done([
        logOf(conditionalTokensAbi, this.#at.conditionalTokens, 'ApprovalForAll', named),
      ])
    }
    if (functionName !== 'redeemPositionsWithPermit') {
      throw new TypeError(`the model lacks ${functionName}`)
    }
    return done(this.redeem(owner, marketId, funds))
  }

  /** Returns whether the account signed something with this nonce; `s` is the last word of the signature. */
  readonly isSigned = (s: string, owner: Address, nonce: bigint): boolean => {
    const known = this.signed.get(s)
    return known?.owner === owner && known.nonce === nonce
  }

  /** Burns the holder's shares of a market, and pays for those that won. */
  redeem(holder: Address, marketId: MarketId, funds: Funds): ModelLog[] {
    const { stablecoin, conditionalTokens } = this.#at
    const log = (name: string, args: Readonly<Record<string, unknown>>) =>
      logOf(conditionalTokensAbi, conditionalTokens, name, args)
    const { winner } = funds.marketOf(marketId) ?? {}
    const wallet = funds.wallet(holder)
    const shares = new Map(wallet.shares)
    const payout = (winner === undefined ? undefined : shares.get(`${marketId}/${winner}`)) ?? 0n
    const burnt = BOTH.flatMap((outcome) => {
      const value = shares.get(`${marketId}/${outcome}`) ?? 0n
      if (value === 0n) return []
      shares.set(`${marketId}/${outcome}`, 0n)
      const id = BigInt(positionIdOf(stablecoin, marketId, outcome))
      const burn = { operator: holder, from: holder, to: ZERO_ADDRESS, id, value }
      return [log('TransferSingle', burn)]
    })
    funds.put(holder, { ...wallet, dollars: wallet.dollars + payout, shares })
    const collateral = funds.wallet(conditionalTokens)
    funds.put(conditionalTokens, { ...collateral, dollars: collateral.dollars - payout })
    const redeemed = log('PayoutRedemption', {
      ...{ redeemer: holder, collateralToken: stablecoin },
      ...{ parentCollectionId: zeroHash, conditionId: marketId, indexSets: [1n, 2n], payout },
    })
    return [...burnt, redeemed]
  }
}

type Call3 = { readonly target: Hex; readonly allowFailure: boolean; readonly callData: Hex }

const FAILED = [{ type: 'error', name: 'Error', inputs: [{ name: '', type: 'string' }] }] as const

const callsIn = (data: Hex): readonly Call3[] =>
  decodedCall(multicallAbi, data).args[0] as readonly Call3[]

/** Returns whether a multicall changes something. Only its first call is examined. */
export function isAggregated(data: Hex, isChange: (to: Address, data: Hex) => boolean): boolean {
  const [first] = callsIn(data)
  return first !== undefined && isChange(toAddress(first.target), first.callData)
}

/** Runs several calls in one transaction. If a call without `allowFailure` reverts, none of the calls takes effect. */
export function aggregated(
  data: Hex,
  funds: Funds,
  execute: (to: Address, data: Hex, within: Funds) => Executed | undefined,
): Executed {
  const wallets = new Map<Address, Wallet>()
  const within: Funds = {
    ...funds,
    wallet: (owner) => wallets.get(owner) ?? funds.wallet(owner),
    put: (owner, wallet) => void wallets.set(owner, wallet),
  }
  const logs: ModelLog[] = []
  const result: { success: boolean; returnData: Hex }[] = []
  for (const { target, allowFailure, callData } of callsIn(data)) {
    const executed = execute(toAddress(target), callData, within)
    if (executed === undefined) throw new TypeError(`the model lacks ${target}`)
    if ('revert' in executed) {
      if (!allowFailure) {
        const args = ['Multicall3: call failed'] as const
        return { revert: encodeErrorResult({ abi: FAILED, errorName: 'Error', args }) }
      }
      result.push({ success: false, returnData: executed.revert })
      continue
    }
    logs.push(...executed.logs)
    result.push({ success: true, returnData: executed.returned })
  }
  for (const [owner, wallet] of wallets) funds.put(owner, wallet)
  const returned = encodeFunctionResult({ abi: multicallAbi, functionName: 'aggregate3', result })
  return { returned, logs, verdicts: [] }
}
