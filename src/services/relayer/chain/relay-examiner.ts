/**
 * Judges a relayed operation before any gas is spent: whether its owner signed it with the current nonces of the
 * contracts, and whether the chain is in the required state. Then it builds the call and simulates it from the key that
 * would send it.
 */

import { parseSignature } from 'viem'
import type { OwnAccount } from '#chain/accounts.ts'
import { type Call, gasOf, simulate } from '#chain/call.ts'
import { asked, type ChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { type BondPermit, marketContract } from '#chain/market-contract.ts'
import { multicall } from '#chain/multicall.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { stablecoin } from '#chain/stablecoin.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, MarketId, Uint256 } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type {
  Claim,
  CtfApproval,
  ProposeResolution,
  Redemption,
  RelayOperation,
  SettleMarket,
  StablecoinPermit,
} from '#domain/relay.ts'
import {
  type MessageNonces,
  permitMessage,
  type SignedMessage,
  signedMessages,
  type TypedMessage,
} from '#domain/relay-messages.ts'
import type { Stablecoin as StablecoinDomain } from '#domain/typed-data.ts'
import { type AcceptedOrders, relayCancellations } from './relay-cancellations.ts'
import type { RelayExamination, RelayTrial } from './relay-examination.ts'
import { type RelayContracts, relayFacts } from './relay-facts.ts'
import {
  invalidSignature,
  isGranted,
  isRedeemed,
  nameOf,
  payoutOf,
  proposalFlaw,
  settlementFlaw,
  unknownCondition,
  unknownMarket,
  wouldRevert,
} from './relay-flaws.ts'
import { bondGuard, grantGuard } from './relay-guards.ts'

export type RelayExaminerOptions = AcceptedOrders & {
  readonly client: ChainClient
  readonly contracts: RelayContracts
  /** Domain for which its permits are signed. */
  readonly stablecoin: StablecoinDomain
  /** Keys that can send. */
  readonly accounts: readonly OwnAccount[]
  /** Minimum holding of the owner of an approval or permit, in units of stablecoin. */
  readonly minHolding: bigint
  /** Returns the signer of the message or a rejection, and the digest. */
  readonly recover: (
    message: TypedMessage,
    signature: string,
  ) => { readonly signer: Address | { readonly flaw: string }; readonly digest: string }
  /** Returns the contract of one of our markets. */
  readonly marketAddressOf: (marketId: MarketId) => Promise<Address | undefined>
  /** Returns the owner's known outcome tokens that have not lost. */
  readonly tokensHeldBy: (owner: Address) => Promise<bigint>
  /** Smallest payout of a redemption, in units of stablecoin. */
  readonly minRedemption: bigint
  /** Returns why the owner's tokens of these outcomes cannot be redeemed yet: unsettled sales need them. */
  readonly salesFlaw: (
    owner: Address,
    redemption: Redemption,
    field: string,
  ) => Promise<Rejection | undefined>
  /** Returns the transaction that made an approval or allowance what it is, if known. */
  readonly grantedBy: (operation: CtfApproval | StablecoinPermit) => Promise<string | undefined>
  /** Returns the transaction in which the owner redeemed that market, if known. */
  readonly redeemedBy: (owner: Address, marketId: MarketId) => Promise<string | undefined>
  /** Returns the transaction that resolved the market. */
  readonly resolvedBy: (market: Address) => Promise<string | undefined>
}

type RelayExaminer = {
  examine(operation: RelayOperation): Promise<RelayExamination | Rejection>
  attempt(
    operation: RelayOperation,
    examination: RelayExamination,
    lanes: readonly Address[],
  ): Promise<RelayTrial | Rejection>
  nonces(
    owner: Address,
    marketAddress: Address | undefined,
  ): Promise<
    { conditionalTokens: string; stablecoin: string; market?: string; bond?: string } | Rejection
  >
  balances(): Promise<{ lane: Address; wei: string }[]>
}

