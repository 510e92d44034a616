/** Checks an operation, depending on its kind: its signature, the owner's funds, and the state of the chain. */

import { delegationNonce } from '#chain/delegates-contract.ts'
import type { Address } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type {
  CtfApproval,
  ProposeResolution,
  RelayOperation,
  SetDelegate,
  SettleMarket,
  StablecoinPermit,
} from '#domain/relay.ts'
import type { relayCancellations } from './relay-cancellations.ts'
import { NOTHING, type RelayExamination } from './relay-examination.ts'
import type { RelayFacts } from './relay-facts.ts'
import {
  isGranted,
  nameOf,
  proposalFlaw,
  settlementFlaw,
  unknownMarket,
  wouldRevert,
} from './relay-flaws.ts'
import { bondGuard, grantGuard } from './relay-guards.ts'
import type { RelayExaminerOptions } from './relay-options.ts'
import { makeRedemptionCheck } from './relay-redemptions.ts'
import { makeContractCheck, makeSignatureCheck } from './relay-signatures.ts'

export function makeRelayChecks(
  options: RelayExaminerOptions,
  facts: RelayFacts,
  cancellations: Pick<ReturnType<typeof relayCancellations>, 'flaw'>,
) {
  const { contracts } = options
  const signatureFlaw = makeSignatureCheck(options)
  const signed = { signatureFlaw, signedBy: makeContractCheck(options) }
  const examineDelegation = makeDelegationCheck(options, facts, signed)
  const examineCancellation = makeCancellationCheck(options, facts, signed, cancellations)
  const examineRedemptions = makeRedemptionCheck(options, facts, signatureFlaw)

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
    const poor = await holdingFlaw(owner, stablecoinBalance, options)
    if (poor !== undefined) return poor
    const guard = grantGuard(operation, contracts.settlement, trading.allowance)
    return guard === undefined ? NOTHING : { ...NOTHING, guard }
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
    // The permit is not needed if the allowance is already sufficient: another account may have submitted the permit
    // before.
    const needsPermit = bond !== undefined && market.allowance < market.bond
    const signed = needsPermit ? operation : withoutBond(operation)
    const flaw = signatureFlaw(signed, nonces) ?? proposalFlaw(market)
    if (flaw !== undefined) return flaw
    if (bond !== undefined && market.balance < market.bond) {
      const detail = `the bond is ${market.bond} millionths of the stablecoin, but the proposer has only ${market.balance}`
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
    if (market.winner === winningOutcome) return settledBefore(marketAddress, options)
    return wouldRevert(
      'winningOutcome',
      `the market is already settled: ${nameOf(market.winner)} won`,
    )
  }

  return {
    examine(operation: RelayOperation): Promise<RelayExamination | Rejection> {
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
        case 'set-delegate':
          return examineDelegation(operation)
      }
    },
  }
}

type SignedChecks = {
  readonly signatureFlaw: ReturnType<typeof makeSignatureCheck>
  readonly signedBy: ReturnType<typeof makeContractCheck>
}

/**
 * Makes the check of a cancellation. The owner's key must have signed it, or the owner's contract must accept the
 * signature. For single orders, a delegate may have signed it instead.
 */
function makeCancellationCheck(
  options: RelayExaminerOptions,
  facts: Pick<RelayFacts, 'owner'>,
  { signatureFlaw, signedBy }: SignedChecks,
  cancellations: Pick<ReturnType<typeof relayCancellations>, 'flaw'>,
) {
  return async (
    operation: Extract<RelayOperation, { kind: 'cancel-orders' | 'cancel-all-before' }>,
  ): Promise<RelayExamination | Rejection> => {
    const { owner } = operation
    const flaw = signatureFlaw(operation, { nonce: 0n })
    const by = flaw === undefined ? 'owner' : await signedBy(operation, { nonce: 0n })
    if (by === undefined) return flaw ?? NOTHING
    const { stablecoinBalance } = await facts.owner(owner)
    const poor = await holdingFlaw(owner, stablecoinBalance, options)
    const examined = by === 'delegate' ? { ...NOTHING, byDelegate: true } : NOTHING
    return poor ?? (await cancellations.flaw(operation)) ?? examined
  }
}

/**
 * Makes the check of a delegation: the owner's key must have signed it, or the owner's contract must accept the
 * signature.
 */
function makeDelegationCheck(
  options: RelayExaminerOptions,
  facts: Pick<RelayFacts, 'owner'>,
  signed: SignedChecks,
) {
  return async (operation: SetDelegate): Promise<RelayExamination | Rejection> => {
    const { owner } = operation
    const nonce = await delegationNonce(options.client, options.contracts.settlement, owner)
    const flaw = signed.signatureFlaw(operation, { nonce })
    if (flaw !== undefined && !(await signed.signedBy(operation, { nonce }))) return flaw
    const { stablecoinBalance } = await facts.owner(owner)
    return (await holdingFlaw(owner, stablecoinBalance, options)) ?? NOTHING
  }
}

/** Rejects an operation if its owner holds less than `minHolding` of stablecoin and outcome tokens together. */
async function holdingFlaw(
  owner: Address,
  stablecoins: bigint,
  { minHolding, tokensHeldBy }: Pick<RelayExaminerOptions, 'minHolding' | 'tokensHeldBy'>,
): Promise<Rejection | undefined> {
  if (stablecoins >= minHolding) return undefined
  const held = stablecoins + (await tokensHeldBy(owner))
  if (held >= minHolding) return undefined
  const detail =
    held === 0n
      ? 'the owner has neither stablecoin nor outcome tokens of this exchange'
      : `the relayer needs the owner to have ${minHolding} millionths of stablecoin and outcome tokens together, but ` +
        `they have ${held}`
  return reject('INSUFFICIENT_FUNDS', 'owner', detail)
}

function withoutBond({ bond: _, ...operation }: ProposeResolution): ProposeResolution {
  return operation
}

/**
 * Returns a result with the transaction that settled the market; returns a rejection if that transaction is unknown.
 */
async function settledBefore(
  market: Address,
  { resolvedBy }: Pick<RelayExaminerOptions, 'resolvedBy'>,
): Promise<RelayExamination | Rejection> {
  const doneBy = await resolvedBy(market)
  if (doneBy !== undefined) return { ...NOTHING, doneBy }
  return wouldRevert(
    'marketAddress',
    'the market is already settled, but its settlement transaction is unknown',
  )
}
