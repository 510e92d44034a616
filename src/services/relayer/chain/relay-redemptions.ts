/** Checks redemptions: their markets, the signature, the payout, and whether sales still need the tokens. */

import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Claim, Redemption, RelayOperation } from '#domain/relay.ts'
import { NOTHING, type RelayExamination } from './relay-examination.ts'
import type { RelayFacts } from './relay-facts.ts'
import { isRedeemed, payoutOf, unknownCondition } from './relay-flaws.ts'
import type { RelayExaminerOptions } from './relay-options.ts'
import type { makeSignatureCheck } from './relay-signatures.ts'

export function makeRedemptionCheck(
  options: RelayExaminerOptions,
  facts: RelayFacts,
  signatureFlaw: ReturnType<typeof makeSignatureCheck>,
) {
  return async function examineRedemptions(
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
      const what = ids[at] === undefined ? 'a market of this exchange' : 'the market of conditionId'
      return reject('INVALID_FIELD', field, `${field} must be ${what}`)
    }
    const flaw = signatureFlaw(operation, { nonce: tokensNonce })
    if (flaw !== undefined) return flaw
    const conditions = await facts.conditions(
      owner,
      redemptions.map(({ conditionId }) => conditionId),
    )
    if (redemptions.every((redemption, at) => isRedeemed(redemption, conditions[at]!))) {
      // The owner has no tokens left to redeem. If the transactions of all redemptions are known, answer with the last
      // of them. If one is unknown, for example because the owner never had tokens, the checks below reject the
      // request.
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
}
