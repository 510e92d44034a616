/** The rules of the market factory and of the markets that it creates, without an EVM. */

import { encodeAbiParameters, encodeFunctionResult, type Hex, zeroHash } from 'viem'
import { quickDescription, quickQuestion } from '#chain/market-factory.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { type Address, type MarketId, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { predictQuickMarket } from '#services/prices/chain/quick-market-id.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import type { ChainContracts, Executed, Funds, ModelLog } from './contracts.ts'
import { BOND, type Claim, type OracleModel, openClaimOf, questionIdOf } from './oracle-model.ts'

const QUICK_FALLBACK_SEC = 7 * 86_400

/** A market contract at one block. */
export type ChainMarket = {
  readonly contract: Address
  readonly marketId: MarketId
  readonly maker: Address
  readonly quick:
    | { readonly asset: string; readonly startPrice: bigint; readonly source: string }
    | undefined
  readonly expirationSec: number
  readonly proposableFromSec: number
  readonly question: string
  readonly description: string
  readonly winner: Outcome | undefined
  /** End price in USD with eight decimals; undefined until prices have resolved the market. */
  readonly endPrice: bigint | undefined
  readonly claims: readonly Claim[]
  /** Id of the open claim, or of the claim that resolved the market. */
  readonly claimId: Hex | undefined
  /** True if its payouts were reported. */
  readonly isPaid: boolean
}

/** A view call that reverts. */
export class ReadReverts extends Error {
  readonly revert: Hex

  constructor(revert: Hex) {
    super('a read reverts')
    this.revert = revert
  }
}

const done = (logs: readonly ModelLog[]): Executed => ({ returned: '0x', logs, verdicts: [] })
const refused = (errorName: string, args: readonly unknown[] = []): Executed => ({
  revert: revertData(errorName === 'NotOperator' ? marketFactoryAbi : marketAbi, errorName, args),
})

export class FactoryModel {
  readonly #at: ChainContracts
  readonly #oracle: OracleModel

  constructor(at: ChainContracts, oracle: OracleModel) {
    this.#at = at
    this.#oracle = oracle
  }

  /** Executes a transaction or a call to the factory. */
  execute(from: Address, data: Hex, funds: Funds): Executed {
    if (from !== this.#at.marketOperator) return refused('NotOperator', [from])
    const { functionName, args } = decodedCall(marketFactoryAbi, data)
    if (functionName === 'createQuickMarket') return this.#createQuick(from, args, funds)
    const market = funds.market(toAddress(String(args[0])))
    if (market?.quick === undefined) {
      return { revert: revertData(marketFactoryAbi, 'UnknownQuickMarket', [args[0]]) }
    }
    if (functionName === 'resolveQuickMarket') return this.#resolveQuick(market, args, funds)
    if (functionName === 'contestQuickMarket') return this.#contest(market, args, funds)
    throw new TypeError(`the model lacks ${functionName}`)
  }

  #createQuick(from: Address, args: readonly unknown[], funds: Funds): Executed {
    const [asset, start, intervalSec, startPrice, source] = args as [
      string,
      bigint,
      number,
      bigint,
      string,
    ]
    const startSec = Number(start)
    const { marketFactory, conditionalTokens } = this.#at
    const predicted = predictQuickMarket(marketFactory, { asset, startSec, intervalSec })
    const { marketId, contractAddress: contract } = predicted
    if (funds.market(contract) !== undefined) {
      return { revert: revertData(marketFactoryAbi, 'MarketExists', [contract]) }
    }
    const endSec = startSec + intervalSec
    const words = { startPrice, startSec, endSec, source }
    funds.putMarket({
      ...{ contract, marketId, maker: from, quick: { asset, startPrice, source } },
      ...{ expirationSec: endSec, proposableFromSec: endSec + QUICK_FALLBACK_SEC },
      ...{ question: quickQuestion(asset), description: quickDescription(words) },
      ...{ winner: undefined, endPrice: undefined, claims: [], claimId: undefined, isPaid: false },
    })
    funds.prepare(marketId)
    return done([
      logOf(conditionalTokensAbi, conditionalTokens, 'ConditionPreparation', {
        conditionId: marketId,
        ...{ oracle: contract, questionId: questionIdOf(contract), outcomeSlotCount: 2n },
      }),
      logOf(marketFactoryAbi, marketFactory, 'QuickMarketCreated', {
        ...{ marketId, market: contract, asset, startTime: start, endTime: BigInt(endSec) },
        ...{ startPrice, source },
      }),
    ])
  }

