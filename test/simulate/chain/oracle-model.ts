/**
 * Models the resolution of a market, without an EVM: proposals with a bond, disputes, the decision of the arbiter, and
 * the payout. The rules are those of the market contract and of the optimistic oracle behind it.
 */

import { encodeErrorResult, type Hex, keccak256, stringToHex } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { type Address, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import type { ChainContracts, Executed, Funds, ModelLog } from './contracts.ts'
import type { ChainMarket } from './factory.ts'
import type { RelayModel } from './relay-model.ts'
import { putRights } from './rights-model.ts'

/** A claim about the outcome at the oracle. */
export type Claim = {
  readonly id: Hex
  readonly proposer: Address
  /** The account that paid the bond, and gets it back. */
  readonly asserter: Address
  readonly outcome: Outcome
  readonly bond: bigint
  readonly atSec: number
  readonly windowEndsSec: number
  readonly disputer: Address | undefined
  /** The arbiter's decision about a disputed claim. */
  readonly truth: boolean | undefined
  readonly settledBy: Address | undefined
  readonly settledAtSec: number | undefined
}

export const BOND = 100_000_000n
/** Account of the oracle that holds the bonds of open claims. */
export const ORACLE = `0x${'0a'.repeat(20)}` as Address
/** Account of the oracle that receives half of a lost bond; the winner gets the other half. */
export const STORE = `0x${'0b'.repeat(20)}` as Address
/**
 * Gas that a settlement needs to report the payouts. With less gas, the settlement still succeeds, but reports no
 * payouts.
 */
export const PAYOUT_GAS = 300_000n

const NO_ID: Hex = `0x${'0'.repeat(64)}`
const ERROR = [{ type: 'error', name: 'Error', inputs: [{ name: '', type: 'string' }] }] as const

const refused = (errorName: string, args: readonly unknown[] = []): Executed => ({
  revert: revertData(marketAbi, errorName, args),
})
const refusedByOracle = (why: string): Executed => ({
  revert: encodeErrorResult({ abi: ERROR, errorName: 'Error', args: [why] }),
})
const done = (logs: readonly ModelLog[]): Executed => ({ returned: '0x', logs, verdicts: [] })

export const questionIdOf = (contract: Address): Hex => keccak256(stringToHex(contract))

export const openClaimOf = ({ claims, claimId }: ChainMarket): Claim | undefined =>
  claims.find(({ id }) => id === claimId)

export class OracleModel {
  readonly #at: ChainContracts
  readonly #relay: RelayModel
  /** Window in which a proposal can be disputed. */
  livenessSec = 30

  constructor(at: ChainContracts, relay: RelayModel) {
    this.#at = at
    this.#relay = relay
  }

  /** Executes a transaction or a call to a market. */
  execute(
    market: ChainMarket,
    from: Address,
    data: Hex,
    run: { funds: Funds; gas: bigint },
  ): Executed {
    const { functionName, args } = decodedCall(marketAbi, data)
    const pays = run.gas >= PAYOUT_GAS
    if (functionName === 'settle') return this.settle(market, { by: from, pays }, run.funds)
    if (functionName === 'reportPayouts') return this.#report(market, run.funds)
    if (functionName === 'proposeResolution') return this.#proposeFor(market, from, args, run.funds)
    if (functionName !== 'settleMarket') throw new TypeError(`the model lacks ${functionName}`)
    const [by, winner] = [toAddress(String(args[0])), Number(args[1]) as Outcome]
    const flaw = this.#signedFlaw(market, { by, deadline: args[2], s: args[5] }, run.funds)
    if (flaw !== undefined) return flaw
    const claim = openClaimOf(market)
    if (market.winner === undefined && claim !== undefined) {
      if (claim.outcome !== winner) return refused('OutcomeNotAsserted', [winner])
      if (claim.truth === false) return refused('AssertionNotTrue', [claim.id])
    }
    const settled = this.settle(market, { by, pays }, run.funds)
    if (!('revert' in settled)) this.#useNonce(market, by, run.funds)
    return settled
  }

  /** Returns why a signature of an account for a market is not accepted. */
  #signedFlaw(
    { contract }: ChainMarket,
    { by, deadline, s }: { by: Address; deadline: unknown; s: unknown },
    funds: Funds,
  ): Executed | undefined {
    if (Number(deadline) < funds.nowSec) return refused('SignatureExpired', [deadline])
    const nonce = funds.wallet(by).rights.marketNonces.get(contract) ?? 0n
    if (this.#relay.isSigned(String(s), by, nonce)) return undefined
    return refused('SignerMismatch', [ZERO_ADDRESS, by])
  }

  #useNonce({ contract }: ChainMarket, by: Address, funds: Funds): void {
    const wallet = funds.wallet(by)
    const before = wallet.rights.marketNonces
    const marketNonces = new Map(before).set(contract, (before.get(contract) ?? 0n) + 1n)
    putRights(funds, by, wallet, { marketNonces })
  }

  /** Proposes an outcome in the name of the account that signed. This account or the sender pays the bond. */
  #proposeFor(
    market: ChainMarket,
    from: Address,
    args: readonly unknown[],
    funds: Funds,
  ): Executed {
    const by = toAddress(String(args[0]))
    const bond = args[6] as { payer: Hex; deadline: bigint; v: number; s: Hex }
    const flaw = this.#signedFlaw(market, { by, deadline: args[2], s: args[5] }, funds)
    if (flaw !== undefined) return flaw
    const payer = toAddress(bond.payer)
    if (payer !== by && payer !== from) return refused('NotPayer', [payer])
    if (market.winner !== undefined) return refused('AlreadyResolved', [market.winner])
    if (market.claimId !== undefined) return refused('AssertionActive', [market.claimId])
    if (funds.nowSec < market.proposableFromSec) {
      return refused('NotExpired', [BigInt(market.proposableFromSec)])
    }
    const { contract: spender } = market
    const { permits, dollars, rights } = funds.wallet(payer)
    // If the sender pays, the permit is signed by one of the relayer's own keys. The simulation does not record such
    // permits, so they always count as signed.
    const isSigned = payer === from || this.#relay.isSigned(bond.s, payer, permits)
    const isUsed = bond.v !== 0 && Number(bond.deadline) >= funds.nowSec && isSigned
    const allowed = isUsed ? BOND : (rights.allowances.get(spender) ?? 0n)
    if (allowed < BOND) return refusedByOracle('ERC20: insufficient allowance')
    if (dollars < BOND) return refusedByOracle('ERC20: transfer amount exceeds balance')
    const logs = isUsed ? [this.#relay.allow(payer, { spender, value: BOND }, funds)] : []
    const paying = funds.wallet(payer)
    const allowances = new Map(paying.rights.allowances).set(spender, allowed - BOND)
    putRights(funds, payer, paying, { allowances })
    this.#useNonce(market, by, funds)
    const { livenessSec } = this
    const proposal = { by, payer, outcome: args[1] === true ? 0 : 1, livenessSec } as const
    return done([...logs, ...this.propose(market, proposal, funds)])
  }

  /**
   * Creates an ordinary market and returns its logs. Returns no logs if the market exists or its expiration has passed.
   */
  create(
    terms: Pick<ChainMarket, 'contract' | 'marketId' | 'maker' | 'question' | 'expirationSec'>,
    funds: Funds,
  ): ModelLog[] {
    const { contract, marketId, maker, question, expirationSec } = terms
    if (expirationSec <= funds.nowSec || funds.market(contract) !== undefined) return []
    const { conditionalTokens, marketFactory } = this.#at
    funds.putMarket({
      ...{ ...terms, quick: undefined, proposableFromSec: expirationSec, description: '' },
      ...{ winner: undefined, endPrice: undefined, claims: [], claimId: undefined, isPaid: false },
    })
    funds.prepare(marketId)
    return [
      logOf(conditionalTokensAbi, conditionalTokens, 'ConditionPreparation', {
        conditionId: marketId,
        ...{ oracle: contract, questionId: questionIdOf(contract), outcomeSlotCount: 2n },
      }),
      logOf(marketFactoryAbi, marketFactory, 'MarketCreated', {
        ...{ marketId, market: contract, maker, question, description: '', category: 0 },
        expiration: BigInt(expirationSec),
      }),
    ]
  }

  /** Proposes an outcome with a bond, and returns the logs. Returns no logs if the contract refuses the proposal. */
  propose(
    market: ChainMarket,
    {
      by,
      payer = by,
      outcome,
      livenessSec,
    }: { by: Address; payer?: Address; outcome: Outcome; livenessSec: number },
    funds: Funds,
  ): ModelLog[] {
    const { nowSec } = funds
    if (market.winner !== undefined || market.claimId !== undefined) return []
    if (nowSec < market.proposableFromSec || !pay(funds, payer, ORACLE, BOND)) return []
    const { contract, marketId, claims } = market
    const id = keccak256(stringToHex(`${contract} ${by} ${nowSec} ${claims.length}`))
    const windowEndsSec = nowSec + livenessSec
    const claim: Claim = {
      ...{ id, proposer: by, asserter: payer, outcome, bond: BOND, atSec: nowSec, windowEndsSec },
      ...{ disputer: undefined, truth: undefined, settledBy: undefined },
      settledAtSec: undefined,
    }
    funds.putMarket({ ...market, claims: [...claims, claim], claimId: id })
    return [
      logOf(marketAbi, contract, 'ResolutionProposed', {
        ...{ marketId, assertionId: id, proposer: by, asserter: payer, outcome: outcome === 0 },
        ...{ bond: BOND, assertionTime: BigInt(nowSec), expirationTime: BigInt(windowEndsSec) },
      }),
    ]
  }

  /** Disputes the open claim with a bond of the same size, within its window. */
  dispute(market: ChainMarket, by: Address, funds: Funds): ModelLog[] {
    const claim = openClaimOf(market)
    if (claim === undefined || claim.settledBy !== undefined) return []
    if (claim.disputer !== undefined || funds.nowSec >= claim.windowEndsSec) return []
    if (!pay(funds, by, ORACLE, claim.bond)) return []
    putClaim(funds, market, { ...claim, disputer: by })
    const { contract, marketId } = market
    return [logOf(marketAbi, contract, 'ResolutionDisputed', { marketId, assertionId: claim.id })]
  }

  /** Decides a disputed claim, as the arbiter. */
  decide(market: ChainMarket, truth: boolean, funds: Funds): void {
    const claim = openClaimOf(market)
    if (claim?.disputer === undefined || claim.truth !== undefined) return
    putClaim(funds, market, { ...claim, truth })
  }

  /** Settles the open claim as the account `by`: at the oracle if `isAtOracle`, otherwise at the market. */
  settle(
    market: ChainMarket,
    { by, pays, isAtOracle }: { by: Address; pays: boolean; isAtOracle?: boolean },
    funds: Funds,
  ): Executed {
    if (market.winner !== undefined) return refused('AlreadyResolved', [market.winner])
    const claim = openClaimOf(market)
    if (claim === undefined) return refused('NoAssertion')
    const { disputer, truth = true, bond, asserter, windowEndsSec, outcome, id } = claim
    if (disputer === undefined && funds.nowSec < windowEndsSec) {
      return refusedByOracle('Assertion not expired')
    }
    if (disputer !== undefined && claim.truth === undefined) {
      return refusedByOracle('Price is not resolved')
    }
    if (disputer === undefined) pay(funds, ORACLE, asserter, bond)
    else {
      pay(funds, ORACLE, truth ? asserter : disputer, 2n * bond - bond / 2n)
      pay(funds, ORACLE, STORE, bond / 2n)
    }
    const settled = putClaim(funds, market, {
      ...{ ...claim, settledBy: by, settledAtSec: funds.nowSec },
    })
    const { contract, marketId } = market
    if (!truth) {
      funds.putMarket({ ...settled, claimId: undefined })
      return done([
        logOf(marketAbi, contract, 'ResolutionOverturned', { marketId, assertionId: id }),
      ])
    }
    const logs = this.resolve(settled, { winner: outcome, claimId: id, pays }, funds)
    if (isAtOracle === true) return done(logs)
    const named = { marketId, settler: by, winningOutcome: outcome }
    return done([...logs, logOf(marketAbi, contract, 'MarketSettled', named)])
  }

  /** Resolves a market, and reports its payouts if there is enough gas. */
  resolve(
    market: ChainMarket,
    { winner, claimId = NO_ID, pays }: { winner: Outcome; claimId?: Hex; pays: boolean },
    funds: Funds,
  ): ModelLog[] {
    const { marketId, contract } = market
    const args = { marketId, assertionId: claimId, winningOutcome: winner }
    funds.putMarket({ ...market, winner, isPaid: pays })
    return [
      logOf(marketAbi, contract, 'MarketResolved', args),
      pays
        ? this.#payoutLog(market, winner)
        : logOf(marketAbi, contract, 'PayoutReportFailed', { marketId }),
    ]
  }

  #report(market: ChainMarket, funds: Funds): Executed {
    const { winner, isPaid } = market
    if (winner === undefined) return refused('NotResolved')
    if (isPaid) return refusedByOracle('payout denominator already set')
    funds.putMarket({ ...market, isPaid: true })
    return done([this.#payoutLog(market, winner)])
  }

  #payoutLog({ contract, marketId }: ChainMarket, winner: Outcome): ModelLog {
    return logOf(conditionalTokensAbi, this.#at.conditionalTokens, 'ConditionResolution', {
      ...{ conditionId: marketId, oracle: contract, questionId: questionIdOf(contract) },
      ...{ outcomeSlotCount: 2n, payoutNumerators: winner === 0 ? [1n, 0n] : [0n, 1n] },
    })
  }
}

/** Moves dollars. Returns false if the balance is too low. */
function pay(funds: Funds, from: Address, to: Address, amount: bigint): boolean {
  const paying = funds.wallet(from)
  if (paying.dollars < amount) return false
  funds.put(from, { ...paying, dollars: paying.dollars - amount })
  const paid = funds.wallet(to)
  funds.put(to, { ...paid, dollars: paid.dollars + amount })
  return true
}

function putClaim(funds: Funds, market: ChainMarket, claim: Claim): ChainMarket {
  const claims = market.claims.map((each) => (each.id === claim.id ? claim : each))
  const changed = { ...market, claims }
  funds.putMarket(changed)
  return changed
}
