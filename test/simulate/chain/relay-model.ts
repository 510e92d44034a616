/**
 * The rules of calls that the relayer sends for owners of funds, without an EVM: permits of the stablecoin, and
 * approvals and redemptions of outcome tokens. A signature is valid once, with the owner's next nonce at the contract.
 */

import { type Hex, zeroHash } from 'viem'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { type Address, type MarketId, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import type { ChainContracts, Executed, Funds, ModelLog } from './contracts.ts'

const BOTH: readonly Outcome[] = [0, 1]

const done = (logs: readonly ModelLog[]): Executed => ({ returned: '0x', logs, verdicts: [] })

export class RelayModel {
  readonly #at: ChainContracts
  /** Owner and nonce of each signature, by its last word. */
  readonly signed = new Map<string, { readonly owner: Address; readonly nonce: bigint }>()

  constructor(at: ChainContracts) {
    this.#at = at
  }

  /** Runs a transaction, or a call, of the stablecoin. */
  permit(data: Hex, funds: Funds): Executed {
    const { functionName, args } = decodedCall(testUSDCAbi, data)
    if (functionName !== 'permit') throw new TypeError(`the model lacks ${functionName}`)
    const [owner, value, s] = [toAddress(String(args[0])), args[2] as bigint, String(args.at(-1))]
    const wallet = funds.wallet(owner)
    if (Number(args[3]) < funds.nowSec) {
      return { revert: revertData(testUSDCAbi, 'ERC2612ExpiredSignature', [args[3]]) }
    }
    if (!this.#isSigned(s, owner, wallet.permits)) {
      return { revert: revertData(testUSDCAbi, 'ERC2612InvalidSigner', [ZERO_ADDRESS, owner]) }
    }
    funds.put(owner, { ...wallet, allowance: value, permits: wallet.permits + 1n })
    const { stablecoin, settlement: spender } = this.#at
    return done([logOf(testUSDCAbi, stablecoin, 'Approval', { owner, spender, value })])
  }

  /** Runs a transaction, or a call, of the outcome tokens. */
  tokens(data: Hex, funds: Funds): Executed {
    const { functionName, args } = decodedCall(conditionalTokensAbi, data)
    const [owner, s] = [toAddress(String(args[0])), String(args.at(-1))]
    const wallet = funds.wallet(owner)
    const deadline = args.at(-4) as bigint
    if (Number(deadline) < funds.nowSec) {
      return { revert: revertData(conditionalTokensAbi, 'PermitExpired', [deadline]) }
    }
    if (!this.#isSigned(s, owner, wallet.tokensNonce)) {
      return {
        revert: revertData(conditionalTokensAbi, 'PermitSignerMismatch', [ZERO_ADDRESS, owner]),
      }
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
    return done(this.redeem(owner, String(args[3]) as MarketId, funds))
  }

  #isSigned(s: string, owner: Address, nonce: bigint): boolean {
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
    funds.put(holder, { ...wallet, shares })
    const redeemed = log('PayoutRedemption', {
      ...{ redeemer: holder, collateralToken: stablecoin },
      ...{ parentCollectionId: zeroHash, conditionId: marketId, indexSets: [1n, 2n], payout },
    })
    return [...burnt, redeemed]
  }
}