  #resolveQuick(market: ChainMarket, args: readonly unknown[], funds: Funds): Executed {
    const [, startPrice, endPrice, source] = args as [string, bigint, bigint, string]
    const { quick, marketId, contract } = market
    if (source === quick?.source && startPrice !== quick.startPrice) {
      const prices = [startPrice, quick.startPrice]
      return { revert: revertData(marketFactoryAbi, 'StrikeMismatch', prices) }
    }
    const flaw = flawOf(market, funds)
    if (flaw !== undefined) return flaw
    if (market.claimId !== undefined) return refused('AssertionActive', [market.claimId])
    const winner: Outcome = endPrice >= startPrice ? 0 : 1
    const told = logOf(marketFactoryAbi, this.#at.marketFactory, 'QuickMarketResolved', {
      ...{ marketId, market: contract, winningOutcome: winner, startPrice, endPrice, source },
    })
    return done([
      told,
      ...this.#oracle.resolve({ ...market, endPrice }, { winner, pays: true }, funds),
    ])
  }

  #contest(market: ChainMarket, args: readonly unknown[], funds: Funds): Executed {
    const flaw = flawOf(market, funds)
    if (flaw !== undefined) return flaw
    const { marketId, contract, expirationSec: proposableFromSec, description } = market
    const evidence = String(args[1])
    funds.putMarket({
      ...market,
      ...{ proposableFromSec, description: `${description} ${evidence}` },
    })
    const named = { marketId, market: contract, evidence }
    return done([logOf(marketFactoryAbi, this.#at.marketFactory, 'QuickMarketContested', named)])
  }

  /** Answers a view call of the factory. */
  read(data: Hex, funds: Funds): Hex {
    const { functionName, args } = decodedCall(marketFactoryAbi, data)
    const account = toAddress(String(args[0]))
    if (functionName === 'isMarket') return wordOf(funds.market(account) !== undefined)
    if (functionName === 'isOperator') return wordOf(account === this.#at.marketOperator)
    throw new TypeError(`the model lacks ${functionName}`)
  }

  /** Answers a view call of a market. */
  readMarket(market: ChainMarket, data: Hex, funds: Funds): Hex {
    const { functionName, args } = decodedCall(marketAbi, data)
    if (functionName === 'marketId') return market.marketId as string as Hex
    if (functionName === 'bond') return wordOf(BOND)
    if (functionName === 'nonces') {
      const { marketNonces } = funds.wallet(toAddress(String(args[0]))).rights
      return wordOf(marketNonces.get(market.contract) ?? 0n)
    }
    if (functionName === 'winningOutcome') {
      if (market.winner === undefined)
        throw new ReadReverts(revertData(marketAbi, 'NotResolved', []))
      return wordOf(BigInt(market.winner))
    }
    if (functionName === 'assertion') {
      const result = assertionOf(openClaimOf(market))
      return encodeFunctionResult({ abi: marketAbi, functionName, result })
    }
    if (functionName !== 'terms') throw new TypeError(`the model lacks ${functionName}`)
    const { maker, expirationSec, proposableFromSec, question, description } = market
    return encodeFunctionResult({
      abi: marketAbi,
      functionName,
      result: {
        ...{ questionId: questionIdOf(market.contract), maker: maker as string as Hex },
        ...{ expiration: BigInt(expirationSec), proposableFrom: BigInt(proposableFromSec) },
        ...{ quick: market.quick !== undefined, question, description },
      },
    })
  }
}

/**
 * Returns why the contract refuses to resolve a market by prices, or to open it to the oracle. Returns undefined if the
 * contract does not refuse. Both calls make the same checks, in this order.
 */
function flawOf(market: ChainMarket, funds: Funds): Executed | undefined {
  const { winner, expirationSec, proposableFromSec } = market
  if (winner !== undefined) return refused('AlreadyResolved', [winner])
  if (funds.nowSec < expirationSec) return refused('NotExpired', [BigInt(expirationSec)])
  return proposableFromSec === expirationSec ? refused('OpenToOracle') : undefined
}

const wordOf = (value: boolean | bigint): Hex =>
  encodeAbiParameters([{ type: 'uint256' }], [BigInt(value)])

/**
 * Returns a claim in the format of the contract, which calls a claim an assertion. The claim is open, or it resolved
 * the market. If there is no claim, the id is zero.
 */
function assertionOf(claim: Claim | undefined) {
  return {
    id: claim?.id ?? zeroHash,
    proposer: (claim?.proposer ?? ZERO_ADDRESS) as string as Hex,
    asserter: (claim?.asserter ?? ZERO_ADDRESS) as string as Hex,
    outcome: claim?.outcome === 0,
    disputed: claim?.disputer !== undefined,
    assertionTime: BigInt(claim?.atSec ?? 0),
    expirationTime: BigInt(claim?.windowEndsSec ?? 0),
    bond: claim?.bond ?? 0n,
  }
}
