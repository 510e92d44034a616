/** Builds the contract call that executes an operation. */

import { parseSignature } from 'viem'
import type { OwnAccount } from '#chain/accounts.ts'
import { type Call, simulate } from '#chain/call.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { setDelegateWithPermitCall } from '#chain/delegates-contract.ts'
import { type BondPermit, marketContract } from '#chain/market-contract.ts'
import { multicall } from '#chain/multicall.ts'
import { stablecoin } from '#chain/stablecoin.ts'
import type { Address, Uint256 } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { ProposeResolution, Redemption, RelayOperation } from '#domain/relay.ts'
import { permitMessage } from '#domain/relay-messages.ts'
import type { relayCancellations } from './relay-cancellations.ts'
import type { RelayFacts } from './relay-facts.ts'
import { unknownMarket } from './relay-flaws.ts'
import type { RelayExaminerOptions } from './relay-options.ts'

/** Validity of a permit that the relayer signs for a bond. */
const OWN_PERMIT_SEC = 86_400

type Parts = {
  readonly facts: RelayFacts
  readonly accounts: ReadonlyMap<Address, OwnAccount['account']>
  readonly cancellations: Pick<ReturnType<typeof relayCancellations>, 'call'>
}

export function makeRelayCalls(options: RelayExaminerOptions, parts: Parts) {
  const { client, contracts } = options
  const { cancellations } = parts
  const tokens = conditionalTokens(client, contracts.conditionalTokens, contracts.stablecoin)
  const money = stablecoin(client, contracts.stablecoin)
  const batch = multicall(contracts.multicall)

  /** Builds the call of an operation. If the relayer pays the bond, the call depends on the key that sends the call. */
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
          ? await ownPermit(
              { market: marketAddress, lane, chainId: operation.chainId },
              options,
              parts,
            )
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
      case 'set-delegate': {
        const { owner: account, delegate, maxOrderSize, maxOpenNotional, markets } = operation
        return setDelegateWithPermitCall(
          contracts.settlement,
          {
            ...{ account, delegate, markets, until: BigInt(operation.until) },
            maxOrderSize: BigInt(maxOrderSize),
            maxOpenNotional: BigInt(maxOpenNotional),
            deadline: BigInt(operation.deadline),
          },
          operation,
        )
      }
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

  /**
   * Returns why a batch of redemptions would fail. Simulates the batch in a mode in which each redemption reports its
   * own reason.
   */
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

  return { callOf, batchFlaw }
}

/**
 * Signs a permit for the bond, which the relayer pays from its own stablecoin. The permit is sent as part of the
 * proposal's transaction, so that no other account can take the bond before the proposal.
 */
async function ownPermit(
  on: { readonly market: Address; readonly lane: Address; readonly chainId: number },
  options: Pick<RelayExaminerOptions, 'stablecoin'>,
  { accounts, facts }: Parts,
): Promise<BondPermit | Rejection> {
  const { market, lane, chainId } = on
  const account = accounts.get(lane)
  const found = await facts.market(market, lane)
  if (account?.signTypedData === undefined || found === undefined) return unknownMarket()
  if (found.balance < found.bond) {
    const detail =
      `the relayer cannot pay the bond of ${found.bond} millionths of the stablecoin: send a permit of the ` +
      'proposer for the bond'
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

function signatureOf(bond: ProposeResolution['bond']): Pick<BondPermit, 'signature'> {
  return bond === undefined ? {} : { signature: bond }
}