/** Added to the simulated gas: the state may differ when it is mined. */
const GAS_MARGIN_PERCENT = 25n

/**
 * A settlement succeeds even if gas is missing to report the payouts, so the minimum gas is not enough. This is twice
 * its cost with the report.
 */
const SETTLE_GAS_MIN = 400_000n

/** Validity of the relayer's own permit for a bond. */
const OWN_PERMIT_SEC = 86_400

const NOTHING: RelayExamination = { claims: [], ownBond: false }

export function makeRelayExaminer(options: RelayExaminerOptions): RelayExaminer {
  const { client, contracts, recover } = options
  const facts = relayFacts(client, contracts)
  const tokens = conditionalTokens(client, contracts.conditionalTokens, contracts.stablecoin)
  const money = stablecoin(client, contracts.stablecoin)
  const batch = multicall(contracts.multicall)
  const accounts = new Map(options.accounts.map(({ address, account }) => [address, account]))
  const cancellations = relayCancellations(
    settlementContract(client, contracts.settlement),
    options,
  )
  const parts = {
    settlement: contracts.settlement,
    conditionalTokens: contracts.conditionalTokens,
    stablecoin: options.stablecoin,
  }

  function signatureFlaw(operation: RelayOperation, nonces: MessageNonces): Rejection | undefined {
    const messages = signedMessages(operation, parts, nonces)
    for (const [at, message] of messages.entries()) {
      const { signer, digest } = recover(message, signatureText(message))
      if (signer === operation.owner) continue
      const { nonce } = message.message
      const field = message.isBond ? 'bondR' : `${message.path}r`
      const numbered = nonce === undefined ? '' : `, with nonce ${nonce}`
      const hashed = `the digest hashed is ${digest}${numbered}`
      if (typeof signer === 'object') {
        return invalidSignature(field, `${signer.flaw}; ${hashed}`)
      }
      if (nonces.nonce > 0n && !message.isBond) {
        const before = { ...nonces, nonce: nonces.nonce - 1n }
        const used = signedMessages(operation, parts, before)[at]
        if (used !== undefined && recover(used, signatureText(used)).signer === operation.owner) {
          const detail = `the signature is for nonce ${used.message.nonce}, which has been used: the next is ${nonce}`
          return reject('INVALID_SIGNATURE', field, detail)
        }
      }
      const who = `recovered ${checksumAddress(signer)}, expected ${checksumAddress(operation.owner)}`
      return invalidSignature(field, `${who}; ${hashed}`)
    }
    return undefined
  }

  async function examineAllowance(
    operation: CtfApproval | StablecoinPermit,
  ): Promise<RelayExamination | Rejection> {
    const { owner, kind } = operation
    const spender = kind === 'ctf-approval' ? operation.operator : operation.spender
    const [{ tokensNonce, stablecoinNonce, stablecoinBalance }, granted, trading] =
      await Promise.all([
        facts.owner(owner),
        facts.grants(owner, spender),
        facts.grants(owner, contracts.settlement),
      ])
    const nonce = kind === 'ctf-approval' ? tokensNonce : stablecoinNonce
    const flaw = signatureFlaw(operation, { nonce })
    if (flaw !== undefined) return flaw
    if (isGranted(operation, granted)) {
      return { ...NOTHING, doneBy: (await options.grantedBy(operation)) ?? '' }
    }
    const poor = await holdingFlaw(owner, stablecoinBalance)
    if (poor !== undefined) return poor
    const guard = grantGuard(operation, contracts.settlement, trading.allowance)
    return guard === undefined ? NOTHING : { ...NOTHING, guard }
  }

  async function examineCancellation(
    operation: Extract<RelayOperation, { kind: 'cancel-orders' | 'cancel-all-before' }>,
  ): Promise<RelayExamination | Rejection> {
    const { owner } = operation
    const flaw = signatureFlaw(operation, { nonce: 0n })
    if (flaw !== undefined) return flaw
    const { stablecoinBalance } = await facts.owner(owner)
    const poor = await holdingFlaw(owner, stablecoinBalance)
    return poor ?? (await cancellations.flaw(operation)) ?? NOTHING
  }

  async function holdingFlaw(owner: Address, stablecoins: bigint): Promise<Rejection | undefined> {
    const { minHolding } = options
    if (stablecoins >= minHolding) return undefined
    const held = stablecoins + (await options.tokensHeldBy(owner))
    if (held >= minHolding) return undefined
    const detail =
      held === 0n
        ? 'the owner holds neither stablecoin nor outcome tokens of this exchange'
        : `the owner holds ${held} of the ${minHolding} units of stablecoin or outcome tokens that a relayed approval needs`
    return reject('INSUFFICIENT_FUNDS', 'owner', detail)
  }

  async function examineRedemptions(
    operation: Extract<RelayOperation, { kind: 'ctf-redemption' | 'batch-ctf-redemption' }>,
  ): Promise<RelayExamination | Rejection> {
    const { owner, chainId } = operation
    const isBatch = operation.kind === 'batch-ctf-redemption'
    const redemptions: readonly Redemption[] = isBatch ? operation.redemptions : [operation]
    const path = (at: number) => (isBatch ? `redemptions[${at}].` : '')
    const markets: Address[] = []
    for (const [at, { conditionId, marketAddress }] of redemptions.entries()) {
      const market = marketAddress ?? (await options.marketAddressOf(conditionId))
      if (market === undefined) return unknownCondition(path(at))
      markets.push(market)
    }
    const [ids, { tokensNonce }] = await Promise.all([facts.marketIds(markets), facts.owner(owner)])
    for (const [at, { conditionId, marketAddress }] of redemptions.entries()) {
      if (ids[at] === conditionId) continue
      if (marketAddress === undefined) return unknownCondition(path(at))
      const field = `${path(at)}marketAddress`
      const what = ids[at] === undefined ? 'a market of this exchange' : "the condition's market"
      return reject('INVALID_FIELD', field, `${field} is not ${what}`)
    }
    const flaw = signatureFlaw(operation, { nonce: tokensNonce })
    if (flaw !== undefined) return flaw
    const conditions = await facts.conditions(
      owner,
      redemptions.map(({ conditionId }) => conditionId),
    )
    if (redemptions.every((redemption, at) => isRedeemed(redemption, conditions[at]!))) {
      // For an owner who never held any, no redemption is known; the answer says so.
      const done = await Promise.all(
        redemptions.map(({ conditionId }) => options.redeemedBy(owner, conditionId)),
      )
      const doneBy = done.at(-1)
      if (doneBy !== undefined && !done.includes(undefined)) return { ...NOTHING, doneBy }
    }
    const claims: Claim[] = []
    for (const [at, redemption] of redemptions.entries()) {
      const found = payoutOf(redemption, conditions[at]!, path(at), options.minRedemption)
      if (isRejection(found)) return found
      const needed = await options.salesFlaw(owner, redemption, `${path(at)}conditionId`)
      if (needed !== undefined) return needed
      const { conditionId: marketId } = redemption
      const marketAddress = markets[at]!
      claims.push({ chainId, userAddress: owner, marketId, marketAddress, ...found })
    }
    return { claims, ownBond: false }
  }

  async function examineProposal(
    operation: ProposeResolution,
  ): Promise<RelayExamination | Rejection> {
    const { owner, marketAddress, bond } = operation
    const market = await facts.market(marketAddress, owner)
    if (market === undefined) return unknownMarket()
    const nonces = {
      nonce: market.nonce,
      bond: { nonce: market.stablecoinNonce, amount: market.bond },
    }
    // Another account may have used the permit: then the allowance exists already.
    const needsPermit = bond !== undefined && market.allowance < market.bond
    const signed = needsPermit ? operation : withoutBond(operation)
    const flaw = signatureFlaw(signed, nonces) ?? proposalFlaw(market)
    if (flaw !== undefined) return flaw
    if (bond !== undefined && market.balance < market.bond) {
      const detail = `the proposer has ${market.balance} of the ${market.bond} that the bond costs`
      return reject('INSUFFICIENT_FUNDS', 'proposer', detail)
    }
    if (bond === undefined) return { claims: [], ownBond: true }
    const { allowance } = await facts.grants(owner, contracts.settlement)
    return { claims: [], ownBond: false, guard: bondGuard(market, allowance) }
  }

  async function examineSettlement(operation: SettleMarket): Promise<RelayExamination | Rejection> {
    const { owner, marketAddress, winningOutcome } = operation
    const market = await facts.market(marketAddress, owner)
    if (market === undefined) return unknownMarket()
    const flaw = signatureFlaw(operation, { nonce: market.nonce })
    if (flaw !== undefined) return flaw
    if (market.winner === undefined) return settlementFlaw(market, winningOutcome) ?? NOTHING
    if (market.winner !== winningOutcome) {
      return wouldRevert('winningOutcome', `the market is settled: ${nameOf(market.winner)} won`)
    }
    const doneBy = await options.resolvedBy(marketAddress)
    if (doneBy !== undefined) return { ...NOTHING, doneBy }
    return wouldRevert('marketAddress', 'the market is settled already')
  }

  /** Builds the call; for the relayer's own bond it depends on the sender. */
  async function callOf(
    operation: RelayOperation,
    lane: Address,
    ownBond: boolean,
  ): Promise<Call | Rejection> {
    switch (operation.kind) {
      case 'ctf-approval': {
        const { owner, operator, approved, deadline } = operation
        const permit = { owner, operator, approved, deadline: BigInt(deadline) }
        return tokens.approveWithPermitCall(permit, operation)
      }
      case 'stablecoin-permit': {
        const { owner, spender, value, deadline } = operation
        const permit = { owner, spender, value: BigInt(value), deadline: BigInt(deadline) }
        return money.permitCall(permit, operation)
      }
      case 'ctf-redemption':
        return redeemCall(operation.owner, operation)
      case 'batch-ctf-redemption':
        return batch.aggregateCall(
          operation.redemptions.map((one) => redeemCall(operation.owner, one)),
        )
      case 'propose-resolution': {
        const { owner: proposer, marketAddress, outcome, deadline, bond } = operation
        const permit: BondPermit | Rejection = ownBond
          ? await ownPermit(marketAddress, lane, operation.chainId)
          : { payer: proposer, deadline: BigInt(bond?.deadline ?? 0), ...signatureOf(bond) }
        if (isRejection(permit)) return permit
        const proposal = { proposer, outcome, deadline: BigInt(deadline) }
        return marketContract(client, marketAddress).proposeResolutionCall(
          proposal,
          operation,
          permit,
        )
      }
      case 'settle-market': {
        const { owner: settler, marketAddress, winningOutcome, deadline } = operation
        const settlement = { settler, winningOutcome, deadline: BigInt(deadline) }
        return marketContract(client, marketAddress).settleMarketCall(settlement, operation)
      }
      case 'cancel-orders':
      case 'cancel-all-before':
        return cancellations.call(operation)
    }
  }

  function redeemCall(owner: Address, redemption: Redemption): Call {
    const { collateralToken, parentCollectionId, conditionId } = redemption
    return tokens.redeemWithPermitCall(
      {
        owner,
        collateralToken,
        parentCollectionId,
        conditionId,
        indexSets: redemption.indexSets.map(BigInt),
        deadline: BigInt(redemption.deadline),
      },
      redemption,
    )
  }

  /** Adds the relayer's own permit to the same transaction: no other account can take the bond in between. */
  async function ownPermit(
    market: Address,
    lane: Address,
    chainId: number,
  ): Promise<BondPermit | Rejection> {
    const account = accounts.get(lane)
    const found = await facts.market(market, lane)
    if (account?.signTypedData === undefined || found === undefined) return unknownMarket()
    if (found.balance < found.bond) {
      const detail = `the relayer has not the ${found.bond} that the bond costs: send a permit for it`
      return reject('RELAYER_UNAVAILABLE', undefined, detail)
    }
    const deadline = String(found.nowSec + OWN_PERMIT_SEC) as Uint256
    const value = String(found.bond) as Uint256
    const message = permitMessage(chainId, options.stablecoin, {
      owner: lane,
      spender: market,
      value,
      nonce: found.stablecoinNonce,
      deadline,
    })
    const signature = parseSignature(await account.signTypedData(message as never))
    const v = signature.yParity === 0 ? 27 : 28
    return {
      payer: lane,
      deadline: BigInt(deadline),
      signature: { v, r: signature.r, s: signature.s },
    }
  }

  /** The reason of a failed batch is inside: each call reports its own when the others may fail. */
  async function batchFlaw(operation: RelayOperation, lane: Address): Promise<string | undefined> {
    if (operation.kind !== 'batch-ctf-redemption') return undefined
    const calls = operation.redemptions.map((one) => redeemCall(operation.owner, one))
    const simulation = await simulate(client, batch.aggregateCall(calls, true), lane)
    if (!simulation.ok) return undefined
    for (const [at, result] of batch.resultsOf(simulation.returned).entries()) {
      if (!result.ok) return `redemptions[${at}]: ${result.revert.words}`
    }
    return undefined
  }

  return {
    async examine(operation) {
      switch (operation.kind) {
        case 'ctf-approval':
        case 'stablecoin-permit':
          return examineAllowance(operation)
        case 'ctf-redemption':
        case 'batch-ctf-redemption':
          return examineRedemptions(operation)
        case 'propose-resolution':
          return examineProposal(operation)
        case 'settle-market':
          return examineSettlement(operation)
        case 'cancel-orders':
        case 'cancel-all-before':
          return examineCancellation(operation)
      }
    },

    async attempt(operation, { ownBond }, lanes) {
      let refused: Rejection | undefined
      for (const lane of lanes) {
        const call = await callOf(operation, lane, ownBond)
        if (isRejection(call)) {
          // Another key may have what this one lacks.
          refused = call
          continue
        }
        const tried = await gasOf(client, call, lane)
        if (typeof tried === 'object') {
          return wouldRevert(undefined, (await batchFlaw(operation, lane)) ?? tried.words)
        }
        const least = operation.kind === 'settle-market' ? SETTLE_GAS_MIN : 0n
        const gas = (tried * (100n + GAS_MARGIN_PERCENT)) / 100n
        const { to, data } = call
        return { lane, to, data, gas: Number(gas > least ? gas : least) }
      }
      return refused ?? reject('RELAYER_UNAVAILABLE')
    },

    async nonces(owner, marketAddress) {
      const [known, market] = await Promise.all([
        facts.owner(owner),
        marketAddress === undefined ? undefined : facts.market(marketAddress, owner),
      ])
      if (marketAddress !== undefined && market === undefined) return unknownMarket('market')
      return {
        conditionalTokens: String(known.tokensNonce),
        stablecoin: String(known.stablecoinNonce),
        ...(market === undefined
          ? {}
          : { market: String(market.nonce), bond: String(market.bond) }),
      }
    },

    async balances() {
      return Promise.all(
        [...accounts].map(async ([lane, { address }]) => ({
          lane,
          wei: String(await asked(client.viem.getBalance({ address }))),
        })),
      )
    },
  }
}

function withoutBond({ bond: _, ...operation }: ProposeResolution): ProposeResolution {
  return operation
}

function signatureOf(bond: ProposeResolution['bond']): Pick<BondPermit, 'signature'> {
  return bond === undefined ? {} : { signature: bond }
}

function signatureText({ signature: { v, r, s } }: SignedMessage): string {
  return `${r}${s.slice(2)}${v.toString(16)}`
}
