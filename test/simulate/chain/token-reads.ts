/** Answers of the tokens' view functions: the stablecoin and the outcome tokens. */

import { encodeAbiParameters, type Hex } from 'viem'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { decodedCall } from './abi.ts'
import type { ChainContracts, Funds, Token } from './contracts.ts'

/** Answers a view call of the stablecoin. */
export function readStablecoin(at: ChainContracts, data: Hex, funds: Funds): Hex {
  const { functionName, args } = decodedCall(testUSDCAbi, data)
  const wallet = funds.wallet(toAddress(String(args?.[0] ?? at.operator)))
  const spender = toAddress(String(args?.[1] ?? at.settlement))
  const values: Record<string, bigint> = {
    balanceOf: wallet.dollars,
    allowance:
      spender === at.settlement ? wallet.allowance : (wallet.rights.allowances.get(spender) ?? 0n),
    nonces: wallet.permits,
    // Always true: the stablecoin blocks no account.
    transferFrom: 1n,
  }
  const value = values[functionName]
  if (value === undefined) throw new TypeError(`the model lacks ${functionName}`)
  return encodeAbiParameters([{ type: 'uint256' }], [value])
}

/** Ids of outcome tokens. */
export class TokenIds {
  readonly #at: Pick<ChainContracts, 'stablecoin'>
  readonly #tokens = new Map<bigint, Token>()
  readonly #ids = new Map<Token, bigint>()

  constructor(at: Pick<ChainContracts, 'stablecoin'>) {
    this.#at = at
  }

  /** Registers the ids of a market's tokens. */
  know(marketId: MarketId): void {
    for (const outcome of [0, 1] as const) {
      const token: Token = `${marketId}/${outcome}`
      if (this.#ids.has(token)) continue
      const id = BigInt(positionIdOf(this.#at.stablecoin, marketId, outcome))
      this.#tokens.set(id, token)
      this.#ids.set(token, id)
    }
  }

  idOf(token: Token): bigint | undefined {
    return this.#ids.get(token)
  }

  /** Answers a view call of the outcome tokens. */
  read(data: Hex, funds: Funds): Hex {
    const { functionName, args } = decodedCall(conditionalTokensAbi, data)
    const word = (value: bigint): Hex => encodeAbiParameters([{ type: 'uint256' }], [value])
    if (functionName === 'getOutcomeSlotCount') {
      return word(funds.isPrepared(String(args?.[0]) as MarketId) ? 2n : 0n)
    }
    if (functionName.startsWith('payout')) {
      const { winner, isPaid } = funds.marketOf(String(args[0]) as MarketId) ?? {}
      if (isPaid !== true) return word(0n)
      if (functionName === 'payoutDenominator') return word(winner === undefined ? 0n : 1n)
      return word(winner === Number(args[1]) ? 1n : 0n)
    }
    const wallet = funds.wallet(toAddress(String([args?.[0]].flat()[0])))
    if (functionName === 'nonces') return word(wallet.tokensNonce)
    if (functionName === 'balanceOfBatch') {
      const ids = args[1] as readonly bigint[]
      const held = ids.map((id) => wallet.shares.get(this.#tokens.get(id) ?? ('' as Token)) ?? 0n)
      return encodeAbiParameters([{ type: 'uint256[]' }], [held])
    }
    if (functionName === 'isApprovedForAll') return word(wallet.isApproved ? 1n : 0n)
    if (functionName === 'balanceOf') {
      const token = this.#tokens.get(args?.[1] as bigint)
      return word(token === undefined ? 0n : (wallet.shares.get(token) ?? 0n))
    }
    throw new TypeError(`the model lacks ${functionName}`)
  }
}
